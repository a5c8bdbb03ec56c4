//! `plimsoll cost explain`: compares a bill with the price books.

use std::path::PathBuf;

use clap::Args;

use super::form::FormArguments;
use super::log_bills::prefixes;
use super::request::PriceArguments;
use crate::cli::exit::Exit;
use plimsoll_bills::advise::log_usage::MonthOfLog;
use plimsoll_bills::explain::changes::{changes, held};
use plimsoll_bills::explain::elsewhere::{elsewhere, month_of};
use plimsoll_bills::explain::explained::{Books, Explained, explain};
use plimsoll_bills::explain::inventory::{Inventory, Objects, read};
use plimsoll_bills::explain::sum::sums;
use plimsoll_cost::tariff::Tariff;
use plimsoll_experiment::logs::FORMATS;
use plimsoll_experiment::logs::usage::usage;
use plimsoll_report::decisions::explain::{BillReport, document, prefix_rows};
use plimsoll_report::decisions::log_prefixes::LogPrefixes;
use plimsoll_workload::trace::Logs;

/// Arguments of `plimsoll cost explain`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Bills: a cost and usage report of AWS, a table of Cost Explorer grouped by usage type, FOCUS, the export or a
    /// table of Google Cloud billing, or R2's usage; CSV, which may be compressed, Parquet or JSON
    #[arg(required = true, value_name = "BILL")]
    bills: Vec<PathBuf>,
    /// Inventories of the buckets: of S3 or Google Cloud Storage in CSV, ORC or Parquet, or the output of `aws s3 ls
    /// --recursive`; files and directories; may be repeated
    #[arg(long, value_name = "PATH")]
    inventory: Vec<PathBuf>,
    /// Number of parts of a key, separated by slashes, that form a prefix of inventories and logs [default: 1]
    #[arg(long, value_name = "N")]
    prefix_depth: Option<usize>,
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

impl Arguments {
    fn depth(&self) -> usize {
        self.prefix_depth.unwrap_or(1)
    }

    /// Returns notes about input that does not enter the figures.
    fn unused(&self) -> Vec<String> {
        let is_unused = self.prefix_depth.is_some() && self.inventory.is_empty() && self.log.is_empty();
        let unused = is_unused.then(|| "not used: --prefix-depth, without --inventory or --log".to_string());
        unused.into_iter().collect()
    }
}

/// Prints the parts of a bill, and their costs at list prices.
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
        false => Some(read(&arguments.inventory, arguments.depth()).map_err(Exit::input)?),
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
    document.notes.extend(arguments.unused());
    let without_size = inventory.as_ref().map_or(0, |inventory| inventory.without_size);
    if without_size > 0 {
        document.notes.push(format!(
            "not counted: {without_size} delete markers, or rows without a size, of the inventory"
        ));
    }
    document.notes.extend(prices.not_valid(date).into_iter().map(|text| format!("not used: {text}")));
    arguments.form.print(&document, &report)
}

/// Returns the requests of logs by prefix, at list prices of the offer that stores most of the data.
fn requests(arguments: &Arguments, bill: &Explained, books: &Books<'_>) -> Result<Option<LogPrefixes>, Exit> {
    if arguments.log.is_empty() {
        return Ok(None);
    }
    let logs = Logs { files: arguments.log.clone(), format: arguments.log_format.clone(), ..Logs::default() };
    let log = usage(&logs, arguments.depth()).map_err(Exit::input)?;
    let main = bill.month_now().and_then(|now| month_of(bill, now, 0).main);
    let (offer, region) = main.ok_or_else(|| {
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
    let mut out =
        BillReport { prefixes: Vec::new(), requests: None, changes: Vec::new(), elsewhere: Vec::new(), bill };
    let bill = &out.bill;
    let date = bill.lines.iter().filter_map(|line| line.month).max();
    let date = date.filter(|_| !books.fixed).unwrap_or(books.date);
    // A part of a month says nothing about a month.
    let Some(now) = bill.month_now() else {
        out.prefixes = inventory.map(|inventory| prefix_rows(inventory, &|_, _| None)).unwrap_or_default();
        return out;
    };
    let mean = inventory.map_or(0, |inventory| {
        let mut all = Objects::default();
        inventory.classes().values().for_each(|objects| all.merge(objects));
        all.bytes.checked_div(all.objects).unwrap_or(0)
    });
    let month = month_of(bill, now, mean);
    let stores: Vec<Tariff> = books
        .prices
        .stores()
        .into_iter()
        .filter_map(|name| books.prices.tariff(name, None, books.date).ok())
        .collect();
    let from =
        month.main.as_ref().and_then(|(offer, region)| books.prices.tariff(offer, Some(region), date).ok());
    let compared = bill.compared_usd(now);
    let cost_of = |class: &str, bytes: u64| bill.storage_of(class, bytes, now);
    let prefixes = inventory.map(|inventory| prefix_rows(inventory, &cost_of)).unwrap_or_default();
    let elsewhere = from.map(|from| elsewhere(&month, &from, compared, &stores)).unwrap_or_default();
    let changes = changes(&held(bill, now, inventory), books, date);
    BillReport { prefixes, changes, elsewhere, ..out }
}
