//! `plimsoll cost tiering`: estimates the cost of keeping young objects in one store and old ones in
//! another, and finds the best age to move them.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::form::FormArguments;
use super::from_run::FromRun;
use super::request::WorkloadArguments;
use crate::cli::exit::Exit;
use crate::cli::runs::find_one;
use plimsoll_base::provider::calls::Call;
use plimsoll_base::units::parse_duration;
use plimsoll_bills::advise::candidates::{at_home, other_size};
use plimsoll_bills::advise::latencies::distribution;
use plimsoll_cost::bill::Bill;
use plimsoll_cost::blend::Distribution;
use plimsoll_cost::book::usual;
use plimsoll_cost::charge::BillError;
use plimsoll_cost::period::DAY_S;
use plimsoll_cost::published::named;
use plimsoll_cost::request::CostRequest;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::tiering::{Age, MAX_DAYS, Reads, Scenario, best};
use plimsoll_cost::workload::{MONTH_DAYS, Workload, WorkloadError};
use plimsoll_judge::run_dir::environment::read_environment;
use plimsoll_judge::run_dir::json;
use plimsoll_judge::summary::result::Window;
use plimsoll_report::decisions::tiering::{TieringAnswer, document};
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Role;

/// Arguments of `plimsoll cost tiering`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Store for young objects: a name from `plimsoll list prices`
    #[arg(long, value_name = "NAME")]
    hot: String,
    /// Store for old objects
    #[arg(long, value_name = "NAME")]
    cold: String,
    /// Age at which objects move
    #[arg(long, value_name = "DAYS", default_value = "7d", value_parser = whole_days)]
    hot_days: u64,
    /// Read each object back after its move, and send a HEAD request before its source is deleted, as
    /// `plimsoll-gateway` does
    #[arg(long)]
    verify_moves: bool,
    /// Share of reads that go to objects younger than --hot-days: 80%
    #[arg(long, value_name = "SHARE", conflicts_with = "reads_by_age")]
    hot_reads: Option<String>,
    /// Shares of reads that go to objects younger than these ages: 1d=40%,7d=80%,30d=95%
    #[arg(long, value_name = "AGE=SHARE", value_delimiter = ',')]
    reads_by_age: Vec<String>,
    /// Run that measured reads from the hot store
    #[arg(long, value_name = "RUN")]
    hot_run: Option<PathBuf>,
    /// Run that measured reads from the cold store; may be the same run
    #[arg(long, value_name = "RUN")]
    cold_run: Option<PathBuf>,
    /// Published document with latencies for a store without a run (`plimsoll list published`)
    #[arg(long, value_name = "DOCUMENT")]
    published: Option<String>,
    /// Consider only ages at which the p99 of reads is within this limit, such as 50ms; uses the upper bound that
    /// follows from the known latencies
    #[arg(long, value_name = "TIME")]
    p99: Option<String>,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// A latency distribution, and warnings about it.
type Known = (Distribution, Vec<String>);

/// The JSON output of `plimsoll cost tiering`.
#[derive(Serialize)]
struct Tiering<'a> {
    hot: &'a str,
    cold: &'a str,
    retention_days: f64,
    asked: &'a Age,
    best: Option<&'a Age>,
    ages: &'a [Age],
    bills: [&'a Bill; 2],
    assumptions: &'a [String],
}

/// Parses a number of whole days, `7` or `7d`.
///
/// # Errors
/// A message with the expected form.
fn whole_days(text: &str) -> Result<u64, String> {
    let number = text.trim().trim_end_matches('d').trim().parse().ok();
    number.ok_or_else(|| format!("'{text}' is not a whole number of days, such as 7d"))
}

/// Rejects fields of a workload that tiering does not support.
///
/// # Errors
/// [`WorkloadError`] with the first such field.
fn refuse(workload: &Workload) -> Result<(), WorkloadError> {
    let given = [
        ("list", workload.list.is_some(), "the value could apply to either store; omit it"),
        ("copy", workload.copy.is_some(), "the value could apply to either store; omit it"),
        ("delete", workload.delete.is_some(), "every object is deleted at the end of --keep; omit it"),
        ("written", workload.written.is_some(), "the value follows from --put and --object-size; omit it"),
        (
            "storage_peak",
            workload.storage_peak.is_some(),
            "the data stored follows from --put and --keep; omit it",
        ),
        ("cross_zone", workload.cross_zone.is_some(), "the value could apply to either store; omit it"),
        ("cross_region", workload.cross_region.is_some(), "the value could apply to either store; omit it"),
        ("instance", !workload.instance.is_empty(), "machines cost the same at every age; omit it"),
        ("invocations", workload.invocations.is_some(), "functions cost the same at every age; omit it"),
        (
            "storage",
            workload.storage.is_some() && workload.keep.is_some(),
            "--keep determines the data stored; use only one of the two",
        ),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((field, _, reason)) => {
            Err(WorkloadError { field, message: format!("not supported by tiering: {reason}") })
        }
        None => Ok(()),
    }
}

