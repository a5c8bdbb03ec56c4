//! Manifests of S3 Inventory.

use std::io::Read;
use std::path::Path;

use plimsoll_base::files::expanded;
use serde::Deserialize;

use crate::InventoryError;
use crate::csv::Columns;
use crate::listing_file::ListingFile;

/// Maximum length of a manifest in bytes. An inventory of ten billion objects has about ten thousand files.
const MAX_BYTES: u64 = 16 << 20;

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

/// Reads a manifest, and returns the files that it names. They are beside it or in the directory `data` beside it or
/// above it, as S3 stores them.
///
/// # Errors
/// If the manifest is malformed, or a file is missing.
pub fn read(path: &Path) -> Result<Vec<ListingFile>, InventoryError> {
    let fail = |reason: String| InventoryError::file(path, reason);
    let mut text = String::new();
    let from = expanded(path).map_err(|e| fail(e.to_string()))?;
    from.take(MAX_BYTES).read_to_string(&mut text).map_err(|e| fail(e.to_string()))?;
    let document: Document =
        serde_json::from_str(&text).map_err(|e| fail(format!("this is no manifest of S3 Inventory: {e}")))?;
    let format = document.file_format.to_ascii_uppercase();
    let columns = match format.as_str() {
        "CSV" => {
            let columns = Columns::of_schema(&document.file_schema);
            let missing = || fail(format!("the inventory has no Size, only {}", document.file_schema));
            Some(columns.ok_or_else(missing)?)
        }
        "ORC" | "PARQUET" => None,
        _ => {
            return Err(fail(format!("the format {} is neither CSV, ORC nor Parquet", document.file_format)));
        }
    };
    let base = path.parent().unwrap_or(Path::new("."));
    let find = |entry: &Entry| {
        let name = entry.key.rsplit('/').next().unwrap_or_default();
        let places = [base.join(name), base.join("data").join(name), base.join("..").join("data").join(name)];
        let found = places.into_iter().find(|place| place.is_file());
        let missing = || fail(format!("{name} is missing; download it into the directory of the manifest"));
        Ok(ListingFile { path: found.ok_or_else(missing)?, columns })
    };
    document.files.iter().map(find).collect()
}
