//! `plimsoll show`: prints the table or JSON of a run from its directory.

use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::out::{fit, say};
use super::runs::find;
use plimsoll_judge::run_dir::json;
use plimsoll_judge::summary::consistency;
use plimsoll_report::terminal;
use plimsoll_report::terminal::Detail;

/// Arguments of `plimsoll show`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories to show
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print result.json instead of the table
    #[arg(long)]
    json: bool,
    /// Show the latency distribution of every row
    #[arg(long)]
    distribution: bool,
}

/// Prints the results of each run.
///
/// # Errors
/// Exit code 2 if a run cannot be read or its result contradicts itself.
pub fn show(arguments: &Arguments) -> Result<(), Exit> {
    for run in &find(&arguments.runs)? {
        let result = json::read(run).map_err(Exit::input)?;
        if let Some(problem) = consistency::contradiction(&result) {
            return Err(Exit::input(format!("{}: {problem}", run.display())));
        }
        let text = if arguments.json {
            json::to_string(&result)
        } else {
            fit(&terminal::render(&result, Detail { distribution: arguments.distribution }))
        };
        say(&text)?;
    }
    Ok(())
}
