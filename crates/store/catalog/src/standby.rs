//! The catalog of a standby: a copy that follows the catalog of another gateway, and cannot be written.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::embedded::Engine;
use super::overlay::{Base, Overlay};
use super::{Catalog, CatalogError, Expected, Row, Scan, Value, Work};
use crate::following::Following;

/// The copy of a catalog that another gateway leads.
pub struct StandbyCatalog {
    engine: Arc<Engine>,
    /// State of the copy.
    pub following: Arc<Following>,
    /// True if clients may read the copy.
    pub is_read: bool,
}

impl StandbyCatalog {
    /// Creates a catalog over the copy of a log.
    pub fn new(engine: Arc<Engine>, following: Arc<Following>, is_read: bool) -> StandbyCatalog {
        StandbyCatalog { engine, following, is_read }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl Base for &Engine {
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        Engine::get(self, key)
    }

    fn value(&mut self, key: &[u8], row: &Row) -> Result<Value, CatalogError> {
        self.read(key, row, true)
    }

    fn first(&mut self, prefix: &[u8], from: Bound<&[u8]>) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        let mut scan = self.scan();
        scan.seek(from)?;
        Ok(scan.next()?.filter(|(key, _)| key.starts_with(prefix)))
    }
}

impl Catalog for StandbyCatalog {
    /// Executes a transaction that changes nothing.
    async fn commit(&self, mut work: Work, _: impl Into<Expected>) -> Result<(), CatalogError> {
        // Executed nevertheless: a request that is refused for another reason gets that answer.
        let mut group = Overlay::new(&*self.engine);
        group.execute(&mut work)?;
        let (changes, _) = group.finish();
        if changes.is_empty() { Ok(()) } else { Err(CatalogError::Standby) }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        self.engine.get(key)
    }

    fn properties(&self, key: &[u8], row: &Row) -> Result<Bytes, CatalogError> {
        Ok(self.engine.read(key, row, false)?.properties)
    }

    fn value(&self, key: &[u8], row: &Row) -> Result<Value, CatalogError> {
        self.engine.read(key, row, true)
    }

    fn scan(&self) -> Box<dyn Scan + '_> {
        Box::new(self.engine.scan())
    }

    /// Nothing that this process remembers of the catalog is current, because another one changes it.
    fn is_shared(&self) -> bool {
        true
    }
}
