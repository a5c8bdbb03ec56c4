//! `plimsoll cost tiering`: young objects in one store, old ones in another, and the age at which to move them.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::asked::{Asked, WorkloadArguments};
use super::form::FormArguments;
use super::from_run::FromRun;
use crate::cli::exit::Exit;
use crate::cost::bill::Bill;
use crate::cost::blend::Distribution;
use crate::cost::tariff::Tariff;
use crate::cost::tiering::{Age, MOST_DAYS, Reads, Scenario, best};
use crate::provider::calls::Call;
use crate::published::named;
use crate::report::decisions::tiering::{Found, document};
use crate::report::json;
use crate::summary::result::Window;
use crate::units::parse_duration;

/// Days of a month of 730 hours.
const MONTH_DAYS: f64 = 730.0 / 24.0;

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
    #[arg(long, value_name = "DAYS", default_value = "7")]
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
    /// Only ages at which the 99th percentile of reads is surely within this: 50ms
    #[arg(long, value_name = "TIME")]
    p99: Option<String>,
    #[command(flatten)]
    workload: WorkloadArguments,
    #[command(flatten)]
    from_run: FromRun,
    #[command(flatten)]
    form: FormArguments,
}

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
                "--hot-reads {text} at --hot-days {days}: the share must be between 0% and 100%, the age between 0 and the {keep:.0} days that objects live"
            )));
        }
        let told = format!(
            "reads become rarer by the same factor every day, so that {text} go to objects below {days} days (--reads-by-age)"
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
        known.push((age, part));
    }
    if known.is_empty() {
        return Err(Exit::input(
            "--hot-reads is missing; say which share of reads goes to objects below --hot-days, such as --hot-reads 80%, or give several with --reads-by-age 1d=40%,7d=80%",
        ));
    }
    Ok((Reads::Known(known), "reads between the ages of --reads-by-age lie on straight lines".into()))
}

/// Days that objects live: as said, or what is stored over what is written in a day.
fn keep_days(asked: &Asked) -> Result<(f64, String), Exit> {
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

/// Latencies of reads from a run, of the store that is billed as `tariff` or the only one.
fn measured(flag: &str, path: &Path, asked: &Asked, tariff: &Tariff) -> Result<(Distribution, bool), Exit> {
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("{flag} {}: {e}", path.display()));
    let result = json::read(path).map_err(|e| wrong(&e))?;
    let reads: Vec<&Window> = result
        .windows
        .iter()
        .filter(|w| w.role == "measure" && matches!(w.operation.as_str(), "get" | "get_range"))
        .collect();
    let of = |w: &&&Window| asked.prices.offer_of(&w.provider, None) == Some(tariff.offer.as_str());
    let mut own: Vec<&Window> = reads.iter().filter(of).copied().collect();
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
    Ok((Distribution::of_windows(&own), fits))
}

/// The latencies of one of the stores: measured, else published; with what must be said of it.
fn latency(
    flag: &str,
    run: Option<&Path>,
    arguments: &Arguments,
    asked: &Asked,
    tariff: &Tariff,
) -> Result<Option<(Distribution, Option<String>)>, Exit> {
    if let Some(path) = run {
        let (distribution, fits) = measured(flag, path, asked, tariff)?;
        let told = (!fits).then(|| format!("{flag} {} was not measured at {}", path.display(), tariff.offer));
        return Ok(Some((distribution, told)));
    }
    let Some(name) = &arguments.published else { return Ok(None) };
    let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--published {name}: {e}"));
    let published = named(name).map_err(|e| wrong(&e))?;
    let store = published.stores.iter().find(|(_, offer)| **offer == tariff.offer).map(|(store, _)| store);
    let known = store.map(|s| published.percentiles(s, "get")).unwrap_or_default();
    if known.is_empty() {
        return Err(wrong(&format!("it has no latencies of reads from {}", tariff.offer)));
    }
    let told = format!(
        "latencies of {} are published by others, not measured here: {} ({})",
        tariff.offer, published.name, published.source
    );
    Ok(Some((Distribution::Percentiles(known), Some(told))))
}

/// Prints what tiering costs.
///
/// # Errors
/// 2 for a workload, provider or share that cannot be.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let asked = Asked::read(&arguments.workload, &arguments.from_run)?;
    let (hot, cold) = (asked.tariff("--hot", &arguments.hot)?, asked.tariff("--cold", &arguments.cold)?);
    let (keep_days, lives) = keep_days(&asked)?;
    let (reads, curve) = reads(arguments, keep_days)?;
    let mut warnings = Vec::new();
    let hot_ms = latency("--hot-run", arguments.hot_run.as_deref(), arguments, &asked, &hot)?;
    let cold_ms = latency("--cold-run", arguments.cold_run.as_deref(), arguments, &asked, &cold)?;
    for told in [&hot_ms, &cold_ms].into_iter().flatten().filter_map(|(_, told)| told.clone()) {
        warnings.push(told);
    }
    let within = arguments.p99.as_deref().map(parse_duration).transpose();
    let within = within.map_err(|e| Exit::input(format!("--p99: {e}")))?.map(|ns| ns as f64 / 1e6);
    let latency = hot_ms.zip(cold_ms).map(|((hot, _), (cold, _))| (hot, cold));
    if within.is_some() && latency.is_none() {
        return Err(Exit::input(
            "--p99 needs latencies of both stores: --hot-run and --cold-run, or --published",
        ));
    }
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
    let wrong = |e: crate::cost::bill::BillError| Exit::input(e);
    let ages = scenario.ages().map_err(wrong)?;
    let at = (arguments.hot_days.min(keep_days.ceil() as u64)) as usize;
    let bills = scenario.bills(at as u64).map_err(wrong)?;
    let mut assumptions = asked.assumptions.clone();
    assumptions.extend([lives, curve]);
    if scenario.crosses() {
        assumptions.push(format!("what moves leaves {} for the internet", hot.title));
    } else {
        assumptions.push(format!("what moves stays in the network of {}", hot.title));
    }
    let found = Found {
        hot: &hot.title,
        cold: &cold.title,
        ages: &ages,
        asked: &ages[at],
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
    arguments.form.print(&document(&found, asked.what(), warnings, notes), &value)
}
