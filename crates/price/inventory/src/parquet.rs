//! Inventories in Parquet.

use std::fs::File;
use std::path::Path;

use crate::columns::{Column, RowBatch, read as read_columns};
use crate::{InventoryError, Listed, Modified, Receive};

/// Names of the columns: of S3, of Google Cloud Storage, and of other listings.
const BUCKET: [&str; 1] = ["bucket"];
const KEY: [&str; 3] = ["key", "name", "Key"];
const SIZE: [&str; 2] = ["size", "Size"];
const MODIFIED: [&str; 4] = ["last_modified_date", "lastModifiedDate", "LastModified", "updated"];
const CLASS: [&str; 3] = ["storage_class", "storageClass", "StorageClass"];
const MARKER: [&str; 2] = ["is_delete_marker", "isDeleteMarker"];
const TIER: [&str; 1] = ["intelligent_tiering_access_tier"];

/// Seconds from which on a number without a unit is in milliseconds: the year 5138.
const MAX_SECONDS: f64 = 1e11;

fn column<'a>(batch: &'a RowBatch, names: &[&str]) -> Option<&'a Column> {
    names.iter().find_map(|name| batch.column(name))
}

/// Returns the bytes of a text column in a row; empty if there are none.
fn text<'a>(batch: &'a RowBatch, names: &[&str], row: usize) -> &'a [u8] {
    match column(batch, names) {
        Some(Column::Texts(values)) => values[row].as_ref().map_or(b"", |value| value.data()),
        _ => b"",
    }
}

fn modified(batch: &RowBatch, row: usize) -> Modified<'_> {
    match column(batch, &MODIFIED) {
        Some(Column::Numbers(values)) => values[row].map_or(Modified::Unknown, |number| {
            let seconds = if number.abs() < MAX_SECONDS { number } else { number / 1e3 };
            Modified::Ms((seconds * 1e3).round() as i64)
        }),
        Some(Column::Texts(_)) => Modified::Text(text(batch, &MODIFIED, row)),
        _ => Modified::Unknown,
    }
}

fn is_marker(batch: &RowBatch, row: usize) -> bool {
    matches!(column(batch, &MARKER), Some(Column::Numbers(values)) if values[row] == Some(1.0))
}

/// Reads an inventory.
///
/// # Errors
/// If the file is malformed, a column is missing, or the receiver fails.
pub fn read<E: From<InventoryError>>(file: &Path, receive: &mut Receive<'_, E>) -> Result<(), E> {
    let fail = |reason: &dyn std::fmt::Display| E::from(InventoryError::file(file, reason));
    let opened = File::open(file).map_err(|e| fail(&e))?;
    let names: Vec<&'static str> = [&BUCKET[..], &KEY, &SIZE, &MODIFIED, &MARKER, &CLASS, &TIER].concat();
    let mut before = 0;
    read_columns(
        opened,
        &names,
        |e| fail(&e),
        |batch| {
            let (Some(Column::Numbers(sizes)), Some(_)) = (column(batch, &SIZE), column(batch, &KEY)) else {
                return Err(fail(&"the inventory has no columns key and size"));
            };
            for (row, size) in sizes.iter().enumerate() {
                let at = before + row as u64 + 1;
                let size = size.filter(|_| !is_marker(batch, row));
                if let Some(size) = size.filter(|size| !(*size >= 0.0 && size.fract() == 0.0)) {
                    return Err(InventoryError::row(file, at, format!("{size} is no size in bytes")).into());
                }
                receive(&Listed {
                    file,
                    row: at,
                    bucket: text(batch, &BUCKET, row),
                    key: text(batch, &KEY, row),
                    bytes: size.map(|size| size as u64),
                    modified: modified(batch, row),
                    class: text(batch, &CLASS, row),
                    tier: text(batch, &TIER, row),
                })?;
            }
            before += batch.rows as u64;
            Ok(())
        },
    )
}
