//! `result.json`, written to a temporary file and renamed, so that a reader never sees a partial file.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::directory::read_environment;
use crate::summary::result::RunResult;
use crate::text::redacted_document;

/// Serializes a result as indented JSON with a final newline.
pub fn to_string(result: &RunResult) -> String {
    let mut text = serde_json::to_string_pretty(result).unwrap_or_default();
    text.push('\n');
    text
}

/// Replaces the file at `path` by `contents` with secrets redacted, through a temporary file in the same directory.
///
/// # Errors
/// Fails if the file cannot be written, for example because the disk is full. The old file is then unchanged.
pub fn write_whole(path: &Path, contents: &str) -> io::Result<()> {
    let contents = redacted_document(contents);
    // Write directly to a device, pipe or link instead of replacing it.
    if fs::symlink_metadata(path).is_ok_and(|existing| !existing.is_file()) {
        return fs::write(path, &*contents);
    }
    let temporary = path.with_extension("tmp");
    let written = fs::File::create(&temporary).and_then(|mut file| {
        file.write_all(contents.as_bytes())?;
        file.sync_data()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(())
}

/// Error on reading a result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{path}: {source}; name a run directory, such as plimsoll-runs/<run-id>")]
    Io {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is not a result, or has another schema.
    #[error("{path}: not a result of schema {expected}: {reason}")]
    Shape {
        /// Path of the file.
        path: String,
        /// Schema number that this version reads.
        expected: u32,
        /// Reason why the file was rejected.
        reason: String,
    },
}

/// Reads a result, given the path of its run directory or of the file itself.
///
/// # Errors
/// See [`ReadError`].
pub fn read(path: &Path) -> Result<RunResult, ReadError> {
    let file = if path.is_dir() { path.join("result.json") } else { path.to_path_buf() };
    let shown = file.display().to_string();
    let text = fs::read_to_string(&file).map_err(|source| ReadError::Io { path: shown.clone(), source })?;
    let expected = crate::summary::result::SCHEMA;
    let shape = |reason: String| ReadError::Shape { path: shown.clone(), expected, reason };
    let mut result: RunResult = serde_json::from_str(&text).map_err(|e| shape(e.to_string()))?;
    if result.schema != expected {
        return Err(shape(format!("it has schema {}", result.schema)));
    }
    // Results of earlier versions do not list their stores.
    if result.run.stores.is_empty()
        && let Some(environment) = file.parent().and_then(|run| read_environment(run).ok())
    {
        result.run.stores = environment.stores.into_iter().map(|store| store.url).collect();
    }
    Ok(result)
}
