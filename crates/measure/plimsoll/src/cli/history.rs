//! `plimsoll history`: lists runs, and shows the trend of a figure over them.

use std::path::PathBuf;

use clap::Args;

use super::cost::form::FormArguments;
use super::exit::Exit;
use super::runs::DIRECTORY;
use plimsoll_audit::history::entry::{Filter, RunEntry, entries};
use plimsoll_judge::summary::figure_selector::FigureSelector;
use plimsoll_report::history::{list, trend};

/// Arguments of `plimsoll history`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory with run directories
    #[arg(default_value = DIRECTORY)]
    directory: PathBuf,
    /// Figure whose trend is shown, with change points: get.p99, rate, mixed.put.p50
    #[arg(long, value_name = "FIGURE")]
    figure: Option<String>,
    /// Only runs with a store whose URL contains this text
    #[arg(long, value_name = "TEXT")]
    store: Option<String>,
    /// Only runs of this experiment
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Only runs with this label; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    label: Vec<String>,
    /// Only runs that started at or after this date or time, such as 2026-11-20 (UTC)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only the last N of these runs
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    #[command(flatten)]
    form: FormArguments,
}

/// Prints the list of runs or the trend of a figure.
///
/// # Errors
/// Exit code 2 if the directory cannot be read, an option is invalid, or no run has the figure.
pub fn history(arguments: &Arguments) -> Result<(), Exit> {
    let target = arguments.figure.as_deref().map(FigureSelector::parse).transpose();
    let target = target.map_err(|e| Exit::input(format!("--figure {e}")))?;
    let label = |text: &String| {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        (key.to_string(), value.to_string())
    };
    if let Some(since) = &arguments.since
        && !since.starts_with(|c: char| c.is_ascii_digit())
    {
        return Err(Exit::input(format!("--since {since}: write a date or time in UTC, such as 2026-11-20")));
    }
    let filter = Filter {
        store: arguments.store.clone(),
        experiment: arguments.experiment.clone(),
        labels: arguments.label.iter().map(label).collect(),
        since: arguments.since.clone(),
    };
    let directory = arguments.directory.display();
    let mut found: Vec<RunEntry> = entries(&arguments.directory).map_err(|e| {
        Exit::input(format!("{directory}: {e}; specify a directory that contains run directories"))
    })?;
    found.retain(|entry| filter.accepts(entry));
    if let Some(last) = arguments.last {
        found.drain(..found.len().saturating_sub(last));
    }
    let Some((target, text)) = target.zip(arguments.figure.as_deref()) else {
        return arguments.form.print(&list(&found), &serde_json::json!({ "runs": found }));
    };
    let document = trend(&found, &target, text).ok_or_else(|| {
        Exit::input(format!(
            "--figure {text}: none of the {} runs has this figure; choose another",
            found.len()
        ))
    })?;
    arguments.form.print(&document, &document.charts["trend"])
}
