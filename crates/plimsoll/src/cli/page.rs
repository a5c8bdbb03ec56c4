//! Pages of runs: the HTML report of one run.

use plimsoll_judge::report::html::Report;
use plimsoll_judge::run_dir::run::Run;

use super::compare::comparisons;
use super::exit::Exit;

pub fn add(report: &mut Report, run: &Run) {
    report.add(&run.result, &run.environment, &run.experiment, &run.series);
}

pub fn several_stores(run: &Run) -> bool {
    run.measured().len() > 1
}

pub fn rendered(report: Report) -> Result<String, Exit> {
    report.render().map_err(|e| Exit::defect(format!("the report template failed: {e:#}")))
}

/// Returns the page of a run.
///
/// # Errors
/// Exit code 101 if the template fails.
pub fn page_of(run: &Run) -> Result<String, Exit> {
    let mut report = Report::new(run.environment.stores.len());
    add(&mut report, run);
    if several_stores(run) {
        report.compare(comparisons(&[run], None, &[])?);
    }
    rendered(report)
}
