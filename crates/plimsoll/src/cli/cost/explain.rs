//! `plimsoll cost explain`: compares a bill with the price books.

use std::path::PathBuf;

use clap::Args;

use super::form::FormArguments;
use super::log_bills::prefixes;
use super::request::PriceArguments;
use crate::cli::exit::Exit;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::Tariff;
use plimsoll_judge::advise::log_usage::MonthOfLog;
use plimsoll_judge::explain::changes::{changes, held};
use plimsoll_judge::explain::elsewhere::{elsewhere, month_of};
use plimsoll_judge::explain::explained::{Books, Explained, explain};
use plimsoll_judge::explain::inventory::{Inventory, Objects, read};
use plimsoll_judge::explain::sum::sums;
use plimsoll_judge::report::decisions::explain::{BillReport, LogPrefixes, document, prefix_rows};
use plimsoll_workload::logs::FORMATS;
use plimsoll_workload::logs::usage::usage;
use plimsoll_workload::trace::Logs;

/// Arguments of `plimsoll cost explain`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Bills: a cost and usage report of AWS, a table of Cost Explorer grouped by usage type, FOCUS, the export or a
    /// report of Google Cloud billing, or R2's usage; CSV, which may be compressed, Parquet or JSON
    #[arg(required = true, value_name = "BILL")]
    bills: Vec<PathBuf>,
    /// Inventories of the buckets: of S3 or Google Cloud Storage in CSV, ORC or Parquet, or the output of `aws s3 ls
    /// --recursive`; files and directories; may be repeated
    #[arg(long, value_name = "PATH")]
    inventory: Vec<PathBuf>,
    /// Number of parts of a key, separated by slashes, by which objects of inventories and requests of logs are added
    /// up
    #[arg(long, value_name = "N", default_value_t = 1)]
    prefix_depth: usize,
    /// Access logs of the buckets, whose requests are priced by prefix: files and directories; may be repeated
    #[arg(long, value_name = "PATH")]
    log: Vec<PathBuf>,
    /// Format of the logs [default: detected]
    #[arg(long, value_name = "NAME", value_parser = FORMATS, requires = "log")]
    log_format: Option<String>,
    /// Assume that the free allowances of the month are used up by something else
    #[arg(long)]
    without_allowances: bool,
    #[command(flatten)]
    prices: PriceArguments,
    #[command(flatten)]
    form: FormArguments,
}

/// Prints what a bill consists of, and what list prices explain.
///
/// # Errors
/// Exit code 2 if a file cannot be read or is no bill.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let prices = arguments.prices.read()?;
    let date = arguments.prices.date(&prices)?;
    let sums = sums(&arguments.bills).map_err(Exit::input)?;
    let books = Books {
        prices: &prices,
        date,
        fixed: arguments.prices.is_dated(),
        without_allowances: arguments.without_allowances,
    };
    let inventory = match arguments.inventory.is_empty() {
        true => None,
        false => Some(read(&arguments.inventory, arguments.prefix_depth).map_err(Exit::input)?),
    };
    let mut report = report(explain(&sums, &books), inventory.as_ref(), &books);
    report.requests = requests(arguments, &report.bill, &books)?;
    let names: Vec<String> = arguments.bills.iter().map(|path| path.display().to_string()).collect();
    let of = match arguments.prices.is_dated() {
        true => format!("prices of {date}"),
        false => "prices of each month".into(),
    };
    let mut document = document(&report, vec![format!("{}: {of}", names.join(", "))]);
    document.notes.extend(arguments.prices.discounts().map(|text| format!("assumed: {text}")));
    document.notes.extend(prices.not_valid(date).into_iter().map(|text| format!("not used: {text}")));
    arguments.form.print(&document, &report)
}

/// Returns the requests of logs by prefix, at list prices of the offer that stores most of the data.
fn requests(arguments: &Arguments, bill: &Explained, books: &Books<'_>) -> Result<Option<LogPrefixes>, Exit> {
    if arguments.log.is_empty() {
        return Ok(None);
    }
    let logs = Logs { files: arguments.log.clone(), format: arguments.log_format.clone(), ..Logs::default() };
    let log = usage(&logs, arguments.prefix_depth).map_err(Exit::input)?;
    let (offer, region) = month_of(bill, 0).main.ok_or_else(|| {
        Exit::input(
            "--log: the bill has no storage with a quantity, so the prices of the requests are unknown",
        )
    })?;
    let tariff = books.prices.tariff(offer, Some(&region), books.date).map_err(Exit::input)?;
    let month = MonthOfLog {
        log: &log,
        factor: 1.0,
        stored: 0,
        object_bytes: None,
        egress: Some(0.0),
        without_allowances: true,
    };
    let rows = prefixes(&month, std::slice::from_ref(&tariff));
    Ok(Some(LogPrefixes { offer: offer.into(), region, rows }))
}

/// Adds what would change the bill.
fn report(bill: Explained, inventory: Option<&Inventory>, books: &Books<'_>) -> BillReport {
    let date = bill.lines.iter().filter_map(|line| line.month.as_deref()?.parse().ok()).max();
    let date = date.filter(|_| !books.fixed).unwrap_or(books.date);
    // A bill with quantities of a part of a month says nothing about a month.
    let is_partial = bill.is_partial();
    let changes = match is_partial {
        true => Vec::new(),
        false => changes(&held(&bill, inventory), books, date),
    };
    let mean = inventory.map_or(0, |inventory| {
        let mut all = Objects::default();
        inventory.classes().values().for_each(|objects| all.merge(objects));
        all.bytes.checked_div(all.objects).unwrap_or(0)
    });
    let month = month_of(&bill, mean);
    let stores: Vec<Tariff> = books
        .prices
        .stores()
        .into_iter()
        .filter_map(|name| books.prices.tariff(name, None, books.date).ok())
        .collect();
    let from =
        month.main.as_ref().and_then(|(offer, region)| books.prices.tariff(offer, Some(region), date).ok());
    let months = bill.months();
    let now = Usd::from_pico(bill.compared_usd().pico() / i128::from(months));
    let from = from.filter(|_| !is_partial);
    let elsewhere = from.map(|from| elsewhere(&month, &from, now, &stores)).unwrap_or_default();
    let cost_of = |class: &str, bytes: u64| bill.storage_of(class, bytes, months);
    let prefixes = inventory.map(|inventory| prefix_rows(inventory, &cost_of)).unwrap_or_default();
    BillReport { prefixes, requests: None, changes, elsewhere, bill }
}
