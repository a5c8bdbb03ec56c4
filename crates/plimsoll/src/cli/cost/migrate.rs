//! `plimsoll cost migrate`: estimates the cost of moving all stored data to another store, and when it pays back.

use clap::Args;

use super::form::FormArguments;
use super::from_run::FromRun;
use super::request::WorkloadArguments;
use crate::cli::exit::Exit;
use plimsoll_base::units::{parse_duration, parse_size, parse_throughput};
use plimsoll_cost::charge::BillError;
use plimsoll_cost::migrate::Migration;
use plimsoll_cost::tiering::crosses;
use plimsoll_judge::report::decisions::migrate::{Found, document};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Arguments of `plimsoll cost migrate`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Store that has the data: a name from `plimsoll list prices`; use NAME@REGION to select one of several regions
    #[arg(long, value_name = "NAME")]
    from: String,
    /// Store that gets the data
    #[arg(long, value_name = "NAME")]
    to: String,
    /// Bytes copied per second
    #[arg(long, value_name = "RATE", default_value = "1GB/s")]
    rate: String,
    /// Time for which the source is kept after the copy
    #[arg(long, value_name = "TIME", default_value = "0s")]
    keep_source: String,
    /// Read each copy back, and send a HEAD request before its source is deleted, as `plimsoll-gateway` does
    #[arg(long)]
    verify_moves: bool,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// Parses `30d`, `12h` or another duration into seconds.
fn seconds(flag: &str, text: &str) -> Result<u64, Exit> {
    let days = text.trim().strip_suffix(['d', 'D']).and_then(|days| days.trim().parse::<u64>().ok());
    match days {
        Some(days) if days <= 36_500 => Ok(days * 86_400),
        Some(_) => Err(Exit::input(format!("{flag}: '{text}' exceeds 36,500 days"))),
        None => parse_duration(text)
            .map(|ns| ns / SECOND)
            .map_err(|e| Exit::input(format!("{flag}: {e}, or days, such as 30d"))),
    }
}

/// Prints the cost of a move.
///
/// # Errors
/// Exit code 2 if the workload, a provider or a rate is invalid.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let mut request = arguments.workload.request(&arguments.from_run)?;
    let (from, to) = (request.tariff("--from", &arguments.from)?, request.tariff("--to", &arguments.to)?);
    if (&from.offer, &from.region) == (&to.offer, &to.region) {
        return Err(Exit::input(format!("--to: {} is also the source; use another store", arguments.to)));
    }
    if request.usage.stored == 0 {
        return Err(Exit::input(
            "--storage is missing; specify the data that moves, or --put and --keep, from which it follows",
        ));
    }
    let rate = parse_throughput(&arguments.rate).map_err(|e| Exit::input(format!("--rate: {e}")))?;
    if rate < 1.0 {
        return Err(Exit::input(format!("--rate: '{}' is less than a byte per second", arguments.rate)));
    }
    let part_bytes = request.workload.part_size.as_deref().and_then(|text| parse_size(text).ok());
    let migration = Migration {
        from: &from,
        to: &to,
        month: request.usage.clone(),
        part_bytes,
        verifies: arguments.verify_moves,
        bytes_per_s: rate as u64,
        kept_s: seconds("--keep-source", &arguments.keep_source)?,
    };
    let wrong = |e: BillError| Exit::input(format!("--from {}, --to {}: {e}", arguments.from, arguments.to));
    let moved = migration.cost().map_err(wrong)?;
    let premise = request.assume_egress([&from, &to]);
    request.assume_regions(&[arguments.from.clone(), arguments.to.clone()]);
    request.assumptions.push(match crosses(&from, &to) {
        true => {
            format!("what moves leaves {} as internet egress, on top of that of the workload", from.title)
        }
        false => format!("what moves stays in the network of {}", from.title),
    });
    request.assumptions.push("objects that are written during the copy go to the destination".into());
    let found = Found { from: &from, to: &to, moved: &moved, kept_s: migration.kept_s };
    let document = document(&found, request.what(), request.notes()).warned(request.warnings());
    arguments.form.print(&document.resting_on(premise), &moved)
}