/// Parses a percentage such as `80%` as a share, 0 to 1.
///
/// # Errors
/// Exit code 2 if it is not a percentage between 0% and 100%.
fn share(flag: &str, text: &str) -> Result<f64, Exit> {
    let percent = text.trim().strip_suffix('%').and_then(|t| t.trim().parse::<f64>().ok());
    percent.filter(|p| (0.0..=100.0).contains(p)).map(|p| p / 100.0).ok_or_else(|| {
        Exit::input(format!("{flag}: '{text}' is not a percentage between 0% and 100%, such as 80%"))
    })
}

/// Returns the distribution of reads over the age of objects that are kept for `keep` days, and the
/// assumption behind it.
///
/// # Errors
/// Exit code 2 if the shares are missing or invalid.
fn reads(arguments: &Arguments, keep: f64) -> Result<(Reads, String), Exit> {
    let days = arguments.hot_days as f64;
    if let Some(text) = &arguments.hot_reads {
        let hot = share("--hot-reads", text)?;
        if !(hot > 0.0 && hot < 1.0) || days <= 0.0 || days >= keep {
            return Err(Exit::input(format!(
                "--hot-reads {text} at --hot-days {days}: the share must be above 0% and below 100%, and \
                 the age must be above 0 days and below the retention of {keep:.0} days"
            )));
        }
        let assumption = format!(
            "the read rate of an object changes by the same factor every day, and {text} of reads go to \
             objects younger than {days} days (--reads-by-age)"
        );
        return Ok((Reads::through(days, hot, keep), assumption));
    }
    let mut known: Vec<(f64, f64)> = Vec::new();
    for text in &arguments.reads_by_age {
        let wrong =
            || Exit::input(format!("--reads-by-age: '{text}' is not in the form AGE=SHARE, such as 7d=80%"));
        let (age, part) = text.split_once('=').ok_or_else(wrong)?;
        let age: f64 = age.trim().strip_suffix('d').and_then(|t| t.parse().ok()).ok_or_else(wrong)?;
        let part = share("--reads-by-age", part)?;
        let rises = known.last().is_none_or(|(a, s)| age > *a && part >= *s);
        if age <= 0.0 || !rises {
            return Err(Exit::input(format!(
                "--reads-by-age: '{text}' is out of order; ages must increase and shares must not decrease"
            )));
        }
        if age > keep {
            return Err(Exit::input(format!(
                "--reads-by-age: '{text}' exceeds the retention of {keep:.0} days; remove it or raise --keep"
            )));
        }
        known.push((age, part));
    }
    if known.is_empty() {
        return Err(Exit::input(
            "--hot-reads is missing; specify the share of reads that go to objects younger than --hot-days, \
             such as --hot-reads 80%, or several shares with --reads-by-age 1d=40%,7d=80%",
        ));
    }
    Ok((Reads::Known(known), "the share of reads is linear between the ages of --reads-by-age".into()))
}

/// Drops unsupported values that come only from a run, so that they cause no error. Keeps the values that the
/// user specified.
fn without_unsupported(workload: &Workload, given: &Workload) -> Workload {
    Workload {
        list: given.list.clone(),
        delete: given.delete.clone(),
        written: given.written.clone(),
        storage: if given.keep.is_some() { given.storage.clone() } else { workload.storage.clone() },
        ..workload.clone()
    }
}

/// Returns the retention of the objects in days, and the assumption about it. Without `--keep`, the retention
/// is the data stored divided by the data written per day.
///
/// # Errors
/// Exit code 2 if the retention is unknown or too long.
fn retention_days(request: &CostRequest) -> Result<(f64, String), Exit> {
    let usage = &request.usage;
    let puts = usage.calls.get(Call::PutObject) + usage.calls.get(Call::CreateMultipartUpload);
    if puts == 0 || usage.uploaded == 0 {
        return Err(Exit::input(
            "--put is missing; specify the number of objects written per month and their --object-size",
        ));
    }
    let days = match (usage.retention_s, usage.stored) {
        // Without --keep and --storage, written objects count as deleted immediately.
        (Some(seconds), _) if seconds > 0 => seconds as f64 / DAY_S as f64,
        (_, 0) => {
            return Err(Exit::input(
                "--keep is missing; specify the age at which objects are deleted, such as --keep 90d, or \
                 the amount of stored data with --storage",
            ));
        }
        (_, stored) => stored as f64 / (usage.uploaded as f64 / MONTH_DAYS),
    };
    if days > MAX_DAYS as f64 {
        return Err(Exit::input(format!(
            "--keep: a retention of {days:.0} days exceeds the maximum of {MAX_DAYS}; reduce --keep or \
             --storage"
        )));
    }
    let assumption = format!("objects arrive evenly and are deleted after {days:.1} days");
    Ok((days, assumption))
}

