//! A catalog in memory, for tests, simulations, and plans about objects that no gateway has.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::overlay::{Base, Overlay};
use super::{Catalog, CatalogError, Expected, LogPosition, Row, Scan, Value, Work};

type Map = BTreeMap<Vec<u8>, Value>;

/// A catalog in memory.
#[derive(Default)]
pub struct MemoryCatalog {
    map: Mutex<Map>,
    is_shared: bool,
}

fn row(value: &Value) -> Row {
    let place = LogPosition {
        properties: value.properties.len() as u32,
        body: value.body.len() as u32,
        ..LogPosition::default()
    };
    // With the whole value, so that a row stays the same when another transaction replaces it.
    Row { head: value.head.clone(), place, loaded: Some(Box::new(value.clone())) }
}

/// The state before a group.
struct Before<'a> {
    map: &'a Map,
    is_shared: bool,
}

impl Base for Before<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        Ok(self.map.get(key).map(row))
    }

    fn value(&mut self, key: &[u8], _: &Row) -> Result<Value, CatalogError> {
        Ok(self.map.get(key).cloned().unwrap_or_default())
    }

    fn first(&mut self, prefix: &[u8], from: Bound<&[u8]>) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        let found = self.map.range::<[u8], _>((from, Bound::Unbounded)).next();
        let found = found.filter(|(key, _)| key.starts_with(prefix));
        Ok(found.map(|(key, value)| (key.clone(), row(value))))
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }
}

impl MemoryCatalog {
    /// Creates a catalog that several stores use at the same time.
    pub fn shared() -> MemoryCatalog {
        MemoryCatalog { is_shared: true, ..MemoryCatalog::default() }
    }

    /// Returns a copy of all rows.
    #[cfg(any(test, feature = "simulation"))]
    pub fn back_up(&self) -> BTreeMap<Vec<u8>, Value> {
        self.lock().clone()
    }

    /// Replaces all rows.
    #[cfg(any(test, feature = "simulation"))]
    pub fn restore(&self, rows: BTreeMap<Vec<u8>, Value>) {
        *self.lock() = rows;
    }

    fn lock(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Catalog for MemoryCatalog {
    async fn commit(&self, mut work: Work, _: impl Into<Expected>) -> Result<(), CatalogError> {
        // Held until the changes are in the map: transactions of several threads must be serial.
        let mut map = self.lock();
        let mut group = Overlay::new(Before { map: &map, is_shared: self.is_shared });
        group.execute(&mut work)?;
        let (changes, _) = group.finish();
        for (key, change) in changes {
            match change {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        Ok(self.lock().get(key).map(row))
    }

    fn properties(&self, _: &[u8], row: &Row) -> Result<Bytes, CatalogError> {
        Ok(row.loaded.as_ref().map(|value| value.properties.clone()).unwrap_or_default())
    }

    fn value(&self, _: &[u8], row: &Row) -> Result<Value, CatalogError> {
        Ok(row.loaded.as_deref().cloned().unwrap_or_default())
    }

    fn scan(&self) -> Box<dyn Scan + '_> {
        Box::new(MemoryScan { catalog: self, from: Bound::Unbounded })
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }
}

struct MemoryScan<'a> {
    catalog: &'a MemoryCatalog,
    from: Bound<Vec<u8>>,
}

impl Scan for MemoryScan<'_> {
    fn seek(&mut self, from: Bound<&[u8]>) -> Result<(), CatalogError> {
        self.from = from.map(<[u8]>::to_vec);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        // For each row anew: a caller may commit between two rows, and would otherwise wait for itself.
        let map = self.catalog.lock();
        let found = map.range((self.from.clone(), Bound::Unbounded)).next();
        let found = found.map(|(key, value)| (key.clone(), row(value)));
        if let Some((key, _)) = &found {
            self.from = Bound::Excluded(key.clone());
        }
        Ok(found)
    }
}
