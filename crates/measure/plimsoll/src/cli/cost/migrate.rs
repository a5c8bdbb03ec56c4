//! `plimsoll cost migrate`: estimates the cost of moving all stored data to another store, and when it pays back.

use clap::Args;

use super::form::FormArguments;
use super::from_run::FromRun;
use super::request::WorkloadArguments;
use crate::cli::exit::Exit;
use plimsoll_base::units::{parse_duration, parse_size, parse_throughput};
use plimsoll_cost::charge::BillError;
use plimsoll_cost::migrate::{Migration, Way};
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::workload::parts;
use plimsoll_report::decisions::migrate::{MigrationAnswer, document};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Maximum length of a copy: a hundred years.
const MAX_S: u64 = 100 * 365 * 86_400;

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
    /// Leave out the egress of the move, because the provider of the source waives it
    #[arg(long)]
    egress_waiver: bool,
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

/// Returns the tariffs of the source and the destination, with their regions in the titles if those are the same.
fn tariffs(arguments: &Arguments, request: &CostRequest) -> Result<(Tariff, Tariff), Exit> {
    let (mut from, mut to) =
        (request.tariff("--from", &arguments.from)?, request.tariff("--to", &arguments.to)?);
    if (&from.offer, &from.region) == (&to.offer, &to.region) {
        return Err(Exit::input(format!("--to: {} is also the source; use another store", arguments.to)));
    }
    if from.title == to.title {
        for tariff in [&mut from, &mut to] {
            tariff.title = format!("{} in {}", tariff.title, tariff.region);
        }
    }
    Ok((from, to))
}

/// Returns the size of the parts in which the objects are written. They are, even if the workload writes none.
fn part_bytes(request: &mut CostRequest) -> Result<Option<u64>, Exit> {
    let part = request.workload.part_size.as_deref().and_then(|text| parse_size(text).ok());
    let object = request.usage.object_bytes;
    let large = parts(object, part).map_err(|e| Exit::input(format!("--part-size: {}", e.message)))?;
    request.assumptions.extend(large);
    if part.is_some_and(|part| part < object) {
        request.not_used.retain(|value| !value.starts_with("--part-size"));
    }
    Ok(part)
}

/// Returns what is assumed about the way on which the data moves, and about regions that are not named.
fn assumptions(arguments: &Arguments, request: &CostRequest, migration: &Migration<'_>) -> Vec<String> {
    let Migration { from, to, .. } = migration;
    let mut out = Vec::new();
    for (flag, written, tariff) in [("--from", &arguments.from, from), ("--to", &arguments.to, to)] {
        if !written.contains('@') && request.prices.assumed_region(written).is_some() {
            out.push(format!("{written} is in {} ({flag} {written}@REGION)", tariff.region));
        }
    }
    out.extend(match migration.way() {
        Way::Internet if migration.waived => {
            Some(format!("{} waives the egress of the move (--egress-waiver)", from.title))
        }
        Way::Internet => Some(format!(
            "what moves leaves {} as internet egress, on top of that of the workload",
            from.title
        )),
        Way::Network => Some(format!("what moves stays in the network of {}", from.title)),
        Way::Regions => Some(format!("what moves goes from {} to {} in one network", from.region, to.region)),
        Way::Lifecycle => None,
    });
    out.push("objects that are written during the move go to the destination".into());
    out
}

/// Prints the cost of a move.
///
/// # Errors
/// Exit code 2 if the workload, a provider or a rate is invalid.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let mut request = arguments.workload.request(&arguments.from_run)?;
    let (from, to) = tariffs(arguments, &request)?;
    if request.usage.stored == 0 {
        return Err(Exit::input(
            "--storage is missing; specify the data that moves, or --put and --keep, from which it follows",
        ));
    }
    let rate = parse_throughput(&arguments.rate).map_err(|e| Exit::input(format!("--rate: {e}")))?;
    let migration = Migration {
        from: &from,
        to: &to,
        month: request.usage.clone(),
        part_bytes: part_bytes(&mut request)?,
        verifies: arguments.verify_moves,
        waived: arguments.egress_waiver,
        bytes_per_s: rate as u64,
        kept_s: seconds("--keep-source", &arguments.keep_source)?,
    };
    if rate < 1.0 || migration.copy_s() > MAX_S {
        let rate = &arguments.rate;
        return Err(Exit::input(format!("--rate: the copy would take more than a hundred years at {rate}")));
    }
    let wrong = |e: BillError| {
        let hint = match e {
            BillError::Refused { .. } => " (a lower --rate spreads the move over more months)",
            _ => "",
        };
        Exit::input(format!("--from {}, --to {}: {e}{hint}", arguments.from, arguments.to))
    };
    if migration.waived && migration.way() != Way::Internet {
        request.not_used.push("--egress-waiver, because what moves is not egress".into());
    }
    let moved = migration.cost().map_err(wrong)?;
    let premise = request.assume([&from, &to]);
    let more = assumptions(arguments, &request, &migration);
    request.assumptions.extend(more);
    let found = MigrationAnswer {
        from: &from,
        to: &to,
        moved: &moved,
        way: migration.way(),
        kept_s: migration.kept_s,
    };
    let document = document(&found, request.what(), request.notes()).warned(request.warnings());
    arguments.form.print(&document.resting_on(premise), &moved)
}
