//! `plimsoll cost tiering`: young objects in one store, old ones in another, and the age at which to move them.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::form::FormArguments;
use super::from_run::FromRun;
use super::request::{CostRequest, WorkloadArguments};
use crate::cli::advise::{at_home, other_size};
use crate::cli::exit::Exit;
use crate::cost::bill::{Bill, BillError};
use crate::cost::blend::Distribution;
use crate::cost::book::usual;
use crate::cost::tariff::Tariff;
use crate::cost::tiering::{Age, MOST_DAYS, Reads, Scenario, best};
use crate::cost::workload::{MONTH_DAYS, Workload, WorkloadError};
use crate::provider::calls::Call;
use crate::published::named;
use crate::report::decisions::tiering::{Found, document};
use crate::run_dir::directory::read_environment;
use crate::run_dir::json;
use crate::schedule::Role;
use crate::summary::result::Window;
use crate::units::parse_duration;
use crate::workload::OperationKind;

/// Arguments of `plimsoll cost tiering`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The store for young objects: a name from `plimsoll list prices`
    #[arg(long, value_name = "NAME")]
    hot: String,
    /// The store for old ones
    #[arg(long, value_name = "NAME")]
    cold: String,
    /// Days after which objects move
    #[arg(long, value_name = "DAYS", default_value = "7d", value_parser = whole_days)]
    hot_days: u64,
    /// Share of reads that go to objects below that age: 80%
    #[arg(long, value_name = "SHARE", conflicts_with = "reads_by_age")]
    hot_reads: Option<String>,
    /// Shares of reads that go to objects below some ages: 1d=40%,7d=80%,30d=95%
    #[arg(long, value_name = "AGE=SHARE", value_delimiter = ',')]
    reads_by_age: Vec<String>,
    /// A run that measured reads from the hot store
    #[arg(long, value_name = "RUN")]
    hot_run: Option<PathBuf>,
    /// A run that measured reads from the cold store; may be the same
    #[arg(long, value_name = "RUN")]
    cold_run: Option<PathBuf>,
    /// Latencies that others published, for a store without a run (`plimsoll list published`)
    #[arg(long, value_name = "DOCUMENT")]
    published: Option<String>,
    /// Only ages at which the 99th percentile of reads is within this by the latencies that are known, at worst: 50ms
    #[arg(long, value_name = "TIME")]
    p99: Option<String>,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

/// A distribution, and what must be said of it.
type Known = (Distribution, Vec<String>);

/// What it came to, for programs.
#[derive(Serialize)]
struct Tiering<'a> {
    hot: &'a str,
    cold: &'a str,
    keep_days: f64,
    asked: &'a Age,
    best: Option<&'a Age>,
    ages: &'a [Age],
    bills: [&'a Bill; 2],
    assumptions: &'a [String],
}

/// Whole days, `7` or `7d`.
fn whole_days(text: &str) -> Result<u64, String> {
    let number = text.trim().trim_end_matches('d').trim().parse().ok();
    number.ok_or_else(|| format!("'{text}' is no number of days; write whole days, such as 7d"))
}

/// What a workload can say and tiering has no place for.
fn refuse(workload: &Workload) -> Result<(), WorkloadError> {
    let given = [
        ("list", workload.list.is_some(), "it is not said which store is listed"),
        ("copy", workload.copy.is_some(), "it is not said where copies are made"),
        ("delete", workload.delete.is_some(), "every object is deleted at the end of --keep"),
        ("written", workload.written.is_some(), "it follows from --put and --object-size"),
        ("storage_peak", workload.storage_peak.is_some(), "what is stored follows from --put and --keep"),
        ("cross_zone", workload.cross_zone.is_some(), "it is not said from where"),
        ("cross_region", workload.cross_region.is_some(), "it is not said from where"),
        ("instance", !workload.instance.is_empty(), "machines cost the same whatever the age"),
        (
            "storage",
            workload.storage.is_some() && workload.keep.is_some(),
            "--keep says how much is stored; give one of the two",
        ),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((field, _, why)) => {
            Err(WorkloadError { field, message: format!("does not go with tiering: {why}") })
        }
        None => Ok(()),
    }
}

