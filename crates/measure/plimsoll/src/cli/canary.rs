//! `plimsoll run canary`: one operation per interval, without an end, and its history by day.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::exit::Exit;
use super::out::{note, progress, say};
use super::run_options::live;
use super::signals;
use plimsoll_base::clock::wall_now;
use plimsoll_base::units::{format_count, format_ms, parse_duration, parse_size};
use plimsoll_canary::day::Day;
use plimsoll_canary::history::{History, days};
use plimsoll_canary::target::CanaryStore;
use plimsoll_canary::{CanaryCounts, Listener, Schedule, watch};
use plimsoll_document::{Table, terminal};
use plimsoll_engine::driver::Control;
use plimsoll_report::text::percentile::cell;
use plimsoll_s3::url::StoreUrl;
use plimsoll_session::RunError;
use plimsoll_session::open;

/// Arguments of `plimsoll run canary`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Store to watch: a URL or a name from plimsoll.toml
    #[arg(long, value_name = "STORE", required_unless_present = "show")]
    store: Option<String>,
    /// Time between two operations
    #[arg(long, value_name = "TIME", default_value = "10s")]
    every: String,
    /// Size of the object, at most 1MiB
    #[arg(long, default_value = "1KiB")]
    size: String,
    /// Deadline of each operation
    #[arg(long, value_name = "TIME", default_value = "10s")]
    timeout: String,
    /// Directory with the history, one file for each day in UTC
    #[arg(long, value_name = "DIR", default_value = "plimsoll-canary")]
    dir: PathBuf,
    /// Number of days in the history; older ones are removed
    #[arg(long, value_name = "DAYS", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    keep: u32,
    /// Number of operations after which the canary ends, with exit code 1 if one has failed [default: it does not end]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Serve Prometheus metrics on this address at /metrics; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// Send metrics to this collector every ten seconds: otlp+http://host:4318, or
    /// influx+http://host:8086/api/v2/write?org=ORG&bucket=BUCKET; may be repeated
    #[arg(long, value_name = "URL")]
    metrics_to: Vec<String>,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    /// Show the history, and send nothing
    #[arg(long, conflicts_with = "store")]
    show: bool,
    /// With --show: print JSON instead of the table
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Returns the interval, the deadline and the size.
    fn check(&self) -> Result<(u64, Duration, u64), Exit> {
        let time = |flag: &str, text: &str| {
            let ns = parse_duration(text).map_err(|e| Exit::input(format!("{flag}: {e}")))?;
            Some(ns)
                .filter(|ns| *ns > 0)
                .ok_or_else(|| Exit::input(format!("{flag} {text}: must be above 0")))
        };
        let size = parse_size(&self.size).map_err(|e| Exit::input(format!("--size: {e}")))?;
        if !(1..=1 << 20).contains(&size) {
            return Err(Exit::input(format!("--size {}: must be from 1B to 1MiB", self.size)));
        }
        Ok((time("--every", &self.every)?, Duration::from_nanos(time("--timeout", &self.timeout)?), size))
    }
}

/// Prints what changes, with the time.
struct Lines;

impl Listener for Lines {
    fn changed(&self, line: &str) {
        progress(format_args!("{} {line}", wall_now().strftime("%Y-%m-%dT%H:%M:%SZ")));
    }
}

