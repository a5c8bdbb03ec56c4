//! Inventories in Parquet.

use std::fs::File;
use std::path::Path;

use super::{Inventory, Listed};
use crate::explain::ExplainError;
use plimsoll_audit::import::columns::{Batch, Column, read as read_columns};

/// Names of the columns: of S3, of Google Cloud Storage, and of other listings.
const NAMES: [&str; 10] = [
    "bucket",
    "key",
    "name",
    "size",
    "storage_class",
    "storageClass",
    "StorageClass",
    "intelligent_tiering_access_tier",
    "Key",
    "Size",
];

/// Returns the bytes of a text column in a row; empty if there are none.
fn text<'a>(batch: &'a Batch, names: &[&str], row: usize) -> &'a [u8] {
    for name in names {
        if let Some(Column::Texts(values)) = batch.column(name) {
            return values[row].as_ref().map_or(b"", |value| value.data());
        }
    }
    b""
}

/// Reads an inventory.
pub fn read(file: &Path, into: &mut Inventory) -> Result<(), ExplainError> {
    let opened = File::open(file).map_err(|e| ExplainError::unreadable(file, e))?;
    let mut name = Vec::new();
    read_columns(
        opened,
        &NAMES,
        |e| ExplainError::unreadable(file, e),
        |batch| {
            let size = ["size", "Size"].iter().find_map(|name| batch.column(name));
            let has_key = ["key", "name", "Key"].iter().any(|name| batch.column(name).is_some());
            let (Some(Column::Numbers(sizes)), true) = (size, has_key) else {
                return Err(ExplainError::unreadable(file, "the inventory has no columns key and size"));
            };
            for (row, size) in sizes.iter().enumerate() {
                let Some(size) = size.filter(|size| *size >= 0.0) else {
                    into.without_size += 1;
                    continue;
                };
                let listed = Listed {
                    bucket: text(batch, &["bucket"], row),
                    key: text(batch, &["key", "name", "Key"], row),
                    bytes: size as u64,
                    class: text(batch, &["storage_class", "storageClass", "StorageClass"], row),
                    tier: text(batch, &["intelligent_tiering_access_tier"], row),
                };
                into.add(&listed, &mut name);
            }
            Ok(())
        },
    )
}
