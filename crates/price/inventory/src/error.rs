//! Errors in reading listings.

use std::path::Path;

/// Reason why a listing cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// A file cannot be read, or is no listing.
    #[error("{file}: {reason}")]
    File {
        /// Path of the file.
        file: String,
        /// Cause of the error.
        reason: String,
    },
    /// A row is malformed, or no listing has such a row.
    #[error("{file}:{row}: {reason}")]
    Row {
        /// Path of the file.
        file: String,
        /// Number of the line, or of the row in a file without lines, from 1.
        row: u64,
        /// Description of the error.
        reason: String,
    },
}

impl InventoryError {
    /// Returns an error about a whole file.
    pub fn file(file: &Path, reason: impl std::fmt::Display) -> InventoryError {
        InventoryError::File { file: file.display().to_string(), reason: reason.to_string() }
    }

    /// Returns an error about a row.
    pub fn row(file: &Path, row: u64, reason: impl Into<String>) -> InventoryError {
        InventoryError::Row { file: file.display().to_string(), row, reason: reason.into() }
    }
}
