//! `plimsoll cost from-log`: estimates the monthly bill of the requests in an access log.

use std::path::PathBuf;

use clap::Args;

use super::form::FormArguments;
use super::log_bills::price;
use super::request::PriceArguments;
use crate::cli::exit::Exit;
use crate::cli::replay::columns;
use plimsoll_base::units::{format_bytes, format_count, format_volume, parse_volume};
use plimsoll_bills::advise::log_usage::{MonthOfLog, factor};
use plimsoll_cost::money::decimal;
use plimsoll_cost::workload::object_size;
use plimsoll_experiment::logs::FORMATS;
use plimsoll_experiment::logs::usage::{LogUsage, usage};
use plimsoll_report::decisions::from_log::document;
use plimsoll_report::decisions::migrate::time;
use plimsoll_workload::trace::Logs;

/// Arguments of `plimsoll cost from-log`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Logs of requests: files, which may be compressed with gzip or Zstandard, and directories with files
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Format of the logs [default: detected]
    #[arg(long, value_name = "NAME", value_parser = FORMATS)]
    log_format: Option<String>,
    /// Other name of a column of a CSV log than time, operation, key, size, bytes, status or bucket; may be repeated
    #[arg(long, value_name = "COLUMN=NAME")]
    columns: Vec<String>,
    /// Provider: a name from `plimsoll list prices`; use NAME@REGION to select one of several regions; may be
    /// repeated [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    provider: Vec<String>,
    /// Data stored, averaged over the month, which a log does not contain
    #[arg(long, value_name = "DATA")]
    storage: Option<String>,
    /// Share of the data read that is sent to the internet: 30% [default: all at providers without compute, none at
    /// others]
    #[arg(long, value_name = "SHARE")]
    egress: Option<String>,
    /// Mean size of an object [default: the mean size in the log]
    #[arg(long, value_name = "SIZE")]
    object_size: Option<String>,
    /// Number of parts of a key, separated by slashes, by which requests are added up
    #[arg(long, value_name = "N", default_value_t = 1)]
    prefix_depth: usize,
    /// Bill the requests of the log as those of one month, instead of a month at their rate
    #[arg(long)]
    as_month: bool,
    /// Assume that the free allowances of the month are used up
    #[arg(long)]
    without_allowances: bool,
    #[command(flatten)]
    prices: PriceArguments,
    #[command(flatten)]
    form: FormArguments,
}

/// Parses the share of the reads that is sent to the internet, such as `30%`.
pub fn share(text: &str) -> Result<f64, Exit> {
    let percent = text.trim().strip_suffix('%').and_then(|text| decimal(text.trim()));
    let percent = percent.map(|pico| pico as f64 / 1e12).filter(|percent| *percent <= 100.0);
    percent.map(|percent| percent / 100.0).ok_or_else(|| {
        Exit::input(format!("--egress: '{text}' is not a share of the data read; use 0% to 100%"))
    })
}

impl Arguments {
    fn month<'a>(&self, log: &'a LogUsage) -> Result<MonthOfLog<'a>, Exit> {
        let wrong = |flag: &str, e: &dyn std::fmt::Display| Exit::input(format!("{flag}: {e}"));
        let factor = match (self.as_month, factor(log)) {
            (true, _) => 1.0,
            (false, Some(factor)) => factor,
            (false, None) => {
                return Err(Exit::input(
                    "the log covers less than ten seconds, from which a month does not follow; use a longer log, or \
                     --as-month",
                ));
            }
        };
        let size = self.object_size.as_deref().map(|text| object_size("object_size", text)).transpose();
        let stored = self.storage.as_deref().map(parse_volume).transpose();
        Ok(MonthOfLog {
            log,
            factor,
            stored: stored.map_err(|e| wrong("--storage", &e))?.unwrap_or(0),
            object_bytes: size.map_err(|e| wrong("--object-size", &e.message))?,
            egress: self.egress.as_deref().map(share).transpose()?,
            without_allowances: self.without_allowances,
        })
    }
}

/// Returns what is assumed about the month, and what the log lacks.
fn assumptions(month: &MonthOfLog<'_>) -> Vec<String> {
    let (log, mut out) = (month.log, Vec::new());
    let covered = time(log.last_ns.saturating_sub(log.first_ns).max(0) as f64 / 1e9);
    if (month.factor - 1.0).abs() > f64::EPSILON {
        out.push(format!("a month of 730 hours at the rate of the log, which covers {covered} (--as-month)"));
    }
    match month.mean_object() {
        0 => out.push(
            "the size of the objects is unknown, so rules for small objects do not apply (--object-size)"
                .into(),
        ),
        bytes if month.object_bytes.is_none() => {
            out.push(format!(
                "objects are {}, the mean of those in the log (--object-size)",
                format_bytes(bytes)
            ));
        }
        _ => {}
    }
    if log.all.unknown_bytes > 0 {
        let count = format_count(log.all.unknown_bytes);
        out.push(format!("the log lacks the bytes of {count} uploads, reads or copies; they count as 0"));
    }
    if !log.unknown.is_empty() {
        let names: Vec<String> =
            log.unknown.iter().map(|(name, n)| format!("{} {name}", format_count(*n))).collect();
        out.push(format!("requests of unknown kinds are left out: {}", names.join(", ")));
    }
    out
}

/// Prints the monthly bills of the requests in a log.
///
/// # Errors
/// Exit code 2 if a log cannot be read, or a provider or value is invalid.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let logs = Logs {
        files: arguments.logs.clone(),
        format: arguments.log_format.clone(),
        columns: columns(&arguments.columns)?,
        ..Logs::default()
    };
    let names: Vec<String> = arguments.logs.iter().map(|path| path.display().to_string()).collect();
    let prices = arguments.prices.read()?;
    let date = arguments.prices.date(&prices)?;
    let log = usage(&logs, arguments.prefix_depth).map_err(Exit::input)?;
    let month = arguments.month(&log)?;
    let assumed = assumptions(&month);
    let priced = price(&month, assumed, &arguments.provider, &arguments.prices, prices, date)?;
    let what = format!(
        "{}: {} requests, {} written, {} read; prices of {date}",
        names.join(", "),
        format_count(log.all.total()),
        format_volume(log.all.uploaded),
        format_volume(log.all.downloaded)
    );
    let mut warnings = priced.warnings;
    if month.stored == 0 {
        warnings.insert(
            0,
            "the bills contain no storage, because a log does not say how much is stored (--storage)".into(),
        );
    }
    let document = document(&priced.found, vec![what]).warned(warnings);
    arguments.form.print(&document.resting_on(priced.premise), &priced.found)
}
