//! `plimsoll report`: the HTML report of one run or several.

use std::path::{Path, PathBuf};

use clap::Args;

use super::compare::comparisons;
use super::exit::Exit;
use super::out::{note, say};
use crate::published::named;
use crate::report::html::Report;
use crate::run_dir::directory::LATENCIES;
use crate::run_dir::json::write_whole;
use crate::run_dir::run::{Run, read};
use crate::session::{RunError, RunSummary};
use crate::summary::objective::Target;

/// Arguments of `plimsoll report`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories; the first is the one that others are compared with
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where the report goes [default: report.html in the run; of several runs, plimsoll-report.html]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw what others have published as reference lines: a name from `plimsoll list published`; may be repeated
    #[arg(long, value_name = "NAME")]
    published: Vec<String>,
    /// The figure that comparisons are decided by [default: the first operation's p50]
    #[arg(long, value_name = "METRIC")]
    primary: Option<String>,
}

fn add(report: &mut Report, run: &Run) {
    report.add(&run.result, &run.environment, &run.experiment, &run.series);
}

fn several_stores(run: &Run) -> bool {
    run.measured().len() > 1
}

/// Hands over runs one after another; while one is used, the next is read, and no more of them are in memory.
fn others(paths: &[PathBuf], mut used: impl FnMut(Run)) -> Result<(), Exit> {
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(0);
        // A receiver that went away has found a run that cannot be read.
        scope.spawn(move || {
            paths.iter().map(|path| read(path, &LATENCIES)).all(|run| sender.send(run).is_ok())
        });
        receiver.iter().try_for_each(|run| run.map(&mut used).map_err(Exit::input))
    })
}

/// Makes the report.
///
/// # Errors
/// 2 when a run cannot be read, or the file not written.
pub fn report(arguments: &Arguments) -> Result<(), Exit> {
    let primary = arguments.primary.as_deref().map(Target::parse).transpose();
    let primary = primary.map_err(|e| Exit::input(format!("--primary {e}")))?;
    let documents = arguments.published.iter().map(|name| named(name));
    let documents =
        documents.collect::<Result<Vec<_>, _>>().map_err(|e| Exit::input(format!("--published {e}")))?;
    let first = read(&arguments.runs[0], &LATENCIES).map_err(Exit::input)?;
    let stores = first.environment.stores.len().max(1);
    let mut report = Report::new(stores * arguments.runs.len());
    add(&mut report, &first);
    if arguments.runs.len() == 1 && several_stores(&first) {
        report.compare(comparisons(&[&first], primary.as_ref(), &[])?);
    }
    others(&arguments.runs[1..], |run| {
        add(&mut report, &run);
        match comparisons(&[&first, &run], primary.as_ref(), &[]) {
            Ok(comparisons) => report.compare(comparisons),
            // A report may stand runs beside each other that no verdict is possible on.
            Err(exit) => note(format_args!("note: {}", exit.message)),
        }
    })?;
    documents.iter().for_each(|document| report.refer(document));
    let out = arguments.out.clone().unwrap_or_else(|| match arguments.runs.as_slice() {
        [run] => run.join("report.html"),
        _ => PathBuf::from("plimsoll-report.html"),
    });
    write(report, &out)?;
    say(&format!("{}\n", out.display()))
}

fn write(report: Report, out: &Path) -> Result<(), Exit> {
    let page = report.render().map_err(|e| Exit::defect(format!("the report's template: {e:#}")))?;
    write_whole(out, &page).map_err(|e| Exit::input(format!("--out {}: {e}", out.display())))
}

/// Writes the report of a finished run into its directory.
///
/// # Errors
/// 101 if the template fails, 2 if the file cannot be written.
pub fn of_run(run: &Run) -> Result<(), Exit> {
    let mut report = Report::new(run.environment.stores.len());
    add(&mut report, run);
    if several_stores(run) {
        report.compare(comparisons(&[run], None, &[])?);
    }
    write(report, &run.path.join("report.html"))
}

/// Writes the report of a run that has just ended, well or badly, and returns the run and its first problem.
pub fn conclude(summary: RunSummary) -> (Run, Option<Exit>) {
    let RunSummary { run, problem } = summary;
    let reported = of_run(&run).err().map(|exit| RunError::results_kept(&exit.message, &run.path));
    (run, problem.or(reported).map(Exit::from))
}