fn share(flag: &str, text: &str) -> Result<f64, Exit> {
    let percent = text.trim().strip_suffix('%').and_then(|t| t.trim().parse::<f64>().ok());
    percent
        .filter(|p| (0.0..=100.0).contains(p))
        .map(|p| p / 100.0)
        .ok_or_else(|| Exit::input(format!("{flag}: '{text}' is no share; write it as 80%")))
}

fn reads(arguments: &Arguments, keep: f64) -> Result<(Reads, String), Exit> {
    let days = arguments.hot_days as f64;
    if let Some(text) = &arguments.hot_reads {
        let hot = share("--hot-reads", text)?;
        if !(hot > 0.0 && hot < 1.0) || days <= 0.0 || days >= keep {
            return Err(Exit::input(format!(
                "--hot-reads {text} at --hot-days {days}: the share must be more than 0% and less than 100%, the age more than 0 and less than the {keep:.0} days that objects live"
            )));
        }
        let told = format!(
            "reads change by the same factor every day of an object's life, so that {text} go to objects below {days} days (--reads-by-age)"
        );
        return Ok((Reads::through(days, hot, keep), told));
    }
    let mut known: Vec<(f64, f64)> = Vec::new();
    for text in &arguments.reads_by_age {
        let wrong = || Exit::input(format!("--reads-by-age: '{text}' is not AGE=SHARE; write it as 7d=80%"));
        let (age, part) = text.split_once('=').ok_or_else(wrong)?;
        let age: f64 = age.trim().strip_suffix('d').and_then(|t| t.parse().ok()).ok_or_else(wrong)?;
        let part = share("--reads-by-age", part)?;
        let rises = known.last().is_none_or(|(a, s)| age > *a && part >= *s);
        if age <= 0.0 || !rises {
            return Err(Exit::input(format!("--reads-by-age: ages and shares must rise; '{text}' does not")));
        }
        if age > keep {
            return Err(Exit::input(format!(
                "--reads-by-age: '{text}' is older than the {keep:.0} days that objects live (--keep)"
            )));
        }
        known.push((age, part));
    }
    if known.is_empty() {
        return Err(Exit::input(
            "--hot-reads is missing; say which share of reads goes to objects below --hot-days, such as --hot-reads 80%, or give several with --reads-by-age 1d=40%,7d=80%",
        ));
    }
    Ok((Reads::Known(known), "reads between the ages of --reads-by-age lie on straight lines".into()))
}

/// The workload without what a run measured beside reads and writes: it has no place here, and nobody asked for it.
fn without_the_rest(workload: &Workload, given: &Workload) -> Workload {
    Workload {
        list: given.list.clone(),
        delete: given.delete.clone(),
        written: given.written.clone(),
        storage: if given.keep.is_some() { given.storage.clone() } else { workload.storage.clone() },
        ..workload.clone()
    }
}

/// Days that objects live: as said, or what is stored over what is written in a day.
fn keep_days(asked: &CostRequest) -> Result<(f64, String), Exit> {
    let usage = &asked.usage;
    let puts = usage.calls.get(Call::PutObject) + usage.calls.get(Call::CreateMultipartUpload);
    if puts == 0 || usage.uploaded == 0 {
        return Err(Exit::input(
            "--put is missing; say how many objects are written a month, and their --object-size",
        ));
    }
    let days = match (usage.keep_days, usage.stored) {
        (Some(days), _) => days as f64,
        (None, 0) => {
            return Err(Exit::input(
                "--keep is missing; say after how many days objects are deleted, such as --keep 90d, or how much is stored with --storage",
            ));
        }
        (None, stored) => stored as f64 / (usage.uploaded as f64 / MONTH_DAYS),
    };
    if days > MOST_DAYS as f64 {
        return Err(Exit::input(format!(
            "--keep: objects that live {days:.0} days are more than the {MOST_DAYS} that are looked at"
        )));
    }
    let told = format!("objects arrive evenly and live {days:.1} days");
    Ok((days, told))
}

