//! Scans of Parquet files: the requests of a reader, computed from the metadata of the files.
//!
//! Each reader is a function of [`Layout`]. Clients are the reference: a test records the requests of the programs
//! themselves for the same files.

mod cache;
mod duckdb;
mod layout;
mod pyarrow;

pub use self::layout::{Chunk, Group, Layout};

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::logs::LogError;
use crate::logs::files::files_of;
use plimsoll_workload::OperationKind;
use plimsoll_workload::scan::{Reader, Scan};
use plimsoll_workload::trace::{Recorded, Trace};

/// A request of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanRequest {
    /// The size of the file.
    Head,
    /// A range of its bytes.
    Bytes(Range<u64>),
}

/// Returns the requests for one file in the order in which the reader needs them. `columns` are the leaves of the
/// schema that it reads.
pub fn requests_of(reader: Reader, file: &Layout, columns: &[usize]) -> Vec<ScanRequest> {
    match reader {
        Reader::DuckDb => duckdb::requests(file, columns),
        Reader::PyArrow => pyarrow::requests(file, columns),
    }
}

/// Returns the requests of scans of files, one file after the other, as a trace without times.
///
/// # Errors
/// Returns an error if a file cannot be read, is no Parquet file, or does not have the columns.
pub fn trace(files: &[PathBuf], scan: &Scan) -> Result<Trace, LogError> {
    let (mut requests, mut sizes) = (Vec::new(), Vec::new());
    for (number, path) in files_of(files)?.iter().enumerate() {
        let layout = Layout::read(path)?;
        let columns = columns(&layout, &scan.select, path)?;
        for request in requests_of(scan.reader, &layout, &columns) {
            let (kind, start, length) = match request {
                ScanRequest::Head => (OperationKind::Head, None, 0),
                ScanRequest::Bytes(range) => {
                    (OperationKind::GetRange, Some(range.start), range.end - range.start)
                }
            };
            requests.push(Recorded { at_ns: 0, kind, object: number as u32, version: 0, length, start });
        }
        sizes.push(vec![layout.bytes]);
    }
    Ok(Trace::new(requests, sizes.len() as u64, sizes))
}

/// Returns the leaves of the schema that belong to the selected columns.
fn columns(layout: &Layout, select: &[String], path: &Path) -> Result<Vec<usize>, LogError> {
    let roots = || layout.columns.iter().map(String::as_str);
    if let Some(missing) = select.iter().find(|name| !roots().any(|root| root == *name)) {
        let mut known: Vec<&str> = roots().collect();
        known.dedup();
        let more = if known.len() > 20 { ", ..." } else { "" };
        known.truncate(20);
        let reason = format!("the file has no column '{missing}'; it has {}{more}", known.join(", "));
        return Err(LogError::unreadable(path, reason));
    }
    let chosen = |(_, root): &(usize, &str)| select.is_empty() || select.iter().any(|name| name == root);
    Ok(roots().enumerate().filter(chosen).map(|(leaf, _)| leaf).collect())
}

#[cfg(test)]
mod tests;
