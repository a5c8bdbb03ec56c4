//! Verification of a run: every figure that follows from its logs is computed again and compared.
//!
//! [`recompute`] makes the figures, [`differences`] compares two results. [`schedule`], `windows` and `operations`
//! compare the logs and the result with the experiment and its seed, [`prices`] the cost with the price books,
//! [`signature`] checks a detached signature. docs/judging.md lists the fields that only the checksums protect.

pub mod differences;
mod operations;
pub mod prices;
pub mod recompute;
pub mod schedule;
pub mod signature;
mod windows;

use std::io;
use std::path::Path;

use minisign_verify::PublicKey;
use plimsoll_base::version::VERSION;

use plimsoll_judge::run_dir::REPORT;
use plimsoll_judge::run_dir::environment::{Environment, StoreFacts, read_environment};
use plimsoll_judge::run_dir::merge::{LogTotal, log_totals};
use plimsoll_judge::run_dir::run::{Run, RunDirError, read};
use plimsoll_judge::run_dir::sums::{self, Checked};
use plimsoll_judge::run_dir::{intervals, size_log};
use plimsoll_judge::summary::series::LatencyKind;
use prices::Priced;
use schedule::{Scheduled, Unscheduled, counts, phases_on_stores};
use signature::Signed;

/// Result of a verification.
#[derive(Debug, Default)]
pub struct Verification {
    /// Number of files that match their checksums.
    pub files: usize,
    /// SHA-256 of the list of checksums in hexadecimal digits; empty if there is none.
    pub digest: String,
    /// True if the run did not complete.
    pub partial: bool,
    /// Number of figures that were computed again.
    pub figures: usize,
    /// Comparison of the logs with the schedule.
    pub schedule: Scheduled,
    /// Comparison of the cost with the price books.
    pub prices: Priced,
    /// Signature of the run; `None` if it has none.
    pub signature: Option<Signed>,
    /// Version of Plimsoll that made the run; empty if unknown.
    pub version: String,
    /// SHA-256 of the program file that made the run; `None` if unknown.
    pub program_sha256: Option<String>,
    /// Names of other files in the directory, about which nothing is known.
    pub not_covered: Vec<String>,
    /// Contradictions, in words. The run is verified if there are none.
    pub problems: Vec<String>,
}

/// Verifies a run directory, with its signature if there is a public key.
///
/// # Errors
/// If the path is no run directory, or a file cannot be read although it matches its checksum.
pub fn verify(path: &Path, key: Option<&PublicKey>) -> Result<Verification, RunDirError> {
    // A path that is no directory has no files to compare.
    let checked =
        if path.is_dir() { sums::check(path).map_err(RunDirError::Intervals)? } else { Checked::default() };
    let mut found = Verification {
        files: checked.files,
        digest: checked.digest,
        problems: checked.problems,
        ..Verification::default()
    };
    let latencies = [LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte];
    let run = match read(path, &latencies) {
        Ok(run) => run,
        Err(RunDirError::Inconsistent { problem, .. }) => {
            found.problems.push(problem);
            return Ok(found);
        }
        // The checksums tell that the file was changed.
        Err(error) if found.files > 0 && !found.problems.is_empty() => {
            found.problems.push(format!("the figures cannot be computed: {error}"));
            return Ok(found);
        }
        Err(error) => return Err(error),
    };
    found.not_covered = not_covered(path).map_err(RunDirError::Intervals)?;
    match signature::check(path, key) {
        Ok(signed) => found.signature = signed,
        Err(problem) => found.problems.push(problem),
    }
    found.partial = run.result.run.partial;
    found.version.clone_from(&run.result.run.version);
    found.program_sha256.clone_from(&run.environment.program_sha256);
    found.problems.extend(strangers(&run, read_environment(path).unwrap_or_default()));
    match figures(&run, &mut found) {
        Err(error) if !found.problems.is_empty() => {
            found.problems.push(format!("the figures cannot be computed: {error}"));
        }
        compared => compared.map_err(RunDirError::Intervals)?,
    }
    Ok(found)
}

/// Computes the figures of a run again and compares them.
fn figures(run: &Run, found: &mut Verification) -> io::Result<()> {
    let has_finished = !found.digest.is_empty();
    let totals = has_finished.then(|| log_totals(&run.path, intervals::NAME)).transpose()?;
    let has_sizes = has_finished && run.path.join(size_log::NAME).exists();
    let sizes = has_sizes.then(|| log_totals(&run.path, size_log::NAME)).transpose()?;
    let logs = totals
        .as_deref()
        .map(|totals| recompute::Logs { totals, sizes: sizes.as_deref().unwrap_or_default() });
    let again = recompute::recompute(run, logs);
    let compared = differences::between(&run.result, &again.result);
    found.figures = again.figures;
    found.problems.extend(again.problems);
    found.problems.extend(compared);
    let is_own = |word: &String| word == "--prices" || word.starts_with("--prices=");
    let other_books = run.result.run.version != VERSION || run.environment.command.iter().any(is_own);
    found.prices = prices::check(&run.result.cost, other_books);
    found.problems.append(&mut found.prices.problems);
    found.problems.extend(totals.as_deref().into_iter().flat_map(|totals| wrong_times(run, totals)));
    found.schedule = scheduled(run, totals.as_deref())?;
    found.problems.append(&mut found.schedule.problems);
    Ok(())
}

