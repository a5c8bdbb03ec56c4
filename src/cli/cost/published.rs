//! `plimsoll cost --as-published`: a published calculator with its own constants, and the real bill beside it.

use serde::Serialize;

use super::asked::{WorkloadArguments, in_words};
use super::form::FormArguments;
use crate::cli::exit::Exit;
use crate::cost::claims::{Beside, Checked, beside, check, workload};
use crate::cost::workload::Workload;
use crate::published::named;
use crate::report::decisions::published::document;

/// What it came to, for programs.
#[derive(Serialize)]
struct AsPublished {
    document: String,
    source: String,
    bills: Vec<Beside>,
    claims: Vec<Checked>,
}

/// Prints it.
///
/// # Errors
/// 2 for a document that computes no costs, or a workload that it has no prices for.
pub fn as_published(name: &str, arguments: &WorkloadArguments, form: &FormArguments) -> Result<(), Exit> {
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--as-published {name}: {e}"));
    let published = named(name).map_err(|e| wrong(&e))?;
    let (date, prices) = (arguments.prices.date()?, arguments.prices.read()?);
    let checked = check(&published, &prices, date).map_err(|e| wrong(&e))?;
    let words = published.calculator.as_ref().map(|c| c.workload.clone()).unwrap_or_default();
    let (given, text) = arguments.given()?;
    let without_allowances = given.without_allowances;
    let nothing = Workload { without_allowances, ..Workload::default() };
    let asked = match given == nothing {
        true => Workload { without_allowances, ..workload(&words).map_err(|e| wrong(&e))? },
        false => given,
    };
    let resolved = asked.resolve().map_err(|e| arguments.located(&e, text.as_deref()))?;
    let usage = resolved.usage;
    let beside = beside(&published, &prices, date, &usage).map_err(|e| wrong(&e))?;
    let what = vec![
        format!("{} ({}, {})", published.title, published.source, published.date),
        format!("A month of {}; real prices of {date}", in_words(&usage)),
    ];
    let mut notes = vec![
        "as published: with the document's own constants, wrong ones included".to_string(),
        "by real prices: those of the day that --as-of names, else of today".to_string(),
        "follows: what the same constants come to for what the sentence says".to_string(),
    ];
    notes.extend(resolved.assumptions.iter().map(|a| format!("assumed: {a}")));
    if arguments.prices.is_dated() {
        notes.push("why: written of the prices of 2026; what held on another day may differ".into());
    }
    let head = format!("Costs as published in {}", published.name);
    let document = document(head, what, &beside, &checked, notes);
    let value = AsPublished {
        document: published.name.clone(),
        source: published.source.clone(),
        bills: beside,
        claims: checked,
    };
    form.print(&document, &value)
}
