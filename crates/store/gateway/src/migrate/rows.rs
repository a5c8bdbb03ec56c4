//! Rows on their way from one catalog to another.

use futures_util::future::join_all;

use super::target::CatalogCopy;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::{Catalog, CatalogError, Row, Scan, Value};
use plimsoll_objects::keys;

/// Maximum number of rows of a transaction.
const MAX_ROWS: usize = 1000;
/// Maximum number of bytes of a transaction, unless a single row has more.
const MAX_BYTES: usize = 4 << 20;

/// Rows in the order of their keys.
pub trait RowSource {
    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    /// If the catalog fails.
    fn next(&mut self) -> Result<Option<(Vec<u8>, Value)>, CatalogError>;
}

/// Returns true for a row that stays behind: the time of the log, and the sessions of processes. A session in a
/// directory has no end, and would keep others from leading.
pub fn stays_behind(key: &[u8]) -> bool {
    key == keys::TIME || keys::parse_lease(key).is_some()
}

/// All rows of a catalog in a directory. Rows that change meanwhile are seen before or after the change.
pub struct ScannedRows<'a> {
    catalog: &'a AnyCatalog,
    scan: Box<dyn Scan + 'a>,
}

impl<'a> ScannedRows<'a> {
    /// Begins with the first row.
    pub fn new(catalog: &'a AnyCatalog) -> ScannedRows<'a> {
        ScannedRows { catalog, scan: catalog.scan() }
    }
}

impl RowSource for ScannedRows<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Value)>, CatalogError> {
        while let Some((key, row)) = self.scan.next()? {
            if stays_behind(&key) {
                continue;
            }
            // A row that is gone since then is missing here, and its key was changed.
            if let Some(value) = value(self.catalog, &key, Some(row))? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }
}

/// Returns the value of a row, or of the one that has replaced it; `None` if there is none any more.
fn value(catalog: &AnyCatalog, key: &[u8], row: Option<Row>) -> Result<Option<Value>, CatalogError> {
    let mut row = row;
    while let Some(found) = row {
        match catalog.value(key, &found) {
            Ok(value) => return Ok(Some(value)),
            // A row of the embedded engine that was removed has no segment any more.
            Err(error @ (CatalogError::Changed | CatalogError::Damaged { .. })) => {
                let now = catalog.get(key)?;
                if now.as_ref() == Some(&found) {
                    return Err(error);
                }
                row = now;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Copies the rows of some keys as they are now; a key without a row is removed. Returns the number of keys.
///
/// # Errors
/// If a catalog fails.
pub fn copy_keys<'a>(
    from: &AnyCatalog,
    to: &dyn CatalogCopy,
    keys: impl Iterator<Item = &'a Vec<u8>>,
) -> Result<u64, CatalogError> {
    /// Number of rows that are read at the same time.
    const AT_ONCE: usize = 256;
    let wanted: Vec<&Vec<u8>> = keys.filter(|key| !stays_behind(key)).collect();
    let mut batches = Batches::new(to);
    for some in wanted.chunks(AT_ONCE) {
        let rows = block_on(join_all(some.iter().map(|key| from.read((*key).clone()))));
        for (key, row) in some.iter().zip(rows) {
            batches.add(key.to_vec(), value(from, key, row?)?)?;
        }
    }
    batches.end()?;
    Ok(wanted.len() as u64)
}

/// Writer of rows in transactions of many rows each.
pub struct Batches<'a> {
    to: &'a dyn CatalogCopy,
    rows: Vec<(Vec<u8>, Option<Value>)>,
    bytes: usize,
}

impl<'a> Batches<'a> {
    /// Begins without rows.
    pub fn new(to: &'a dyn CatalogCopy) -> Batches<'a> {
        Batches { to, rows: Vec::new(), bytes: 0 }
    }

    /// Adds a row; `None` removes it.
    ///
    /// # Errors
    /// If the copy fails.
    pub fn add(&mut self, key: Vec<u8>, value: Option<Value>) -> Result<(), CatalogError> {
        let length = |value: &Value| value.head.len() + value.properties.len() + value.body.len();
        let bytes = key.len() + value.as_ref().map_or(0, length);
        if !self.rows.is_empty() && (self.rows.len() >= MAX_ROWS || self.bytes + bytes > MAX_BYTES) {
            self.write()?;
        }
        self.bytes += bytes;
        self.rows.push((key, value));
        Ok(())
    }

    fn write(&mut self) -> Result<(), CatalogError> {
        let (rows, bytes) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.bytes));
        self.to.write(rows, bytes)
    }

    /// Writes the rows that are left.
    ///
    /// # Errors
    /// If the copy fails.
    pub fn end(mut self) -> Result<(), CatalogError> {
        if self.rows.is_empty() { Ok(()) } else { self.write() }
    }
}
