//! `plimsoll verify`: computes the figures of runs again from their logs and histograms.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll_base::version::VERSION;
use serde_json::json;

use super::exit::Exit;
use super::out::say;
use super::page::{ReportCheck, check_report};
use super::runs::find;
use plimsoll_audit::verify::signature::{Signed, public_key};
use plimsoll_audit::verify::{Verification, verify};
use plimsoll_judge::run_dir::directory::LATENCIES;
use plimsoll_judge::run_dir::run::read;
use plimsoll_judge::run_dir::sums;

/// Arguments of `plimsoll verify`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories to verify
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Check the signature SHA256SUMS.minisig of each run with this minisign public key: the key, or a file with it
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
    /// Print JSON, one object per run
    #[arg(long)]
    json: bool,
}

/// Result of the verification of one run.
struct Verified<'a> {
    run: &'a Path,
    found: Verification,
    report: ReportCheck,
    /// True if this program file made the run; `None` if unknown.
    is_same_program: Option<bool>,
}

/// Verifies each run and prints the answer.
///
/// # Errors
/// Exit code 1 if a run is not verified, 2 if one or the key cannot be read.
pub fn run(arguments: &Arguments) -> Result<(), Exit> {
    let key = arguments.public_key.as_deref().map(public_key).transpose();
    let key = key.map_err(|e| Exit::input(format!("--public-key {e}")))?;
    let own = sums::of_this_program();
    let (mut failed, mut is_unreadable) = (Vec::new(), false);
    let runs = find(&arguments.runs)?;
    for run in &runs {
        let mut found = match verify(run, key.as_ref()) {
            Ok(found) => found,
            // The other runs are verified all the same.
            Err(error) if runs.len() > 1 => {
                is_unreadable = true;
                Verification { problems: vec![error.to_string()], ..Verification::default() }
            }
            Err(error) => return Err(Exit::input(error)),
        };
        let mut report = ReportCheck::None;
        // A run that cannot be read has a problem already.
        if let Ok(read) = read(run, &LATENCIES) {
            report = check_report(&read)?;
        }
        if let ReportCheck::Differs(problem) = &report {
            found.problems.push(problem.clone());
        }
        if !found.problems.is_empty() {
            failed.push(run.display().to_string());
        }
        let is_same_program = own.as_ref().zip(found.program_sha256.as_ref()).map(|(a, b)| a == b);
        let verified = Verified { run, found, report, is_same_program };
        say(&if arguments.json { verified.as_json() } else { verified.as_text() })?;
    }
    match failed.as_slice() {
        [] => Ok(()),
        several if is_unreadable => Err(Exit::input(format!(
            "{} runs are not verified, and at least one cannot be read",
            several.len()
        ))),
        [one] => Err(Exit::check(format!("{one} is not verified"))),
        several => Err(Exit::check(format!("{} runs are not verified", several.len()))),
    }
}

impl Verified<'_> {
    fn as_json(&self) -> String {
        let found = &self.found;
        let signature = found.signature.as_ref().map(
            |signed| json!({ "key_id": signed.key_id, "comment": signed.comment, "checked": signed.checked }),
        );
        let value = json!({
            "run": self.run,
            "verified": found.problems.is_empty(),
            "partial": found.partial,
            "files": found.files,
            "figures": found.figures,
            "scheduled_operations": found.schedule.operations,
            "scheduled_one_by_one": found.schedule.one_by_one,
            "schedule_not_compared": found.schedule.skipped,
            "priced_lines": found.prices.lines,
            "prices_not_compared": found.prices.unknown,
            "report": self.report,
            "version": found.version,
            "program_sha256": found.program_sha256,
            "same_program": self.is_same_program,
            "signature": signature,
            "not_covered": found.not_covered,
            "sha256_of_sums": (!found.digest.is_empty()).then_some(&found.digest),
            "problems": found.problems,
        });
        format!("{value}\n")
    }

    fn as_text(&self) -> String {
        let (found, shown) = (&self.found, self.run.display());
        let count = found.problems.len();
        let mut out = if count == 0 {
            let which = if found.partial { " as a partial run" } else { "" };
            format!(
                "{shown}: verified{which}: {} figures follow from logs and histograms, and {} files match SHA256SUMS\n",
                found.figures, found.files
            )
        } else {
            let problems = if count == 1 { "problem" } else { "problems" };
            format!("{shown}: NOT verified: {count} {problems}\n")
        };
        for problem in &found.problems {
            let _ = writeln!(out, "  {problem}");
        }
        for line in self.remarks() {
            let _ = writeln!(out, "{line}");
        }
        out
    }

    /// Returns what was compared and what was not, a line each.
    fn remarks(&self) -> Vec<String> {
        let (found, mut out) = (&self.found, Vec::new());
        let is_verified = found.problems.is_empty();
        if is_verified {
            out.push(format!("SHA-256 of SHA256SUMS, to publish with the figures: {}", found.digest));
            match &found.schedule.skipped {
                None if found.schedule.one_by_one => out.push(format!(
                    "schedule: each of {} operations follows from the experiment and its seed",
                    found.schedule.operations
                )),
                None => out.push(format!(
                    "schedule: the counts of {} operations by phase and kind agree with the experiment and its seed",
                    found.schedule.operations
                )),
                Some(reason) => out.push(format!("schedule: not compared: {reason}")),
            }
            if found.prices.lines > 0 {
                let lines = if found.prices.lines == 1 { "line follows" } else { "lines follow" };
                out.push(format!("cost: {} {lines} from the price books", found.prices.lines));
            }
            if self.report == ReportCheck::Same {
                out.push("report.html: the report of this run, byte for byte".into());
            }
        }
        out.extend(found.prices.unknown.iter().map(|reason| format!("cost: not compared: {reason}")));
        if self.report == ReportCheck::OtherVersion {
            out.push("report.html: not compared: another version of Plimsoll made it".into());
        }
        match &found.signature {
            Some(Signed { key_id, comment, checked: true }) => {
                out.push(format!("signature: of key {key_id}, with the comment \"{comment}\""));
            }
            Some(Signed { key_id, .. }) => {
                out.push(format!(
                    "signature: not checked: it is of key {key_id}; give the key with --public-key"
                ));
            }
            None => {}
        }
        out.extend(self.program());
        if !found.not_covered.is_empty() {
            out.push(format!("not covered by SHA256SUMS: {}", found.not_covered.join(", ")));
        }
        out
    }

    /// Returns a line about the program that made the run; `None` if nothing is known about it.
    fn program(&self) -> Option<String> {
        let version = &self.found.version;
        if !version.is_empty() && version != VERSION {
            let advice = "whose figures may differ from those of this version";
            return Some(format!("made by version {version}, {advice}, {VERSION}"));
        }
        let digest = self.found.program_sha256.as_ref()?;
        Some(match self.is_same_program {
            Some(true) => format!("made by this program file, version {version}, SHA-256 {digest}"),
            _ => format!("made by another program file of version {version}, SHA-256 {digest}"),
        })
    }
}
