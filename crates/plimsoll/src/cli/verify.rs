//! `plimsoll verify`: computes the figures of runs again from their logs and histograms.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::exit::Exit;
use super::out::say;
use super::runs::find;
use plimsoll_judge::verify::{Verification, verify};

/// Arguments of `plimsoll verify`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories to verify
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print JSON, one object per run
    #[arg(long)]
    json: bool,
}

/// Verifies each run and prints the answer.
///
/// # Errors
/// Exit code 1 if a run is not verified, 2 if one cannot be read.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let mut failed = Vec::new();
    for run in &find(&arguments.runs)? {
        let found = verify(run).map_err(Exit::input)?;
        if !found.problems.is_empty() {
            failed.push(run.display().to_string());
        }
        say(&if arguments.json { as_json(run, &found) } else { as_text(run, &found) })?;
    }
    match failed.as_slice() {
        [] => Ok(()),
        [one] => Err(Exit::check(format!("{one} is not verified"))),
        several => Err(Exit::check(format!("{} runs are not verified", several.len()))),
    }
}

fn as_json(run: &Path, found: &Verification) -> String {
    let value = json!({
        "run": run,
        "verified": found.problems.is_empty(),
        "partial": found.partial,
        "files": found.files,
        "figures": found.figures,
        "sha256_of_sums": (!found.digest.is_empty()).then_some(&found.digest),
        "problems": found.problems,
    });
    format!("{value}\n")
}

fn as_text(run: &Path, found: &Verification) -> String {
    let (shown, count) = (run.display(), found.problems.len());
    if count == 0 {
        let which = if found.partial { " as a partial run" } else { "" };
        return format!(
            "{shown}: verified{which}: {} figures follow from logs and histograms, and {} files match SHA256SUMS\n\
             SHA-256 of SHA256SUMS, to publish with the figures: {}\n",
            found.figures, found.files, found.digest
        );
    }
    let mut out =
        format!("{shown}: NOT verified: {count} {}\n", if count == 1 { "problem" } else { "problems" });
    for problem in &found.problems {
        let _ = writeln!(out, "  {problem}");
    }
    out
}
