//! A run in other tools' formats. One file per format; each works from the run directory alone.

use std::io;
use std::path::{Path, PathBuf};

use crate::summary::result::RunResult;

pub mod csv;
pub mod hlog;
pub mod markdown;
pub mod parquet;

/// A run to be exported.
pub struct Run {
    /// Its directory.
    pub path: PathBuf,
    /// Its result.
    pub result: RunResult,
}

/// One format.
pub trait Exporter {
    /// Writes the run into the directory `to` and returns the files made.
    ///
    /// # Errors
    /// When a file of the run cannot be read or one of the export cannot be written.
    fn export(&self, run: &Run, to: &Path) -> io::Result<Vec<PathBuf>>;
}

/// Says which file an error is about.
fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    let shown = path.display().to_string();
    move |e| io::Error::new(e.kind(), format!("{shown}: {e}"))
}