/// Latencies of reads from a run, of the store that is billed as `tariff` or the only one, and what must be said of them.
fn measured(flag: &str, path: &Path, asked: &CostRequest, tariff: &Tariff) -> Result<Known, Exit> {
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("{flag} {}: {e}", path.display()));
    let result = json::read(path).map_err(|e| wrong(&e))?;
    let environment = read_environment(path).map_err(|e| wrong(&e))?;
    let reads: Vec<&Window> = result
        .windows
        .iter()
        .filter(|w| w.role == Role::Measure && matches!(w.operation, OperationKind::Get | OperationKind::GetRange))
        .collect();
    let billed = |w: &&&Window| {
        let class =
            environment.stores.iter().find(|f| f.url == w.store).and_then(|f| f.storage_class.as_deref());
        asked.prices.offer_of(&w.provider, usual(class)) == Some(tariff.offer.as_str())
    };
    let mut own: Vec<&Window> = reads.iter().filter(billed).copied().collect();
    let fits = !own.is_empty();
    if !fits {
        own = reads;
    }
    let several = own.iter().any(|w| w.store != own[0].store);
    if own.is_empty() || several {
        let what = if own.is_empty() {
            "it measured no reads"
        } else {
            "it measured several stores, none of which is billed so"
        };
        return Err(wrong(&format!("{what}; name a run that measured gets from {}", tariff.offer)));
    }
    let mut told = Vec::new();
    let home = environment.stores.iter().any(|facts| facts.url == own[0].store && at_home(facts));
    if !fits || !home {
        told.push(format!(
            "latencies of {} were measured at a stand-in (emulated): {}",
            tariff.offer, result.run.id
        ));
    }
    let what = format!("the latency of {}", tariff.offer);
    told.extend(other_size(&what, &own, asked.usage.object_bytes));
    if let Some(why) = own.iter().find_map(|w| w.client_limited.as_ref()) {
        told.push(format!("the client was the limit when {} was measured ({why})", tariff.offer));
    }
    Ok((Distribution::of_windows(&own), told))
}

/// The latencies of one of the stores: measured, else published; with what must be said of it.
fn latency(
    flag: &str,
    run: Option<&Path>,
    arguments: &Arguments,
    asked: &CostRequest,
    tariff: &Tariff,
) -> Result<Option<Known>, Exit> {
    if let Some(path) = run {
        return measured(flag, path, asked, tariff).map(Some);
    }
    let Some(name) = &arguments.published else { return Ok(None) };
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--published {name}: {e}"));
    let published = named(name).map_err(|e| wrong(&e))?;
    let store = published.stores.iter().find(|(_, offer)| **offer == tariff.offer).map(|(store, _)| store);
    let known = store.map(|s| published.percentiles(s, "get")).unwrap_or_default();
    if known.is_empty() {
        return Err(wrong(&format!("it has no latencies of reads from {}", tariff.offer)));
    }
    let rows = published.rows.iter().filter(|r| Some(&r.store) == store && r.operation == "get");
    let workload = rows.map(|r| r.workload.as_str()).next().unwrap_or_default();
    let told = format!(
        "latencies of {} are published by others, not measured here: {} ({}, {})",
        tariff.offer, published.name, published.source, workload
    );
    Ok(Some((Distribution::Percentiles(known), vec![told])))
}

/// What is known of latencies.
struct Latencies {
    /// Those of reads in the hot store and in the cold one.
    both: Option<(Distribution, Distribution)>,
    /// The bound on the 99th percentile, in milliseconds.
    within: Option<f64>,
    /// What must be said of them.
    told: Vec<String>,
}

