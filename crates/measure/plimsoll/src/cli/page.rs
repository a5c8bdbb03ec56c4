//! Pages of runs: the HTML report of one run, and whether a page is the report of its run.

use serde::{Deserialize, Serialize};

use plimsoll_base::files::read_text;
use plimsoll_base::version::VERSION;
use plimsoll_cost::published::named;
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::run_dir::{MAX_TEXT, REPORT};
use plimsoll_judge::summary::figure_selector::FigureSelector;
use plimsoll_report::html::Report;

use super::compare::comparisons;
use super::exit::Exit;

/// Options of a report. The page contains them, so that it can be made again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageOptions {
    /// Names of published documents whose figures are reference lines.
    pub published: Vec<String>,
    /// Primary metric of the comparisons; `None` for the default.
    pub primary: Option<String>,
}

impl PageOptions {
    /// Returns the primary metric.
    ///
    /// # Errors
    /// Exit code 2 if it is no metric.
    pub fn metric(&self) -> Result<Option<FigureSelector>, Exit> {
        let parsed = self.primary.as_deref().map(FigureSelector::parse).transpose();
        parsed.map_err(|e| Exit::input(format!("--primary {e}")))
    }

    /// Adds the published documents to a report, and the options themselves.
    ///
    /// # Errors
    /// Exit code 2 if there is no document of a name.
    pub fn add(&self, report: &mut Report) -> Result<(), Exit> {
        for name in &self.published {
            report.refer(&named(name).map_err(|e| Exit::input(format!("--published {e}")))?);
        }
        report.set_options(serde_json::json!(self));
        Ok(())
    }
}

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
/// Exit code 101 if the template fails, 2 if an option is invalid.
pub fn page_of(run: &Run, options: &PageOptions) -> Result<String, Exit> {
    let mut report = Report::new(run.environment.stores.len());
    add(&mut report, run);
    if several_stores(run) {
        report.compare(comparisons(&[run], options.metric()?.as_ref(), &[])?);
    }
    options.add(&mut report)?;
    rendered(report)
}

/// Result of the comparison of `report.html` with the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportCheck {
    /// The run has no report.
    None,
    /// It is the report of the run, byte for byte.
    Same,
    /// Another version of Plimsoll made the run and the report.
    OtherVersion,
    /// It is not the report of the run, or cannot be read; the reason in words.
    Differs(String),
}

/// Compares `report.html` with the report that this version makes from the run.
///
/// # Errors
/// Exit code 101 if the template fails.
pub fn check_report(run: &Run) -> Result<ReportCheck, Exit> {
    let stated = match read_text(&run.path.join(REPORT), MAX_TEXT) {
        Ok(stated) => stated,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(ReportCheck::None),
        Err(error) => return Ok(ReportCheck::Differs(format!("{REPORT}: {error}"))),
    };
    let is_own = stated.contains(&format!("<footer>Plimsoll {VERSION}."));
    if !is_own && run.result.run.version != VERSION {
        return Ok(ReportCheck::OtherVersion);
    }
    let made = page_of(run, &options_of(&stated)).or_else(|_| page_of(run, &PageOptions::default()))?;
    // The file is written without secrets, which the page of another run could contain.
    let made = plimsoll_base::redaction::redacted_document(&made);
    let line = made.lines().zip(stated.lines()).position(|(a, b)| a != b);
    Ok(match (made == stated, line) {
        (true, _) => ReportCheck::Same,
        (false, line) => {
            let line = line.unwrap_or_else(|| made.lines().count().min(stated.lines().count())) + 1;
            let advice = "`plimsoll report` writes it again";
            ReportCheck::Differs(format!("{REPORT}:{line} is not from the report of this run; {advice}"))
        }
    })
}

/// Returns the options in a page; the defaults if it has none.
fn options_of(page: &str) -> PageOptions {
    let data = page.split_once("<script type=\"application/json\" id=\"data\">");
    let data = data.and_then(|(_, rest)| Some(rest.split_once("</script>")?.0));
    let data = data.and_then(|data| serde_json::from_str::<serde_json::Value>(data).ok());
    data.and_then(|data| serde_json::from_value(data.get("options")?.clone()).ok()).unwrap_or_default()
}
