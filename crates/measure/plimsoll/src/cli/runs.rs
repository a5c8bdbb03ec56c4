//! References to runs on the command line.

use std::path::{Path, PathBuf};

use super::exit::Exit;
use plimsoll_audit::history::reference::resolve;

/// Directory in which runs are created and in which ids are searched.
pub const DIRECTORY: &str = "plimsoll-runs";

/// Returns the run directory that the reference of a flag denotes.
///
/// # Errors
/// Exit code 2 if the reference denotes no run, or several.
pub fn find_one(flag: &str, reference: &Path) -> Result<PathBuf, Exit> {
    let found = find(std::slice::from_ref(&reference.to_path_buf()))?;
    match <[PathBuf; 1]>::try_from(found) {
        Ok([run]) => Ok(run),
        Err(runs) => {
            let (count, reference) = (runs.len(), reference.display());
            Err(Exit::input(format!("{flag} {reference}: this denotes {count} runs; name one")))
        }
    }
}

/// Returns the run directories that the references denote: paths, ids, `latest`, `latest~1` or patterns.
///
/// # Errors
/// Exit code 2 if a reference denotes no run.
pub fn find(references: &[PathBuf]) -> Result<Vec<PathBuf>, Exit> {
    let mut out = Vec::new();
    for reference in references {
        match reference.to_str() {
            Some(text) => out.extend(resolve(text, Path::new(DIRECTORY)).map_err(Exit::input)?),
            None => out.push(reference.clone()),
        }
    }
    Ok(out)
}
