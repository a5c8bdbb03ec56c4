//! Verification of a run: every figure that follows from its logs is computed again and compared bit by bit.
//!
//! [`recompute`] makes the figures, [`differences`] compares two results. Not in the logs, and so only protected by the
//! checksums, are: attempts, retries, connections, operations in flight, resources of the client, disturbances, costs,
//! and the exact ends and means of latencies, which are compared with the buckets of their histograms.

pub mod differences;
pub mod recompute;

use std::path::Path;

use crate::run_dir::environment::{Environment, read_environment};
use crate::run_dir::run::{Run, RunDirError, read};
use crate::run_dir::sums::{self, Checked};
use crate::summary::series::LatencyKind;

/// Result of a verification.
#[derive(Debug, Default)]
pub struct Verification {
    /// Number of files that match their checksums.
    pub files: usize,
    /// SHA-256 of the list of checksums in hexadecimal digits; empty if there is none.
    pub digest: String,
    /// True if the run did not complete.
    pub partial: bool,
    /// Number of figures that were computed again.
    pub figures: usize,
    /// Contradictions, in words. The run is verified if there are none.
    pub problems: Vec<String>,
}

/// Verifies a run directory.
///
/// # Errors
/// If the path is no run directory, or a file cannot be read although it matches its checksum.
pub fn verify(path: &Path) -> Result<Verification, RunDirError> {
    // A path that is no directory has no files to compare.
    let checked =
        if path.is_dir() { sums::check(path).map_err(RunDirError::Intervals)? } else { Checked::default() };
    let mut found = Verification {
        files: checked.files,
        digest: checked.digest,
        problems: checked.problems,
        ..Verification::default()
    };
    let latencies = [LatencyKind::Service, LatencyKind::Response, LatencyKind::FirstByte];
    let run = match read(path, &latencies) {
        Ok(run) => run,
        Err(RunDirError::Inconsistent { problem, .. }) => {
            found.problems.push(problem);
            return Ok(found);
        }
        // The checksums tell that the file was changed.
        Err(error) if found.files > 0 && !found.problems.is_empty() => {
            found.problems.push(format!("the figures cannot be computed: {error}"));
            return Ok(found);
        }
        Err(error) => return Err(error),
    };
    found.problems.extend(strangers(&run, read_environment(path).unwrap_or_default()));
    let again = recompute::recompute(&run, !found.digest.is_empty()).map_err(RunDirError::Intervals)?;
    let compared = differences::between(&run.result, &again.result);
    found.figures = again.figures;
    found.partial = run.result.run.partial;
    found.problems.extend(again.problems);
    found.problems.extend(compared);
    Ok(found)
}

/// Returns the facts that differ between the files of a run.
fn strangers(run: &Run, environment: Environment) -> Vec<String> {
    let info = &run.result.run;
    let mut out = Vec::new();
    let mut same = |what: &str, stated: String, other: String, file: &str| {
        if stated != other {
            out.push(format!("the {what} is {stated} in result.json and {other} in {file}"));
        }
    };
    // Imported and merged runs have no seed of their own, and results of early versions no id.
    if let Some(seed) = run.experiment_table().get("seed").and_then(toml::Value::as_integer) {
        same("seed", info.seed.to_string(), seed.to_string(), "experiment.toml");
    }
    // The environment of a merged run is that of its first shard.
    if !environment.run.is_empty() && info.shards.len() < 2 {
        same("id", info.id.clone(), environment.run, "environment.json");
    }
    if !environment.version.is_empty() {
        same("version", info.version.clone(), environment.version, "environment.json");
    }
    out
}
