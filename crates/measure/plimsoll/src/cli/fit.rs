//! `plimsoll fit`: writes an experiment that resembles the requests of logs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::exit::Exit;
use super::out::say;
use super::replay::LogArguments;
use plimsoll_base::text::outgoing;
use plimsoll_experiment::fit::fit as fit_trace;
use plimsoll_experiment::spec::DEFAULT_SEED;
use plimsoll_report::decisions::fit::document;

/// Arguments of `plimsoll fit`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    logs: LogArguments,
    /// File for the experiment
    #[arg(long, short, value_name = "FILE", default_value = "fitted.toml")]
    output: PathBuf,
    /// File for an HTML page that compares the trace with the experiment
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Format of the comparison that is printed
    #[arg(long, value_enum, default_value = "table")]
    print: Format,
    /// Seed of the experiment
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
}

/// Formats of the printed comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for the terminal
    Table,
    /// Markdown for comments and pages
    Markdown,
    /// CSV with one figure per line
    Csv,
}

fn write(flag: &str, path: &std::path::Path, text: &str) -> Result<(), Exit> {
    let failed = |e| Exit::input(format!("{flag} {}: {e}; choose another file", path.display()));
    std::fs::write(path, &*outgoing(text)).map_err(failed)
}

/// Fits an experiment to logs, writes it, and prints the comparison.
///
/// # Errors
/// Exit code 2 if a log cannot be read or a file cannot be written.
pub fn fit(arguments: &Arguments) -> Result<(), Exit> {
    let (recording, names) = arguments.logs.read()?;
    let fitted =
        fit_trace(&recording.trace, arguments.seed).map_err(|problem| Exit::input(problem.message))?;
    let text = toml::to_string(&fitted.experiment).map_err(Exit::input)?;
    write("--output", &arguments.output, &text)?;
    let page = document(&names, &fitted, &recording.notes);
    if let Some(path) = &arguments.page {
        write("--page", path, &page.html().map_err(|e| Exit::input(format!("--page: {e}")))?)?;
    }
    say(&match arguments.print {
        Format::Table => format!("{}experiment: {}\n", page.terminal(), arguments.output.display()),
        Format::Markdown => page.markdown(),
        Format::Csv => page.csv(),
    })
}