fn latencies(
    arguments: &Arguments,
    asked: &CostRequest,
    hot: &Tariff,
    cold: &Tariff,
) -> Result<Latencies, Exit> {
    let hot = latency("--hot-run", arguments.hot_run.as_deref(), arguments, asked, hot)?;
    let cold = latency("--cold-run", arguments.cold_run.as_deref(), arguments, asked, cold)?;
    let told = [&hot, &cold].into_iter().flatten().flat_map(|(_, told)| told.clone()).collect();
    let within = arguments.p99.as_deref().map(parse_duration).transpose();
    let within = within.map_err(|e| Exit::input(format!("--p99: {e}")))?.map(|ns| ns as f64 / 1e6);
    let both = hot.zip(cold).map(|((hot, _), (cold, _))| (hot, cold));
    if within.is_some() && both.is_none() {
        return Err(Exit::input(
            "--p99 needs latencies of both stores: --hot-run and --cold-run, or --published",
        ));
    }
    Ok(Latencies { both, within, told })
}

/// Prints what tiering costs.
///
/// # Errors
/// 2 for a workload, provider or share that cannot be.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let (given, text) = arguments.workload.given()?;
    refuse(&given).map_err(|e| arguments.workload.located(&e, text.as_deref()))?;
    let mut asked =
        CostRequest::read_with(&arguments.workload, &arguments.from_run, |w| without_the_rest(w, &given))?;
    if arguments.published.is_none() && arguments.hot_run.is_some() != arguments.cold_run.is_some() {
        return Err(Exit::input(
            "--hot-run and --cold-run go together; or let --published NAME stand for the other",
        ));
    }
    let (hot, cold) = (asked.tariff("--hot", &arguments.hot)?, asked.tariff("--cold", &arguments.cold)?);
    if (&hot.offer, &hot.region) == (&cold.offer, &cold.region) {
        return Err(Exit::input(format!(
            "--cold: {} is the hot store already; name another",
            arguments.cold
        )));
    }
    let (keep_days, lives) = keep_days(&asked)?;
    let (reads, curve) = reads(arguments, keep_days)?;
    let Latencies { both: latency, within, told: mut warnings } = latencies(arguments, &asked, &hot, &cold)?;
    let part_bytes = asked.workload.part_size.as_deref().and_then(|text| crate::units::parse_size(text).ok());
    let scenario = Scenario {
        hot: &hot,
        cold: &cold,
        month: asked.usage.clone(),
        part_bytes,
        keep_days,
        reads,
        latency,
    };
    let wrong =
        |e: BillError| Exit::input(format!("--hot {}, --cold {}: {e}", arguments.hot, arguments.cold));
    let (ages, without) = scenario.ages();
    let at = arguments.hot_days.min(scenario.whole_days());
    let asked_age = scenario.age(at).map_err(wrong)?;
    let bills = scenario.bills(at).map_err(wrong)?;
    if let Some((days, why)) = without.first() {
        warnings.push(format!("{} ages have no bill, the first of them {days} days: {why}", without.len()));
    }
    let premise = asked.assume_egress([&hot, &cold]);
    let mut assumptions = asked.assumptions.clone();
    assumptions.extend([lives, curve]);
    if scenario.transitions() {
        assumptions
            .push(format!("a lifecycle rule of {} moves objects: nothing is read or sent for it", hot.title));
    } else if scenario.crosses() {
        assumptions.push(format!("what moves leaves {} for the internet", hot.title));
    } else {
        assumptions.push(format!("what moves stays in the network of {}", hot.title));
    }
    let found = Found {
        hot: &hot.title,
        cold: &cold.title,
        ages: &ages,
        asked: &asked_age,
        whole_days: scenario.whole_days(),
        bills: &bills,
        best: best(&ages, within),
        within,
    };
    let notes = assumptions.iter().map(|a| format!("assumed: {a}")).collect();
    let value = Tiering {
        hot: &hot.offer,
        cold: &cold.offer,
        keep_days,
        asked: found.asked,
        best: found.best,
        ages: &ages,
        bills: [&bills.0, &bills.1],
        assumptions: &assumptions,
    };
    arguments.form.print(&document(&found, asked.what(), warnings, notes).resting_on(premise), &value)
}
