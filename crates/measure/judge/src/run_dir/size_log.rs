//! `size_classes.arrows`: the service times of each second by size of the object, if a run has objects of several
//! sizes.
//!
//! The file is an interval log like `intervals.arrows`, with other names of operations: `get[65536]` are the successful
//! gets of the size class that begins at 64 KiB. So readers, and the merging of shards, are the same.

use std::io;
use std::path::{Path, PathBuf};

use super::intervals::{IntervalKey, IntervalLog};
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::part::WindowPart;
use plimsoll_recorder::tally::Tally;
use plimsoll_workload::OperationKind;

/// Name of the file.
pub const NAME: &str = "size_classes.arrows";

/// Returns the name of the operations of a size class, by its smallest size in bytes.
pub fn name(kind: OperationKind, from_bytes: u64) -> String {
    format!("{}[{from_bytes}]", kind.name())
}

/// Returns the operation and the smallest size of the class that a name of either log means; `None` if it is unknown.
pub fn parse(name: &str) -> Option<(OperationKind, Option<u64>)> {
    match name.split_once('[') {
        None => Some((OperationKind::from_name(name)?, None)),
        Some((kind, rest)) => {
            let from_bytes = rest.strip_suffix(']')?.parse().ok()?;
            Some((OperationKind::from_name(kind)?, Some(from_bytes)))
        }
    }
}

/// Writer of the file, which exists from the first operation of a size class on.
pub struct SizeLog {
    path: PathBuf,
    log: Option<IntervalLog>,
}

impl SizeLog {
    /// Creates a writer of the file in a run directory.
    pub fn new(run: &Path) -> SizeLog {
        SizeLog { path: run.join(NAME), log: None }
    }

    /// Adds the rows of all size classes of a second.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn add(&mut self, place: IntervalKey<'_>, row: &SecondRow<'_>) -> io::Result<()> {
        for (part, latencies) in &row.tally.parts {
            if let WindowPart::Size(from_bytes) = part {
                self.log()?.add_service(place, row.second, &name(row.kind, *from_bytes), latencies)?;
            }
        }
        Ok(())
    }

    /// Adds one row.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn add_named(
        &mut self,
        place: IntervalKey<'_>,
        second: u64,
        operation: &str,
        tally: &Tally,
    ) -> io::Result<()> {
        self.log()?.add_named(place, second, operation, tally)
    }

    /// Returns the log, which is created if it does not exist yet.
    fn log(&mut self) -> io::Result<&mut IntervalLog> {
        Ok(match &mut self.log {
            Some(log) => log,
            none => none.insert(IntervalLog::create(&self.path)?),
        })
    }

    /// Writes the buffered rows to the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn flush(&mut self) -> io::Result<()> {
        self.log.as_mut().map_or(Ok(()), IntervalLog::flush)
    }

    /// Writes the buffered rows and the end of the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written, for example because the disk is full.
    pub fn finish(self) -> io::Result<()> {
        self.log.map_or(Ok(()), IntervalLog::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_operation_and_the_class() {
        assert_eq!(name(OperationKind::GetRange, 65_536), "get_range[65536]");
        assert_eq!(parse("get_range[65536]"), Some((OperationKind::GetRange, Some(65_536))));
        assert_eq!(parse("put"), Some((OperationKind::Put, None)));
        for wrong in ["got", "get[", "get[]", "get[1", "get[-1]", "got[1]"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
