//! `plimsoll report`: writes an HTML report of one or more runs.

use std::path::{Path, PathBuf};

use clap::Args;

use super::compare::comparisons;
use super::exit::Exit;
use super::out::{note, say};
use super::page::{PageOptions, add, page_of, rendered, several_stores};
use super::publish::publish;
use super::runs::find;
use plimsoll_audit::verify::signature;
use plimsoll_judge::run_dir::REPORT;
use plimsoll_judge::run_dir::directory::LATENCIES;
use plimsoll_judge::run_dir::run::{Run, read};
use plimsoll_judge::run_dir::sums;
use plimsoll_judge::run_dir::write::{write_output, write_whole};
use plimsoll_report::appendix;
use plimsoll_report::comparison::Comparison;
use plimsoll_report::html::Report;
use plimsoll_session::{RunError, RunSummary};

/// Arguments of `plimsoll report`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories; the report compares the other runs with the first run
    #[arg(required_unless_present = "publish", value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Write a static site with an index, trends and a page for each run into this directory [default: all runs of
    /// plimsoll-runs]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "published", "primary"])]
    publish: Option<PathBuf>,
    /// Print the artifact appendix of a run as Markdown: hardware, versions, commands, expected results
    #[arg(long, conflicts_with_all = ["publish", "published", "primary"])]
    appendix: bool,
    /// File for the report [default: report.html in the run directory; plimsoll-report.html for several runs]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Published document whose figures are drawn as reference lines: a name from `plimsoll list published`; may be
    /// repeated
    #[arg(long, value_name = "NAME")]
    published: Vec<String>,
    /// Primary metric of the comparisons [default: p50 of the first operation]
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
}

/// Reads runs and passes them to `consume` in order. Reads the next run while `consume` processes one, so at
/// most two runs are in memory.
///
/// # Errors
/// Exit code 2 if a run cannot be read.
fn for_each_run(paths: &[PathBuf], mut consume: impl FnMut(Run)) -> Result<(), Exit> {
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(0);
        // Sending fails after the receiver has stopped at a run that could not be read.
        scope.spawn(move || {
            paths.iter().map(|path| read(path, &LATENCIES)).all(|run| sender.send(run).is_ok())
        });
        receiver.iter().try_for_each(|run| run.map(&mut consume).map_err(Exit::input))
    })
}

/// Writes the report and prints its path.
///
/// # Errors
/// Exit code 2 if a run cannot be read or the file cannot be written.
pub fn report(arguments: &Arguments) -> Result<(), Exit> {
    if let Some(directory) = &arguments.publish {
        return publish(directory, &find(&arguments.runs)?);
    }
    if let Some(out) = &arguments.output {
        refuse_files_of_runs(out)?;
    }
    if arguments.appendix {
        return print_appendix(arguments);
    }
    let options = PageOptions { published: arguments.published.clone(), primary: arguments.primary.clone() };
    let primary = options.metric()?;
    let paths = find(&arguments.runs)?;
    let first = read(&paths[0], &LATENCIES).map_err(Exit::input)?;
    let stores = first.environment.stores.len().max(1);
    let mut report = Report::new(stores * paths.len());
    add(&mut report, &first);
    if paths.len() == 1 && several_stores(&first) {
        report.compare(comparisons(&[&first], primary.as_ref(), &[])?);
    }
    for_each_run(&paths[1..], |run| {
        add(&mut report, &run);
        match comparisons(&[&first, &run], primary.as_ref(), &[]) {
            Ok(comparisons) => report.compare(comparisons),
            // Runs that are not comparable still appear in the report, but without a verdict.
            Err(exit) => note(format_args!("note: {}", exit.message)),
        }
    })?;
    options.add(&mut report)?;
    let (out, written) = match (&arguments.output, paths.as_slice()) {
        (Some(out), _) => (out.clone(), write_output(out, &rendered(report)?)),
        (None, [run]) => {
            let out = run.join(REPORT);
            let written = write_whole(&out, &rendered(report)?);
            (out, written)
        }
        (None, _) => {
            let out = PathBuf::from("plimsoll-report.html");
            let written = write_output(&out, &rendered(report)?);
            (out, written)
        }
    };
    written.map_err(|e| Exit::input(format!("--output {}: {e}", out.display())))?;
    say(&format!("{}\n", out.display()))
}

/// Refuses to overwrite a file of a run other than its report.
///
/// # Errors
/// Exit code 2 if the path is such a file.
fn refuse_files_of_runs(out: &Path) -> Result<(), Exit> {
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_of_run = sums::FILES.contains(&name) || [sums::NAME, signature::NAME].contains(&name);
    match is_of_run && out.parent().is_some_and(|directory| directory.join("experiment.toml").is_file()) {
        true => {
            Err(Exit::input(format!("--output {}: a run needs this file; choose another", out.display())))
        }
        false => Ok(()),
    }
}

/// Prints the artifact appendix of a run, or writes it to the file of `--output`.
///
/// # Errors
/// Exit code 2 if there are several runs, the run cannot be read, or the file cannot be written.
fn print_appendix(arguments: &Arguments) -> Result<(), Exit> {
    let paths = find(&arguments.runs)?;
    let [path] = paths.as_slice() else {
        return Err(Exit::input("--appendix: an appendix is about one run; specify one run directory"));
    };
    let run = read(path, &LATENCIES).map_err(Exit::input)?;
    let page = appendix::markdown(&run).map_err(|e| Exit::input(format!("{}: {e}", path.display())))?;
    match &arguments.output {
        None => say(&page),
        Some(out) => {
            write_output(out, &page).map_err(|e| Exit::input(format!("--output {}: {e}", out.display())))?;
            say(&format!("{}\n", out.display()))
        }
    }
}

/// Writes the report of a finished run into its directory.
///
/// # Errors
/// Exit code 101 if the template fails, 2 if the file cannot be written.
pub fn of_run(run: &Run) -> Result<(), Exit> {
    let out = run.path.join(REPORT);
    let page = page_of(run, &PageOptions::default())?;
    write_whole(&out, &page).map_err(|e| Exit::input(format!("{}: {e}", out.display())))
}

/// Returns the verdicts on the stores of a run with their cautions, one per line. Empty if the run has one store, or if
/// it answers another question.
pub fn verdicts(run: &Run) -> String {
    if !several_stores(run) || run.result.until.is_some() || !run.result.sweeps.is_empty() {
        return String::new();
    }
    let found = comparisons(&[run], None, &[]).unwrap_or_default();
    let lines = |c: &Comparison| {
        let cautions: String = c.limits().iter().map(|line| format!("! {line}\n")).collect();
        format!("{}\n{cautions}", c.sentence())
    };
    found.iter().map(lines).collect()
}

/// Writes the report of a run that has just ended, with or without a problem, if `reports` is true. Returns the run and
/// its first problem.
pub fn conclude(summary: RunSummary, reports: bool) -> (Run, Option<Exit>) {
    let RunSummary { run, problem } = summary;
    let written = if reports { of_run(&run) } else { Ok(()) };
    let reported = written.err().map(|exit| RunError::results_kept(&exit.message, &run.path));
    (run, problem.or(reported).map(Exit::from))
}
