//! Manifests of S3 Inventory.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ListingError;
use super::csv::Columns;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    file_format: String,
    #[serde(default)]
    file_schema: String,
    files: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    key: String,
}

/// Files of an inventory.
pub struct Manifest {
    /// Data files, which exist.
    pub files: Vec<PathBuf>,
    /// Columns of the files.
    pub columns: Columns,
}

/// Reads a manifest. Its data files are beside it or in the directory `data` beside it or above it, as S3 stores them.
///
/// # Errors
/// If the manifest is malformed, has another format than CSV, or a file is missing.
pub fn parse(path: &Path, text: &str) -> Result<Manifest, ListingError> {
    let fail = |problem: String| ListingError::Format { file: path.display().to_string(), problem };
    let document: Document =
        serde_json::from_str(text).map_err(|e| fail(format!("this is no manifest of S3 Inventory: {e}")))?;
    if !document.file_format.eq_ignore_ascii_case("CSV") {
        let format = &document.file_format;
        return Err(fail(format!(
            "the format {format} is not supported; use an inventory in the CSV format"
        )));
    }
    let columns = Columns::of(document.file_schema.split(','));
    let columns = columns.ok_or_else(|| {
        fail(format!("the inventory has no Size or LastModifiedDate, only {}", document.file_schema))
    })?;
    let base = path.parent().unwrap_or(Path::new("."));
    let find = |entry: &Entry| {
        let name = entry.key.rsplit('/').next().unwrap_or_default();
        let places = [base.join(name), base.join("data").join(name), base.join("..").join("data").join(name)];
        let found = places.into_iter().find(|place| place.is_file());
        found
            .ok_or_else(|| fail(format!("{name} is missing; download it into the directory of the manifest")))
    };
    let files = document.files.iter().map(find).collect::<Result<_, _>>()?;
    Ok(Manifest { files, columns })
}
