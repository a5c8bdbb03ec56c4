//! `plimsoll-gateway plan`: what the rules would move now, and what it costs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::civil::Date;
use plimsoll::clock::wall_now;
use plimsoll::report::document::Document;
use plimsoll::server::reserve::Memory;
use plimsoll::text::outgoing;

use super::Exit;
use super::out::say;
use super::place::{Opened, Place};
use crate::config::Config;
use crate::object::Store;
use crate::plan::bill::{Bill, PricedTier, bill};
use crate::plan::page::document;
use crate::plan::{Terms, plan as compute};
use crate::tier::Tier;

/// Arguments of `plimsoll-gateway plan`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Settings of a gateway over several tiers, a TOML file; the gateway may be running
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace a setting and show the difference, such as pack.segment=128MiB or "move.0.when=age > 30d"
    #[arg(long, value_name = "NAME=VALUE")]
    what_if: Vec<String>,
    /// Use the prices of this date [default: today]
    #[arg(long, value_name = "DATE")]
    date: Option<Date>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    format: Form,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the output to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Formats of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Tables for the terminal
    Table,
    /// JSON, with amounts as decimal strings
    Json,
    /// Markdown for comments and pages
    Markdown,
    /// HTML page that works offline
    Html,
}

/// Returns the prices of all tiers by their numbers.
fn tiers(
    place: &Place,
    config: &Config,
    opened: &Opened,
    date: Date,
) -> Result<BTreeMap<u16, PricedTier>, Exit> {
    let mut prices = place.prices(config, &opened.backends, date)?;
    let tier = |(number, tier): (u16, &Tier)| {
        let prices = prices.remove(&tier.name).flatten();
        (number, PricedTier { name: tier.name.clone(), prices })
    };
    Ok(opened.bodies.blobs.tiers().iter().map(tier).collect())
}

fn compute_bill(arguments: &Arguments, changes: &[String], date: Date) -> Result<Bill, Exit> {
    let config = Config::load_with(&arguments.file, changes).map_err(Exit::input)?;
    let place = Place::of_file(&arguments.file);
    place.must_exist()?;
    let (_snapshot, opened) = place.open_copy(config.clone())?;
    let tiers = tiers(&place, &config, &opened, date)?;
    let Opened { catalog, bodies, rules, .. } = opened;
    let store =
        Store::open(Arc::clone(&catalog), bodies, Memory::new(u64::MAX)).map_err(|e| place.fail(&e))?;
    let tariff = |(number, tier): (&u16, &PricedTier)| Some((*number, tier.prices.as_ref()?.tariff.clone()));
    let tariffs = tiers.iter().filter_map(tariff).collect();
    let terms = Terms { tariffs: &tariffs, home: rules.home, now_ms: wall_now().as_millisecond() as u64 };
    let plan = compute(&store, &rules, &terms).map_err(|e| place.fail(&e))?;
    bill(&plan, &tiers).map_err(|e| place.fail(&e))
}

/// Computes and prints the plan.
///
/// # Errors
/// Exit code 2 for invalid settings or unknown prices, 3 if the catalog cannot be used.
pub fn plan(arguments: &Arguments) -> Result<(), Exit> {
    let date = arguments.date.unwrap_or_else(|| wall_now().to_zoned(jiff::tz::TimeZone::UTC).date());
    let current = compute_bill(arguments, &[], date)?;
    let changed = match arguments.what_if.as_slice() {
        [] => None,
        changes => Some((changes.join(", "), compute_bill(arguments, changes, date)?)),
    };
    let variant = changed.as_ref().map(|(changes, bill)| (changes.as_str(), bill));
    let place = arguments.file.display().to_string();
    let page = document(&place, &date.to_string(), &current, variant);
    print(arguments, &page, variant.map_or(&current, |(_, bill)| bill))
}

fn print(arguments: &Arguments, page: &Document, value: &Bill) -> Result<(), Exit> {
    let text = match if arguments.json { Form::Json } else { arguments.format } {
        Form::Table => page.terminal(),
        Form::Json => {
            let json = serde_json::to_string_pretty(&page.headed(value)).map_err(Exit::input)?;
            format!("{json}\n")
        }
        Form::Markdown => page.markdown(),
        Form::Html => page.html().map_err(|e| Exit::input(format!("--format html: {e}")))?,
    };
    match &arguments.output {
        Some(path) => std::fs::write(path, &*outgoing(&text))
            .map_err(|e| Exit::input(format!("--output {}: {e}; choose another file", path.display()))),
        None => say(&text),
    }
}