/// Watches a store, or shows the history.
///
/// # Errors
/// Exit code 1 if an operation of a limited number failed, 2 for invalid input, 3 if the object of the canary could not
/// be deleted at its end.
pub fn canary(arguments: &Arguments) -> Result<(), Exit> {
    let Some(store) = &arguments.store else { return show(&arguments.dir, arguments.json) };
    if arguments.json {
        return Err(Exit::input("--json shows the history; use it with --show"));
    }
    let (every_ns, timeout, size) = arguments.check()?;
    // A mistake leaves no directory behind.
    if matches!(open::url_of(store)?, StoreUrl::Embedded | StoreUrl::Memory) {
        return Err(Exit::input(format!("--store {store}: it ends with the canary; name another store")));
    }
    let mut history = History::open(&arguments.dir, "", arguments.keep).map_err(input)?;
    let mut target =
        CanaryStore::new(store, arguments.ca_bundle.clone(), timeout, size, history.id().clone())?;
    // A store that cannot be reached yet is what a canary is for; an invalid one is not.
    match target.open() {
        Err(error @ RunError::Input(_)) => return Err(error.into()),
        Err(error) => Lines.changed(&error.to_string()),
        Ok(()) => {}
    }
    history.set_store(target.name()).map_err(input)?;
    let live = live(arguments.metrics_listen.as_deref(), &arguments.metrics_to)?;
    let control = Arc::new(Control::default());
    signals::listen(Arc::clone(&control));
    progress(format_args!(
        "{}: one operation every {}; history in {}",
        target.name(),
        arguments.every,
        arguments.dir.display()
    ));
    let schedule = Schedule { every_ns, operations: arguments.operations, control };
    let CanaryCounts { operations, failed } =
        watch(&mut target, &schedule, &mut history, live.as_ref(), &Lines);
    let left = target.clean();
    let of = format!("{} of {} operations failed", format_count(failed), format_count(operations));
    say(&format!("{of}; today: {}\n", sentence(&history.today())))?;
    if history.is_unwritten() {
        let message =
            format!("{}: the history of the last operations is not written", arguments.dir.display());
        return Err(Exit { code: 4, message });
    }
    if arguments.operations.is_some() && failed > 0 {
        return Err(Exit::check(format!("{}: {of}", target.name())));
    }
    left.map_err(|failure| {
        Exit::store(format!(
            "the object of the canary was not deleted ({failure}); the next one overwrites it"
        ))
    })
}

fn input(error: impl std::fmt::Display) -> Exit {
    Exit::input(error)
}

/// Describes a day.
fn sentence(day: &Day) -> String {
    let (all, failed) = day.counts();
    let outages = match (day.outage_count, day.longest_outage_s()) {
        (0, _) => "no outage".to_string(),
        (1, longest) => format!("1 outage of {} s", seconds(longest)),
        (n, longest) => format!("{} outages, the longest of {} s", format_count(n), seconds(longest)),
    };
    let slow = match (day.slow_count, day.longest_slow_time()) {
        (0, _) | (_, None) => String::new(),
        (n, Some(slow)) => format!(
            ", {} from {} for {} s: {} ms, usually {} ms",
            match n {
                1 => "slow".to_string(),
                n => format!("slow {} times, the longest time", format_count(n)),
            },
            slow.from,
            seconds(slow.seconds),
            format_ms(slow.mean_ms),
            format_ms(slow.usual_ms)
        ),
    };
    format!("{} of {} operations failed, {outages}{slow}", format_count(failed), format_count(all))
}

/// Formats seconds, with a decimal if there are fewer than ten.
fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") }
}

/// Shows the days of a directory. Those that cannot be read are named.
fn show(directory: &Path, json: bool) -> Result<(), Exit> {
    let (days, damaged) = days(directory).map_err(input)?;
    damaged.iter().for_each(|error| note(format_args!("warning: {error}")));
    if days.is_empty() {
        return Err(Exit::input(format!(
            "{}: there is no day of a canary; a canary writes its day every minute, and when it ends",
            directory.display()
        )));
    }
    if json {
        return say(&(serde_json::to_string_pretty(&days).map_err(Exit::defect)? + "\n"));
    }
    let columns = [
        "day",
        "store",
        "operations#",
        "failed#",
        "missed#",
        "outages#",
        "longest s#",
        "slow times#",
        "put p50 ms#",
        "put p99 ms#",
        "get p50 ms#",
        "get p99 ms#",
    ];
    let mut table = Table::new("", &columns);
    days.iter().for_each(|day| table.row(row(day)));
    say(terminal::table(&table).trim_start_matches('\n'))
}

fn row(day: &Day) -> [String; 12] {
    let (all, failed) = day.counts();
    let of = |operation: &str, name: &str| {
        day.operations.get(operation).map_or("-".to_string(), |figures| cell(&figures.service_ms, name))
    };
    [
        day.day.clone(),
        day.store.clone(),
        format_count(all),
        format_count(failed),
        format_count(day.missed),
        format_count(day.outage_count),
        seconds(day.longest_outage_s()),
        format_count(day.slow_count),
        of("put", "p50"),
        of("put", "p99"),
        of("get", "p50"),
        of("get", "p99"),
    ]
}
