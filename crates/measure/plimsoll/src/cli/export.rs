//! `plimsoll export`: exports runs in the formats of other tools, and as logs of requests.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::exit::Exit;
use super::out::say;
use super::runs::find;
use plimsoll_judge::run_dir::json;
use plimsoll_report::export::csv::Csv;
use plimsoll_report::export::hlog::Hlog;
use plimsoll_report::export::markdown::{Markdown, render};
use plimsoll_report::export::parquet::Parquet;
use plimsoll_report::export::requests::Requests;
use plimsoll_report::export::{Exporter, Run};

/// Arguments of `plimsoll export`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories to export
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Format of the files
    #[arg(long, value_enum)]
    format: Format,
    /// Directory for the files of one run [default: the run directory; Markdown goes to standard output]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// windows.parquet, intervals.parquet, and operations.parquet if operations were recorded
    Parquet,
    /// windows.csv and intervals.csv
    Csv,
    /// Tables for a pull request comment
    Markdown,
    /// HdrHistogram interval logs
    Hlog,
    /// requests.csv, a log that `plimsoll replay` and `plimsoll fit` read, if operations were recorded
    Requests,
}

/// Exports each run.
///
/// # Errors
/// Exit code 2 if a run cannot be read or a file cannot be written.
pub fn export(arguments: &Arguments) -> Result<(), Exit> {
    let runs = find(&arguments.runs)?;
    if arguments.out.is_some() && runs.len() > 1 {
        return Err(Exit::input("--out accepts only one run; specify one run or omit --out"));
    }
    for path in &runs {
        let run = Run { path: path.clone(), result: json::read(path).map_err(Exit::input)? };
        if arguments.format == Format::Markdown && arguments.out.is_none() {
            say(&render(&run.result))?;
            continue;
        }
        let exporter: &dyn Exporter = match arguments.format {
            Format::Parquet => &Parquet,
            Format::Csv => &Csv,
            Format::Markdown => &Markdown,
            Format::Hlog => &Hlog,
            Format::Requests => &Requests,
        };
        let out = arguments.out.as_ref().unwrap_or(path);
        std::fs::create_dir_all(out).map_err(|e| Exit::input(format!("--out {}: {e}", out.display())))?;
        for file in exporter.export(&run, out).map_err(Exit::input)? {
            say(&format!("{}\n", file.display()))?;
        }
    }
    Ok(())
}