/// Returns the latencies of reads in a run, and warnings about them. Uses the store that is billed as
/// `tariff`, or the only store of the run.
///
/// # Errors
/// Exit code 2 if the run cannot be read or does not contain such a store.
fn measured(flag: &str, path: &Path, request: &CostRequest, tariff: &Tariff) -> Result<Known, Exit> {
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("{flag} {}: {e}", path.display()));
    let path = &find_one(flag, path)?;
    let result = json::read(path).map_err(|e| wrong(&e))?;
    let environment = read_environment(path).map_err(|e| wrong(&e))?;
    let reads: Vec<&Window> = result
        .windows
        .iter()
        .filter(|w| {
            w.role == Role::Measure && matches!(w.operation, OperationKind::Get | OperationKind::GetRange)
        })
        .collect();
    let billed = |w: &&&Window| {
        let class =
            environment.stores.iter().find(|f| f.url == w.store).and_then(|f| f.storage_class.as_deref());
        request.prices.offer_of(&w.provider, usual(class)) == Some(tariff.offer.as_str())
    };
    let mut own: Vec<&Window> = reads.iter().filter(billed).copied().collect();
    let fits = !own.is_empty();
    if !fits {
        own = reads;
    }
    let several = own.iter().any(|w| w.store != own[0].store);
    if own.is_empty() || several {
        let problem = if own.is_empty() {
            "the run measured no reads"
        } else {
            "the run measured several stores, but none that is billed at these prices"
        };
        return Err(wrong(&format!("{problem}; use a run that measured gets from {}", tariff.offer)));
    }
    let mut warnings = Vec::new();
    let home = environment.stores.iter().any(|facts| facts.url == own[0].store && at_home(facts));
    if !fits || !home {
        warnings.push(format!(
            "latencies of {} were measured at a stand-in (emulated): {}",
            tariff.offer, result.run.id
        ));
    }
    let subject = format!("the latency of {}", tariff.offer);
    warnings.extend(other_size(&subject, &own, request.usage.object_bytes));
    if let Some(reason) = own.iter().find_map(|w| w.client_limited.as_ref()) {
        warnings.push(format!("the client was the bottleneck when {} was measured ({reason})", tariff.offer));
    }
    Ok((distribution(&own), warnings))
}

/// Returns the latencies of one of the stores and warnings about them. Uses the run, or the published document
/// if there is no run; `None` if neither is given.
///
/// # Errors
/// Exit code 2 if the run or document contains no latencies of the store.
fn latency(
    flag: &str,
    run: Option<&Path>,
    arguments: &Arguments,
    request: &CostRequest,
    tariff: &Tariff,
) -> Result<Option<Known>, Exit> {
    if let Some(path) = run {
        return measured(flag, path, request, tariff).map(Some);
    }
    let Some(name) = &arguments.published else { return Ok(None) };
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--published {name}: {e}"));
    let published = named(name).map_err(|e| wrong(&e))?;
    let store = published.stores.iter().find(|(_, offer)| **offer == tariff.offer).map(|(store, _)| store);
    let known = store.map(|s| published.percentiles(s, "get")).unwrap_or_default();
    if known.is_empty() {
        return Err(wrong(&format!("the document contains no read latencies of {}", tariff.offer)));
    }
    let rows = published.rows.iter().filter(|r| Some(&r.store) == store && r.operation == "get");
    let workload = rows.map(|r| r.workload.as_str()).next().unwrap_or_default();
    let warning = format!(
        "latencies of {} are published by others, not measured here: {} ({}, {})",
        tariff.offer, published.name, published.source, workload
    );
    Ok(Some((Distribution::Percentiles(known), vec![warning])))
}

/// Latencies of reads from both stores.
struct Latencies {
    /// Distributions of the hot and the cold store; `None` if one of them is unknown.
    both: Option<(Distribution, Distribution)>,
    /// Bound on the p99, in milliseconds; `None` without `--p99`.
    within: Option<f64>,
    /// Warnings about the latencies.
    warnings: Vec<String>,
}

