//! Merges index entries of several sources. The entry of the newest source wins.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::memtable::Memtable;
use super::table::{Slot, Table, TableIterator};
use crate::CatalogError;

/// Number of entries copied from a memtable at a time.
const BATCH: usize = 64;

/// Entries of one source in key order.
enum Source {
    Table(TableIterator),
    Memory { memtable: Arc<Memtable>, batch: std::vec::IntoIter<(Bytes, Slot)>, last: Option<Bytes> },
}

impl Source {
    fn next(&mut self) -> Result<Option<(Bytes, Slot)>, CatalogError> {
        match self {
            Source::Table(table) => table.next(),
            Source::Memory { memtable, batch, last } => {
                if batch.len() == 0
                    && let Some(last) = &*last
                {
                    // Looked up by key, because the memtable may have changed since the last part.
                    *batch = memtable.range(Bound::Excluded(last), BATCH).into_iter();
                }
                let next = batch.next();
                *last = next.as_ref().map(|(key, _)| key.clone());
                Ok(next)
            }
        }
    }
}

/// Entries of several sources in key order, each key once.
pub struct Merge {
    /// Sources from the newest to the oldest, each with its next entry.
    sources: Vec<(Source, Option<(Bytes, Slot)>)>,
}

impl Merge {
    /// Creates a merge of sources, each listed from the newest to the oldest, from the first key at or after `from`.
    ///
    /// # Errors
    /// If a table is damaged.
    pub fn new(
        memtables: &[Arc<Memtable>],
        tables: &[Arc<Table>],
        from: &[u8],
    ) -> Result<Merge, CatalogError> {
        let mut sources = Vec::new();
        for memtable in memtables {
            let batch = memtable.range(Bound::Included(from), BATCH).into_iter();
            sources.push(Source::Memory { memtable: Arc::clone(memtable), batch, last: None });
        }
        sources.extend(tables.iter().map(|table| Source::Table(table.iterate(from))));
        let mut all = Vec::new();
        for mut source in sources {
            let first = source.next()?;
            all.push((source, first));
        }
        Ok(Merge { sources: all })
    }

    /// Returns the next entry; `None` at the end. A removed key has an entry without a row.
    ///
    /// # Errors
    /// If a table is damaged.
    pub fn next(&mut self) -> Result<Option<(Bytes, Slot)>, CatalogError> {
        let mut smallest: Option<usize> = None;
        for (index, (_, next)) in self.sources.iter().enumerate() {
            let Some((key, _)) = next else { continue };
            // With equal keys, the first source wins, because it is the newest.
            let is_smaller = smallest.is_none_or(|at| match &self.sources[at].1 {
                Some((other, _)) => key < other,
                None => true,
            });
            if is_smaller {
                smallest = Some(index);
            }
        }
        let Some(winner) = smallest else { return Ok(None) };
        let (source, next) = &mut self.sources[winner];
        let found = next.take();
        // If this fails, `found` is lost. Whoever goes on creates a new merge behind the last key that was returned.
        *next = source.next()?;
        if let Some((key, _)) = &found {
            for (source, next) in &mut self.sources[winner + 1..] {
                if next.as_ref().is_some_and(|(other, _)| other == key) {
                    *next = source.next()?;
                }
            }
        }
        Ok(found)
    }
}
