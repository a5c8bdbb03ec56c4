//! The catalog: an ordered map from keys to values with atomic transactions. It holds everything that clients see.
//!
//! A value has three parts: a head, which listings need; properties; and an inline body. An implementation keeps the
//! heads where scans are fast, and the rest where it is written only once.
//!
//! `embedded` keeps them in a directory, `postgres` in a database, `memory` in memory, and `standby` is a copy of
//! another gateway's; `any` is one of them. The seams below all rooms of the store are here, too: the disk, the clock
//! (`ambient`), the guards that simulations remove, threads, the log of the process, the progress of its loops
//! (`liveness`) and its end. Uses `base`; all other rooms of the store use it.

pub mod ambient;
pub mod any;
pub mod blocking;
pub mod codec;
pub mod committer;
pub mod disk;
pub mod embedded;
pub mod ending;
pub mod following;
pub mod format;
pub mod guard;
pub mod keys;
pub mod lease;
pub mod liveness;
pub mod log;
pub mod memory;
mod overlay;
pub mod pipeline;
pub mod postgres;
#[cfg(any(test, feature = "simulation"))]
pub mod simulated;
pub mod standby;
pub mod threads;

#[cfg(test)]
mod conformance;

use std::ops::Bound;

use bytes::Bytes;

use crate::disk::ballast::is_full;

/// A value to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Value {
    /// Summary that scans return, at most 65,535 bytes.
    pub head: Bytes,
    /// Properties that scans do not need, at most 16 MiB.
    pub properties: Bytes,
    /// Inline body, at most 64 MiB.
    pub body: Bytes,
}

/// A stored value without its properties and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Head of the value.
    pub head: Bytes,
    /// Place of the properties and the body.
    pub place: LogPosition,
    /// The whole value, if it was read together with the row.
    pub loaded: Option<Box<Value>>,
}

/// Place of the properties and the body of a value in the log of the embedded catalog. Other catalogs use only the
/// lengths, and have numbers of their own in the other fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPosition {
    /// Number of the segment.
    pub segment: u32,
    /// Offset of the record in the segment, in bytes.
    pub offset: u32,
    /// Bytes of the record before the properties.
    pub skip: u32,
    /// Length of the properties in bytes.
    pub properties: u32,
    /// Length of the body in bytes.
    pub body: u32,
    /// CRC-32C of the properties.
    pub properties_crc: u32,
    /// CRC-32C of the body.
    pub body_crc: u32,
}

/// Reason why a catalog cannot answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CatalogError {
    /// Stored bytes are not those that were written.
    #[error(
        "{file} is damaged at offset {offset}: {problem}; run `plimsoll-gateway scrub` to list the affected objects"
    )]
    Damaged {
        /// Name of the file.
        file: String,
        /// Offset in bytes.
        offset: u64,
        /// Property that is wrong.
        problem: String,
    },
    /// The disk has too little free space for writes.
    #[error("the disk has less free space than is reserved (--reserve); delete objects, or add space")]
    DiskFull,
    /// Writes have ended in this process: an earlier one has left the state of the disk unknown, or another process has
    /// continued the catalog.
    #[error("writes are stopped: {0}")]
    Stopped(String),
    /// The disk failed, or the catalog cannot be used in this way; the text says why.
    #[error("{0}")]
    Io(String),
    /// The database or the journal does not answer, or another process may lead. A transaction that failed with this
    /// error may be durable nevertheless.
    #[error("the catalog does not answer: {0}")]
    Unavailable(String),
    /// The catalog executes no further transactions in this process.
    #[error("the gateway is shutting down")]
    Ended,
    /// The catalog is a copy that follows another one.
    #[error("this gateway is a standby, which changes nothing; use the gateway that leads")]
    Standby,
    /// The row was replaced since it was read.
    #[error("the row has changed meanwhile")]
    Changed,
}

impl From<std::io::Error> for CatalogError {
    fn from(error: std::io::Error) -> CatalogError {
        // A full disk has its own error: clients get status 507, and nothing is logged for them (objects/error.rs).
        if is_full(&error) { CatalogError::DiskFull } else { CatalogError::Io(error.to_string()) }
    }
}

/// Returns nothing in place of a row that is in doubt because a record is lost. Work in the background leaves such rows
/// as they are: to write one again would make it look certain.
///
/// # Errors
/// Any other error.
pub fn unless_in_doubt<T>(found: Result<Option<T>, CatalogError>) -> Result<Option<T>, CatalogError> {
    match found {
        // No other error: while a database does not answer, its rows must not look as if they were missing.
        Err(CatalogError::Damaged { .. }) => Ok(None),
        found => found,
    }
}

/// A transaction: reads see the writes of all earlier transactions and of this one.
pub trait Transaction {
    /// Returns the row of a key.
    ///
    /// # Errors
    /// If the catalog cannot be read, or a record that may have replaced or removed the row is lost.
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError>;