/// Returns the times of day that contradict the seconds of the log, in words. The log has whole seconds, so a smaller
/// difference is not found.
fn wrong_times(run: &Run, totals: &[LogTotal]) -> Vec<String> {
    let (info, origin) = (&run.result.run, run.environment.origin_unix_s);
    if origin <= 0.0 || info.imported.is_some() || info.shards.len() > 1 {
        return Vec::new();
    }
    let mut out = Vec::new();
    let started = info.started_at.parse::<jiff::Timestamp>().map(|at| at.as_second() as f64);
    if started.map_or(true, |at| at > origin + TIME_SLACK_S) {
        out.push(format!("the run started at {}, and its log begins before that", info.started_at));
    }
    let ends = run.result.windows.iter().flat_map(|w| [w.service_ms.max, w.failed_ms.max]);
    let longest_s = ends.flatten().fold(0.0, f64::max) / 1e3;
    for (number, window) in run.result.windows.iter().enumerate() {
        let own = totals.iter().filter(|total| {
            (&*total.store, &*total.phase) == (&*window.store, &*window.phase)
                && (total.repeat, total.block, total.step) == (window.repeat, window.block, window.step)
        });
        let seconds = own.map(|total| total.seconds).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (Some((first, last)), start) = (seconds, window.start_unix_s - origin) else { continue };
        let is_late = start > first as f64 + TIME_SLACK_S;
        // Operations that were given up may have ended at any time after the window.
        let is_early =
            window.censored == 0 && start < last as f64 - window.window_s - longest_s - TIME_SLACK_S;
        if is_late || is_early {
            out.push(format!(
                "windows[{number}], phase '{}': it starts {start:.1} s after the log, in which it lasts from second \
                 {first} to {last}",
                window.phase
            ));
        }
    }
    out
}

/// Allowed difference between a time of day and the seconds of the log, in seconds.
const TIME_SLACK_S: f64 = 2.0;

/// Compares the logs of a run with its schedule. `totals` are those of the interval log; `None` if the run has not
/// finished.
fn scheduled(run: &Run, totals: Option<&[LogTotal]>) -> io::Result<Scheduled> {
    let skipped = |reason: String| Scheduled { skipped: Some(reason), ..Scheduled::default() };
    let Some(totals) = totals else { return Ok(skipped("the run did not finish".into())) };
    let phases = match phases_on_stores(run) {
        Ok(phases) => phases,
        Err(Unscheduled::NotDetermined(reason)) => return Ok(skipped(reason)),
        Err(Unscheduled::Invalid(problem)) => {
            return Ok(Scheduled { problems: vec![problem], ..Scheduled::default() });
        }
    };
    let counts = counts(totals);
    let mut out = schedule::check(&phases, &counts);
    out.problems.extend(windows::check(&run.result, &phases, totals));
    let log = run.path.join("operations.arrows");
    if out.problems.is_empty() && log.exists() {
        let compared = operations::check(&log, &phases, &counts)?;
        out.operations = out.operations.max(compared.operations);
        out.one_by_one = true;
        out.problems.extend(compared.problems);
    }
    let words = &run.environment.command;
    let is_recorded = words.windows(2).any(|pair| pair[0] == "--record" && pair[1] == "operations")
        || words.iter().any(|word| word == "--record=operations");
    if is_recorded && !log.exists() {
        out.problems.push("the command recorded the operations, and there is no operations.arrows".into());
    }
    if out.operations == 0 && out.problems.is_empty() {
        return Ok(skipped("the number of operations before each turn of a store is not recorded".into()));
    }
    Ok(out)
}

/// Returns the names of the files of a run directory that neither the list nor a signature covers.
fn not_covered(path: &Path) -> io::Result<Vec<String>> {
    let known =
        |name: &str| sums::FILES.contains(&name) || [sums::NAME, signature::NAME, REPORT].contains(&name);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !known(&name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the facts that differ between the files of a run.
fn strangers(run: &Run, environment: Environment) -> Vec<String> {
    let info = &run.result.run;
    let mut out = Vec::new();
    let mut same = |what: &str, stated: String, other: String, file: &str| {
        if stated != other {
            out.push(format!("the {what} is {stated} in result.json and {other} in {file}"));
        }
    };
    // Imported and merged runs have no seed of their own, and results of early versions no id.
    if let Some(seed) = run.experiment_table().get("seed").and_then(toml::Value::as_integer) {
        same("seed", info.seed.to_string(), seed.to_string(), "experiment.toml");
    }
    // The environment of a merged run is that of its first shard.
    if !environment.run.is_empty() && info.shards.len() < 2 {
        same("id", info.id.clone(), environment.run, "environment.json");
    }
    if let Some(name) = run.experiment_table().get("name").and_then(toml::Value::as_str) {
        same("experiment", info.experiment.clone(), name.to_string(), "experiment.toml");
    }
    if !environment.version.is_empty() {
        same("version", info.version.clone(), environment.version, "environment.json");
    }
    for window in &run.result.windows {
        let known = |store: &&StoreFacts| store.url == window.store && !store.provider.is_empty();
        if let Some(store) = environment.stores.iter().find(known) {
            same("provider", window.provider.clone(), store.provider.clone(), "environment.json");
        }
    }
    out.dedup();
    out
}
