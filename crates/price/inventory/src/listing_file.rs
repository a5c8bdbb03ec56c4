//! Files that have the objects of a listing.

use std::path::PathBuf;

use crate::csv::Columns;

/// A file with objects.
#[derive(Debug)]
pub struct ListingFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Columns that the manifest names; `None` without one.
    pub columns: Option<Columns>,
}