fn latencies(
    arguments: &Arguments,
    request: &CostRequest,
    hot: &Tariff,
    cold: &Tariff,
) -> Result<Latencies, Exit> {
    let hot = latency("--hot-run", arguments.hot_run.as_deref(), arguments, request, hot)?;
    let cold = latency("--cold-run", arguments.cold_run.as_deref(), arguments, request, cold)?;
    let warnings = [&hot, &cold].into_iter().flatten().flat_map(|(_, warnings)| warnings.clone()).collect();
    let within = arguments.p99.as_deref().map(parse_duration).transpose();
    let within = within.map_err(|e| Exit::input(format!("--p99: {e}")))?.map(|ns| ns as f64 / 1e6);
    let both = hot.zip(cold).map(|((hot, _), (cold, _))| (hot, cold));
    if within.is_some() && both.is_none() {
        return Err(Exit::input(
            "--p99 needs the latencies of both stores; use --hot-run and --cold-run, or --published",
        ));
    }
    Ok(Latencies { both, within, warnings })
}

/// Returns the assumption about the way on which objects move.
fn way_of_moves(scenario: &Scenario<'_>) -> String {
    let hot = &scenario.hot.title;
    if scenario.transitions() {
        format!("a lifecycle rule of {hot} moves the objects, without reads or transfer")
    } else if scenario.crosses() {
        format!("objects that move leave {hot} as internet egress")
    } else {
        format!("objects that move stay in the network of {hot}")
    }
}

/// Returns the requested age, or the least possible one if lifecycle rules move no object so early.
fn possible(scenario: &Scenario<'_>, asked: u64, warnings: &mut Vec<String>) -> u64 {
    let at = asked.min(scenario.whole_days());
    if scenario.is_possible(at) {
        return at;
    }
    let least = scenario.cold.rules.transition_days.min(scenario.whole_days());
    warnings.push(format!(
        "objects move after {least} days, not {at}: lifecycle rules move no object into {} earlier",
        scenario.cold.title
    ));
    least
}

/// Prints the cost of tiering.
///
/// # Errors
/// Exit code 2 if the workload, a provider or a share is invalid.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let (given, text) = arguments.workload.given()?;
    refuse(&given).map_err(|e| arguments.workload.located(&e, text.as_deref()))?;
    let mut request =
        arguments.workload.request_with(&arguments.from_run, |w| without_unsupported(w, &given))?;
    if arguments.published.is_none() && arguments.hot_run.is_some() != arguments.cold_run.is_some() {
        return Err(Exit::input(
            "--hot-run and --cold-run must be used together; add the missing flag or --published NAME",
        ));
    }
    let (hot, cold) = (request.tariff("--hot", &arguments.hot)?, request.tariff("--cold", &arguments.cold)?);
    if (&hot.offer, &hot.region) == (&cold.offer, &cold.region) {
        return Err(Exit::input(format!(
            "--cold: {} is also the hot store; use another store",
            arguments.cold
        )));
    }
    let (retention_days, lives) = retention_days(&request)?;
    let (reads, curve) = reads(arguments, retention_days)?;
    let Latencies { both: latency, within, mut warnings } = latencies(arguments, &request, &hot, &cold)?;
    let part_bytes =
        request.workload.part_size.as_deref().and_then(|text| plimsoll_base::units::parse_size(text).ok());
    let scenario = Scenario {
        hot: &hot,
        cold: &cold,
        month: request.usage.clone(),
        part_bytes,
        verifies_moves: arguments.verify_moves,
        retention_days,
        reads,
        latency,
    };
    let wrong =
        |e: BillError| Exit::input(format!("--hot {}, --cold {}: {e}", arguments.hot, arguments.cold));
    let (ages, without_bill) = scenario.ages();
    let at = possible(&scenario, arguments.hot_days, &mut warnings);
    let requested_age = scenario.age(at).map_err(wrong)?;
    let bills = scenario.bills(at).map_err(wrong)?;
    if let Some((days, reason)) = without_bill.first() {
        let count = without_bill.len();
        warnings.push(format!("ages without a bill: {count}; the first is {days} days: {reason}"));
    }
    let premise = request.assume([&hot, &cold]);
    let mut assumptions = request.assumptions.clone();
    assumptions.extend([lives, curve]);
    assumptions.push(way_of_moves(&scenario));
    let found = TieringAnswer {
        hot: &hot.title,
        cold: &cold.title,
        ages: &ages,
        asked: &requested_age,
        whole_days: scenario.whole_days(),
        bills: &bills,
        best: best(&ages, within),
        within,
    };
    let notes = assumptions.iter().map(|a| format!("assumed: {a}")).collect();
    let value = Tiering {
        hot: &hot.offer,
        cold: &cold.offer,
        retention_days,
        asked: found.asked,
        best: found.best,
        ages: &ages,
        bills: [&bills.0, &bills.1],
        assumptions: &assumptions,
    };
    let document = document(&found, request.what(), warnings, notes).warned(request.warnings());
    arguments.form.print(&document.resting_on(premise), &value)
}
