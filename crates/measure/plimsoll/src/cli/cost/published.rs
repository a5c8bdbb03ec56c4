//! `plimsoll cost --as-published`: compares the bill of a published calculator with the real bill.

use serde::Serialize;

use super::form::FormArguments;
use super::request::WorkloadArguments;
use crate::cli::exit::Exit;
use plimsoll_cost::claims::{Beside, Checked, beside, check, day_of, workload};
use plimsoll_cost::egress_assumption::assumption;
use plimsoll_cost::published::named;
use plimsoll_cost::request::in_words;
use plimsoll_cost::workload::Workload;
use plimsoll_report::decisions::published::document;

/// The JSON output of `plimsoll cost --as-published`.
#[derive(Serialize)]
struct AsPublished {
    document: String,
    source: String,
    bills: Vec<Beside>,
    claims: Vec<Checked>,
}

/// Prints the bill of a published calculator, the real bill, and the checks of the printed costs.
///
/// # Errors
/// Exit code 2 if the document computes no costs or contains no prices for the workload.
pub fn as_published(
    name: &str,
    replicated: bool,
    arguments: &WorkloadArguments,
    form: &FormArguments,
) -> Result<(), Exit> {
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--as-published {name}: {e}"));
    let published = named(name).map_err(|e| wrong(&e))?;
    let prices = arguments.prices.read()?;
    let date = arguments.prices.date(&prices)?;
    let checked = check(&published, &prices, date).map_err(|e| wrong(&e))?;
    let default_workload = published.calculator.as_ref().map(|c| c.workload.clone()).unwrap_or_default();
    let (given, text) = arguments.given()?;
    let without_allowances = given.without_allowances;
    let empty = Workload { without_allowances, ..Workload::default() };
    let request = match given == empty {
        true => Workload { without_allowances, ..workload(&default_workload).map_err(|e| wrong(&e))? },
        false => given,
    };
    if replicated && !published.calculator.as_ref().is_some_and(|c| c.replication) {
        return Err(Exit::input(format!(
            "--cross-az: the calculator of {} has no replication option; omit --cross-az",
            published.name
        )));
    }
    let resolved = request.resolve().map_err(|e| arguments.located(&e, text.as_deref()))?;
    let usage = resolved.usage;
    let day = day_of(&published, date).map_err(|e| wrong(&e))?;
    let beside = beside(&published, &prices, date, &usage, replicated).map_err(|e| wrong(&e))?;
    let what = vec![
        format!("{} ({}, {})", published.title, published.source, published.date),
        format!("Monthly usage: {}; real prices of {day} and of {date}", in_words(&usage)),
    ];
    let mut notes = vec![
        "as published: computed with the document's own constants, including wrong constants".to_string(),
        format!(
            "real: prices of {day}, {}",
            match published.calculator.as_ref().and_then(|c| c.date.as_ref()) {
                Some(_) =>
                    "the date of the document, followed by prices of the --as-of date (default: today)",
                None => "the --as-of date (default: today), because the document has no date",
            }
        ),
        "follows: recomputed with the same constants for the workload in the claim".to_string(),
    ];
    if replicated {
        notes.push(
            "real, with the copy: a second bucket in another zone, with its own storage, PUTs and uploads"
                .into(),
        );
    }
    notes.extend(resolved.assumptions.iter().map(|a| format!("assumed: {a}")));
    let mut premise = None;
    if let Some(calculator) = &published.calculator {
        let real = calculator.offers.iter().map(|stand| prices.tariff(&stand.real, None, day));
        let real: Vec<_> = real.collect::<Result<_, _>>().map_err(|e| wrong(&e))?;
        premise = assumption(&usage, &real);
    }
    let head = format!("Costs as published in {}", published.name);
    let document = document(head, what, &beside, &checked, notes).resting_on(premise);
    let value = AsPublished {
        document: published.name.clone(),
        source: published.source.clone(),
        bills: beside,
        claims: checked,
    };
    form.print(&document, &value)
}
