//! Manifests of S3 Inventory, and of the reports of Google Cloud Storage.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use plimsoll_base::files::expanded;
use serde::Deserialize;

use crate::InventoryError;
use crate::csv::Columns;
use crate::listing_file::ListingFile;
use crate::names::without_mark;

/// Maximum length of a manifest in bytes. An inventory of ten billion objects has about ten thousand files.
const MAX_BYTES: u64 = 16 << 20;

/// Manifest of S3 Inventory.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct S3Manifest {
    file_format: String,
    #[serde(default)]
    file_schema: String,
    files: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    key: String,
    /// Length in bytes.
    size: Option<u64>,
}

/// Manifest of a report of Storage Insights.
#[derive(Deserialize)]
struct GoogleManifest {
    report_shards_file_names: Vec<String>,
}

/// Reads a manifest, and returns the files that it names. They are beside it or in the directory `data` beside it or
/// above it, as S3 stores them.
///
/// # Errors
/// If the manifest is malformed, or a file is missing.
pub fn read(path: &Path) -> Result<Vec<ListingFile>, InventoryError> {
    let fail = |reason: String| InventoryError::file(path, reason);
    let mut text = Vec::new();
    let from = expanded(path).map_err(|e| fail(e.to_string()))?;
    from.take(MAX_BYTES).read_to_end(&mut text).map_err(|e| fail(e.to_string()))?;
    let text = without_mark(&text);
    if let Ok(report) = serde_json::from_slice::<GoogleManifest>(text) {
        let entry = |key: String| Entry { key, size: None };
        return find(path, report.report_shards_file_names.into_iter().map(entry).collect(), None);
    }
    let document: S3Manifest = serde_json::from_slice(text).map_err(|e| {
        fail(format!("this is neither a manifest of S3 Inventory nor one of Google's Storage Insights: {e}"))
    })?;
    let format = document.file_format.to_ascii_uppercase();
    let columns = match format.as_str() {
        "CSV" => {
            let columns = Columns::of_schema(&document.file_schema);
            let missing = || {
                let schema = &document.file_schema;
                fail(format!("the inventory has no columns Key and Size; its fileSchema is '{schema}'"))
            };
            Some(columns.ok_or_else(missing)?)
        }
        "ORC" | "PARQUET" => None,
        _ => {
            return Err(fail(format!("the format {} is neither CSV, ORC nor Parquet", document.file_format)));
        }
    };
    find(path, document.files, columns)
}

/// Finds the files of a manifest, each once.
fn find(
    path: &Path,
    entries: Vec<Entry>,
    columns: Option<Columns>,
) -> Result<Vec<ListingFile>, InventoryError> {
    let fail = |reason: String| InventoryError::file(path, reason);
    let base = path.parent().unwrap_or(Path::new("."));
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for entry in entries {
        let name = entry.key.rsplit('/').next().unwrap_or_default();
        let places = [base.join(name), base.join("data").join(name), base.join("..").join("data").join(name)];
        let place = places.into_iter().find(|place| place.is_file());
        let missing = || fail(format!("{name} is missing; download it into the directory of the manifest"));
        let place = place.ok_or_else(missing)?;
        let length = std::fs::metadata(&place).map_err(|e| InventoryError::file(&place, e))?.len();
        if let Some(size) = entry.size.filter(|size| *size != length) {
            let reason = format!("it has {length} bytes, and its manifest says {size}; download it again");
            return Err(InventoryError::file(&place, reason));
        }
        if known.insert(place.clone()) {
            found.push(ListingFile { path: place, columns });
        }
    }
    Ok(found)
}
