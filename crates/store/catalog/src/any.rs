//! The catalog that the settings select.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::embedded::Engine;
use super::embedded::catalog::EmbeddedCatalog;
use super::memory::MemoryCatalog;
use super::postgres::PostgresCatalog;
use super::standby::StandbyCatalog;
use crate::following::Following;
use crate::lease::Lease;
use crate::liveness;

use super::{Catalog, CatalogError, Expected, Row, Scan, Value, Work};

/// A catalog on one of the engines.
pub enum AnyCatalog {
    /// In a directory of this machine.
    Embedded(EmbeddedCatalog),
    /// In a PostgreSQL database.
    Postgres(PostgresCatalog),
    /// A copy of the catalog of another gateway.
    Standby(StandbyCatalog),
    /// In memory, for plans about objects that no gateway has.
    Memory(MemoryCatalog),
}

impl AnyCatalog {
    /// Returns the engine of an embedded catalog.
    pub fn engine(&self) -> Option<&Arc<Engine>> {
        match self {
            AnyCatalog::Embedded(catalog) => Some(catalog.engine()),
            AnyCatalog::Standby(catalog) => Some(catalog.engine()),
            AnyCatalog::Postgres(_) | AnyCatalog::Memory(_) => None,
        }
    }

    /// Returns the lease of this process; `None` if no other process can lead.
    pub fn lease(&self) -> Option<&Arc<Lease>> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.lease(),
            AnyCatalog::Postgres(_) | AnyCatalog::Standby(_) | AnyCatalog::Memory(_) => None,
        }
    }

    /// Returns the state of the copy of a standby; `None` for a gateway that leads.
    pub fn following(&self) -> Option<&Arc<Following>> {
        match self {
            AnyCatalog::Standby(catalog) => Some(&catalog.following),
            AnyCatalog::Embedded(_) | AnyCatalog::Postgres(_) | AnyCatalog::Memory(_) => None,
        }
    }

    /// Checks that transactions can be executed; of a standby, that clients may read its copy.
    ///
    /// # Errors
    /// Describes why not.
    pub fn check(&self) -> Result<(), CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => {
                // The lease first: if another gateway leads, writes may be stopped, too, without a fault of the disk.
                catalog.lease().map_or(Ok(()), |lease| lease.check())?;
                catalog.engine().check_writes()
            }
            AnyCatalog::Postgres(catalog) => catalog.ping(),
            // A copy that clients may not read is not ready: a load balancer would send requests that are all refused.
            AnyCatalog::Standby(catalog) if catalog.is_read => Ok(()),
            AnyCatalog::Standby(_) => Err(CatalogError::Standby),
            AnyCatalog::Memory(_) => Ok(()),
        }
    }

    /// Commits the queued transactions and ends the threads.
    ///
    /// # Errors
    /// If the disk fails, another process leads, or a standby does not have the last writes.
    pub fn close(&self) -> Result<(), CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.close(),
            AnyCatalog::Postgres(catalog) => {
                catalog.close();
                Ok(())
            }
            // The thread that follows closes the copy of a standby: see `close` in backup/journal/follow.rs.
            AnyCatalog::Standby(_) | AnyCatalog::Memory(_) => Ok(()),
        }
    }
}

/// A scan that reports progress: a visit of very many rows is no stall.
struct ReportingScan<'a> {
    scan: Box<dyn Scan + 'a>,
    rows: u32,
}

impl Scan for ReportingScan<'_> {
    fn seek(&mut self, from: Bound<&[u8]>) -> Result<(), CatalogError> {
        self.scan.seek(from)
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        /// Rows between two reports.
        const ROWS: u32 = 1024;
        self.rows = self.rows.wrapping_add(1);
        // Not for each row: a report reads the clock and takes a lock.
        if self.rows.is_multiple_of(ROWS) {
            liveness::at("the next rows of the catalog");
        }
        self.scan.next()
    }
}

