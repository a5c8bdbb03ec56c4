//! Exports a run to the formats of other tools. Each format has its own module and needs only the run directory.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_judge::summary::result::RunResult;

mod columns;
pub mod csv;
pub mod hlog;
pub mod markdown;
pub mod parquet;
pub mod prices;
pub mod requests;

/// A run to export.
pub struct Run {
    /// Path of the run directory.
    pub path: PathBuf,
    /// Result of the run.
    pub result: RunResult,
}

/// Exporter to one format.
pub trait Exporter {
    /// Writes the run into the directory `to`. Returns the paths of the written files.
    ///
    /// # Errors
    /// Fails if a file of the run cannot be read or an exported file cannot be written.
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>>;
}

/// Returns a function that adds the path of the file to an error.
fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    let shown = path.display().to_string();
    move |e| io::Error::new(e.kind(), format!("{shown}: {e}"))
}