    /// Returns the row of a key, even if a record that may have replaced or removed it is lost.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn last_known(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        // Only the log of a directory can lose single records: see embedded/group.rs.
        self.get(key)
    }

    /// Checks that a key without a row has none because nobody has written it, and not because its record is lost.
    ///
    /// # Errors
    /// If the record of the key may be lost.
    fn check_absent(&self, _key: &[u8]) -> Result<(), CatalogError> {
        Ok(())
    }

    /// Returns the value of a row that this transaction returned.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn value(&mut self, row: &Row) -> Result<Value, CatalogError>;

    /// Returns the first row at or after `from` whose key starts with `prefix`.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn first(&mut self, prefix: &[u8], from: &[u8]) -> Result<Option<(Vec<u8>, Row)>, CatalogError>;

    /// Writes a value.
    fn put(&mut self, key: Vec<u8>, value: Value);

    /// Removes a key; a missing key is not an error.
    fn delete(&mut self, key: Vec<u8>);

    /// Lets the transaction use the reserve of a full disk, because it helps to free space.
    fn use_reserve(&mut self) {}

    /// Returns true if the disk has too little free space for writes.
    fn is_full(&self) -> bool {
        false
    }

    /// Ends the file that receives the writes, so that its garbage can be removed.
    fn end_segment(&mut self) {}

    /// Returns true if other processes use the catalog at the same time.
    fn is_shared(&self) -> bool {
        false
    }
}

/// Rows in key order.
pub trait Scan {
    /// Moves to the first row that satisfies the bound.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn seek(&mut self, from: Bound<&[u8]>) -> Result<(), CatalogError>;

    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>, CatalogError>;
}

/// The body of a transaction. It returns true to commit its writes and false to drop them. A catalog may execute it
/// several times, for example if another process has changed what it has read; only the last time counts.
pub type Work = Box<dyn FnMut(&mut dyn Transaction) -> Result<bool, CatalogError> + Send>;

/// Keys that transactions read, as far as they are known before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownReads {
    /// Keys that are probably read. Others cost the catalog in a database a request each.
    pub keys: Vec<Vec<u8>>,
    /// True if other keys are probably not read, and no keys are looked for.
    pub is_complete: bool,
}

/// Needs of a transaction, as far as they are known before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// Estimated size of its writes in bytes.
    pub bytes: usize,
    /// Keys that it reads.
    pub reads: KnownReads,
}

impl From<usize> for Expected {
    fn from(bytes: usize) -> Expected {
        Expected { bytes, reads: KnownReads::default() }
    }
}

/// An ordered map with atomic transactions. They are durable when they return or, with an interval of syncs, after the
/// next sync.
pub trait Catalog: Send + Sync + 'static {
    /// Executes a transaction. The result is as if transactions were executed one after the other, so each sees the
    /// writes of all earlier ones. When the future returns `Ok`, the writes and everything that the transaction has
    /// read are durable. With an interval of syncs, they are so after the next sync: a crash of the machine before it
    /// loses them, and a crash of the process does not.
    fn commit(
        &self,
        work: Work,
        expected: impl Into<Expected>,
    ) -> impl Future<Output = Result<(), CatalogError>>;

    /// Returns the row of a key after the last transaction that has ended. With an interval of syncs, it may not be
    /// durable yet.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError>;

    /// Does the same as [`Catalog::get`]. A catalog in a database does not block the thread; one in a directory reads
    /// its files.
    fn read(&self, key: Vec<u8>) -> impl Future<Output = Result<Option<Row>, CatalogError>> {
        std::future::ready(self.get(&key))
    }

    /// Returns the rows of several keys, in their order; `None` also for a row that is in doubt.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn get_all(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Row>>, CatalogError> {
        // One key in doubt must not hide the rows of the others.
        keys.iter().map(|key| unless_in_doubt(self.get(key))).collect()
    }

    /// Returns the properties of a row.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn properties(&self, key: &[u8], row: &Row) -> Result<Bytes, CatalogError>;

    /// Returns the properties and the body of a row.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn value(&self, key: &[u8], row: &Row) -> Result<Value, CatalogError>;

    /// Returns all rows in key order.
    fn scan(&self) -> Box<dyn Scan + '_>;

    /// Returns true if other processes use the catalog at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Checks that what this process has in memory of a catalog that is not shared is the newest state.
    ///
    /// # Errors
    /// [`CatalogError::Unavailable`] if another process may have changed it.
    fn confirm(&self) -> Result<(), CatalogError> {
        Ok(())
    }

    /// Returns a mark for the transactions so far.
    fn mark(&self) -> u64 {
        0
    }

    /// Returns true if another process that continues the catalog certainly has the transactions before a mark.
    ///
    /// # Errors
    /// If another process may have continued it already.
    fn is_kept(&self, _mark: u64) -> Result<bool, CatalogError> {
        Ok(true)
    }

    /// Stops all writes for ever, because another process has continued a catalog that is not shared.
    fn stop_writes(&self, _reason: &str) {}

    /// Returns true if the disk has too little free space for writes.
    fn is_full(&self) -> bool {
        false
    }

    /// Returns true if a transaction is durable when it ends.
    fn is_durable_at_once(&self) -> bool {
        true
    }

    /// Returns the Unix time in milliseconds of the clock that all users of the catalog share; `None` if it has none.
    ///
    /// # Errors
    /// If the catalog does not answer.
    fn clock_ms(&self) -> Result<Option<u64>, CatalogError> {
        Ok(None)
    }
}

/// Returns a decoded value. `None`, which a decoder returns for a damaged value, becomes the error for damage.
///
/// # Errors
/// [`CatalogError::Damaged`] if there is no value.
pub fn intact<T>(value: Option<T>) -> Result<T, CatalogError> {
    value.ok_or_else(|| CatalogError::Damaged {
        file: "catalog".into(),
        offset: 0,
        problem: "a value has an unknown encoding".into(),
    })
}