impl Catalog for AnyCatalog {
    async fn commit(&self, work: Work, expected: impl Into<Expected>) -> Result<(), CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.commit(work, expected).await,
            AnyCatalog::Postgres(catalog) => catalog.commit(work, expected).await,
            AnyCatalog::Standby(catalog) => catalog.commit(work, expected).await,
            AnyCatalog::Memory(catalog) => catalog.commit(work, expected).await,
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.get(key),
            AnyCatalog::Postgres(catalog) => catalog.get(key),
            AnyCatalog::Standby(catalog) => catalog.get(key),
            AnyCatalog::Memory(catalog) => catalog.get(key),
        }
    }

    async fn read(&self, key: Vec<u8>) -> Result<Option<Row>, CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.read(key).await,
            AnyCatalog::Postgres(catalog) => catalog.read(key).await,
            AnyCatalog::Standby(catalog) => catalog.read(key).await,
            AnyCatalog::Memory(catalog) => catalog.read(key).await,
        }
    }

    fn get_all(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Row>>, CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.get_all(keys),
            AnyCatalog::Postgres(catalog) => catalog.get_all(keys),
            AnyCatalog::Standby(catalog) => catalog.get_all(keys),
            AnyCatalog::Memory(catalog) => catalog.get_all(keys),
        }
    }

    fn properties(&self, key: &[u8], row: &Row) -> Result<Bytes, CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.properties(key, row),
            AnyCatalog::Postgres(catalog) => catalog.properties(key, row),
            AnyCatalog::Standby(catalog) => catalog.properties(key, row),
            AnyCatalog::Memory(catalog) => catalog.properties(key, row),
        }
    }

    fn value(&self, key: &[u8], row: &Row) -> Result<Value, CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.value(key, row),
            AnyCatalog::Postgres(catalog) => catalog.value(key, row),
            AnyCatalog::Standby(catalog) => catalog.value(key, row),
            AnyCatalog::Memory(catalog) => catalog.value(key, row),
        }
    }

    fn scan(&self) -> Box<dyn Scan + '_> {
        let scan = match self {
            AnyCatalog::Embedded(catalog) => catalog.scan(),
            AnyCatalog::Postgres(catalog) => catalog.scan(),
            AnyCatalog::Standby(catalog) => catalog.scan(),
            AnyCatalog::Memory(catalog) => catalog.scan(),
        };
        Box::new(ReportingScan { scan, rows: 0 })
    }

    fn confirm(&self) -> Result<(), CatalogError> {
        match self {
            // Rows of a shared catalog are read again for each use, so only the embedded one has something to confirm.
            AnyCatalog::Embedded(catalog) => catalog.confirm(),
            AnyCatalog::Postgres(_) | AnyCatalog::Standby(_) | AnyCatalog::Memory(_) => Ok(()),
        }
    }

    fn mark(&self) -> u64 {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.mark(),
            AnyCatalog::Postgres(_) | AnyCatalog::Standby(_) | AnyCatalog::Memory(_) => 0,
        }
    }

    fn is_kept(&self, mark: u64) -> Result<bool, CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.is_kept(mark),
            AnyCatalog::Postgres(_) | AnyCatalog::Standby(_) | AnyCatalog::Memory(_) => Ok(true),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            // A database reports a full disk in the error of a statement: see `failed` in postgres/connection.rs.
            AnyCatalog::Embedded(catalog) => catalog.engine().is_full(),
            AnyCatalog::Postgres(_) | AnyCatalog::Standby(_) | AnyCatalog::Memory(_) => false,
        }
    }

    fn stop_writes(&self, reason: &str) {
        // Gateways of one database all write to it, so another writer is no reason to stop.
        if let AnyCatalog::Embedded(catalog) = self {
            catalog.engine().stop_for(reason);
        }
    }

    fn is_durable_at_once(&self) -> bool {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.is_durable_at_once(),
            AnyCatalog::Postgres(_) | AnyCatalog::Standby(_) | AnyCatalog::Memory(_) => true,
        }
    }

    fn clock_ms(&self) -> Result<Option<u64>, CatalogError> {
        match self {
            AnyCatalog::Embedded(catalog) => catalog.clock_ms(),
            AnyCatalog::Postgres(catalog) => catalog.clock_ms(),
            AnyCatalog::Standby(catalog) => catalog.clock_ms(),
            AnyCatalog::Memory(catalog) => catalog.clock_ms(),
        }
    }

    fn is_shared(&self) -> bool {
        matches!(self, AnyCatalog::Postgres(_) | AnyCatalog::Standby(_))
    }
}
