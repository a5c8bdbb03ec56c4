//! A catalog in memory, for tests and simulations.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{Catalog, CatalogError, Place, Row, Scan, Transaction, Value, Work};

type Map = BTreeMap<Vec<u8>, Value>;

/// A catalog in memory.
#[derive(Default)]
pub struct MemoryCatalog {
    map: Mutex<Map>,
}

fn row(value: &Value) -> Row {
    let place = Place { properties: value.properties.len() as u32, ..Place::default() };
    Row { head: value.head.clone(), place }
}

/// A transaction on a copy of the map, which replaces the map on commit.
struct MemoryTransaction {
    map: Map,
    /// Rows that the transaction returned, with their values.
    read: Vec<(Row, Value)>,
}

impl MemoryTransaction {
    fn remember(&mut self, value: &Value) -> Row {
        let place = Place { offset: self.read.len() as u32, ..Place::default() };
        let row = Row { head: value.head.clone(), place };
        self.read.push((row.clone(), value.clone()));
        row
    }
}

impl Transaction for MemoryTransaction {
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        let value = self.map.get(key).cloned();
        Ok(value.map(|value| self.remember(&value)))
    }

    fn value(&mut self, row: &Row) -> Result<Value, CatalogError> {
        Ok(self.read.get(row.place.offset as usize).map(|(_, value)| value.clone()).unwrap_or_default())
    }

    fn first(&mut self, prefix: &[u8], from: &[u8]) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        let found = self.map.range(from.to_vec()..).next().filter(|(key, _)| key.starts_with(prefix));
        let found = found.map(|(key, value)| (key.clone(), value.clone()));
        Ok(found.map(|(key, value)| (key, self.remember(&value))))
    }

    fn put(&mut self, key: Vec<u8>, value: Value) {
        self.map.insert(key, value);
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.map.remove(&key);
    }
}

impl MemoryCatalog {
    fn lock(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, key: &[u8]) -> Value {
        self.lock().get(key).cloned().unwrap_or_default()
    }
}

impl Catalog for MemoryCatalog {
    async fn commit(&self, work: Work, _: usize) -> Result<(), CatalogError> {
        let mut map = self.lock();
        let mut transaction = MemoryTransaction { map: map.clone(), read: Vec::new() };
        if work(&mut transaction)? {
            *map = transaction.map;
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        Ok(self.lock().get(key).map(row))
    }

    fn properties(&self, key: &[u8], _: &Row) -> Result<Bytes, CatalogError> {
        Ok(self.find(key).properties)
    }

    fn value(&self, key: &[u8], _: &Row) -> Result<Value, CatalogError> {
        Ok(self.find(key))
    }

    fn scan(&self) -> Box<dyn Scan + '_> {
        Box::new(MemoryScan { catalog: self, from: Bound::Unbounded })
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
        let map = self.catalog.lock();
        let found = map.range((self.from.clone(), Bound::Unbounded)).next();
        let found = found.map(|(key, value)| (key.clone(), row(value)));
        if let Some((key, _)) = &found {
            self.from = Bound::Excluded(key.clone());
        }
        Ok(found)
    }
}
