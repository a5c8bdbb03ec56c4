//! The catalog in a PostgreSQL database, for several gateways at the same time.

pub mod connection;
pub mod filling;
mod group;
mod optimistic;
mod reader;
mod rows;
pub mod schema;
pub mod trigger;

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

pub use self::connection::Database;
use self::connection::Link;
use self::group::Groups;
use self::reader::Reader;
use super::committer::Committer;
use super::{Catalog, CatalogError, Expected, Row, Scan, Value, Work, format};
use crate::blocking::{block_on, block_on_for};

/// Use of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads and writes; the table is created if necessary.
    Create,
    /// Reads; changes are dropped, and the table must exist.
    ReadOnly,
}

/// Number of connections for reads that are not of single rows.
const READERS: usize = 8;

/// Number of groups that are written at the same time.
const WRITERS: usize = 3;

/// An open catalog.
pub struct PostgresCatalog {
    committer: Committer<Groups>,
    reader: Reader,
    readers: Vec<Link>,
    next: AtomicUsize,
    /// Runtime of the connections; `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl PostgresCatalog {
    /// Opens the catalog of a database.
    ///
    /// # Errors
    /// If the database does not answer, or the table is missing.
    pub fn open(database: &Database, access: Access) -> Result<PostgresCatalog, CatalogError> {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("postgres").enable_all().build()?;
        let first = Link::new(database.clone(), runtime.handle().clone());
        prepare(&first, access)?;
        // Connections of their own: a statement of a reader must not become a part of the transaction of a group.
        let readers = (0..READERS).map(|_| first.another()).collect();
        let reader = Reader::start(first.another(), runtime.handle());
        let writers = (0..WRITERS).map(|_| Groups::new(first.another(), access == Access::ReadOnly));
        let committer = Committer::concurrent(writers)?;
        let next = AtomicUsize::new(0);
        Ok(PostgresCatalog { committer, reader, readers, next, runtime: Some(runtime) })
    }

    /// Returns a connection for reads; each call another one.
    pub fn link(&self) -> &Link {
        &self.readers[self.next.fetch_add(1, Ordering::Relaxed) % READERS]
    }

    /// Checks that the database answers.
    ///
    /// # Errors
    /// If it does not.
    pub fn ping(&self) -> Result<(), CatalogError> {
        /// Time for which the page that asks has to be answered.
        const PING: std::time::Duration = std::time::Duration::from_secs(5);
        let silent = || CatalogError::Unavailable(format!("no answer in {} s", PING.as_secs()));
        // No row has the empty key, so the answer has no bytes.
        block_on_for(PING, self.reader.read(Vec::new())).ok_or_else(silent)?.map(|_| ())
    }

    /// Commits the queued transactions and ends the threads.
    pub fn close(&self) {
        self.committer.stop();
    }
}

/// Message for a database without a catalog.
const NO_CATALOG: &str = "there is no catalog in the database";

/// Returns true if an error says that a database has no catalog, and never had one.
pub fn is_missing(error: &CatalogError) -> bool {
    matches!(error, CatalogError::Io(text) if text == NO_CATALOG)
}

/// Checks the table, or creates it.
fn prepare(link: &Link, access: Access) -> Result<(), CatalogError> {
    let exists: bool = link.once(async |client| client.query_one(schema::EXISTS, &[]).await?.try_get(0))?;
    if !exists {
        // Before the creation of a table: with old settings, an empty catalog would begin in the place of the one that
        // was moved. `create` checks this and the next one again, under its lock.
        let moved: Option<String> =
            link.once(async |client| client.query_one(schema::MOVED, &[]).await?.try_get(0))?;
        if let Some(text) = moved {
            return Err(CatalogError::Io(format!(
                "{text}; use the settings with that place. If that is not possible, the table plimsoll_catalog_moved \
                 has the catalog of the time of the move: rename it to plimsoll_catalog"
            )));
        }
    }
    let is_unfinished: bool =
        link.once(async |client| client.query_one(schema::UNFINISHED, &[]).await?.try_get(0))?;
    if !exists && is_unfinished {
        return Err(CatalogError::Io(
            "the database has a copy of a catalog that is not complete: wait for the end of `catalog migrate` or \
             `restore`, or repeat it; to give the copy up, drop the table plimsoll_catalog_unfinished"
                .into(),
        ));
    }
    match access {
        Access::Create => {
            // Each write pays for the trigger of a move that was killed.
            trigger::remove_abandoned(link)?;
            link.once(async |client| client.batch_execute(&schema::create()).await)?;
        }
        Access::ReadOnly if !exists => {
            return Err(CatalogError::Io(NO_CATALOG.into()));
        }
        Access::ReadOnly => {}
    }
    let comment: Option<String> =
        link.once(async |client| client.query_one(schema::COMMENT, &[]).await?.try_get(0))?;
    // Checked before it is recorded: an older program must not replace the number of a newer format.
    if format::of_comment(comment.as_deref())? && access == Access::Create {
        link.once(async |client| client.batch_execute(&schema::record_format()).await)?;
    }
    Ok(())
}

impl Drop for PostgresCatalog {
    fn drop(&mut self) {
        self.close();
        if let Some(runtime) = self.runtime.take() {
            // The last owner may be a thread of another runtime, which must not wait.
            runtime.shutdown_background();
        }
    }
}

impl Catalog for PostgresCatalog {
    fn commit(
        &self,
        work: Work,
        expected: impl Into<Expected>,
    ) -> impl Future<Output = Result<(), CatalogError>> {
        self.committer.commit(work, expected)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        block_on(self.reader.read(key.to_vec()))
    }

    async fn read(&self, key: Vec<u8>) -> Result<Option<Row>, CatalogError> {
        self.reader.read(key).await
    }

    fn get_all(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Row>>, CatalogError> {
        let mut found = self.link().read(async |session| rows::get_all(session, keys).await)?;
        Ok(keys.iter().map(|key| found.remove(key)).collect())
    }

    fn properties(&self, key: &[u8], row: &Row) -> Result<Bytes, CatalogError> {
        Ok(self.value(key, row)?.properties)
    }

    fn value(&self, key: &[u8], row: &Row) -> Result<Value, CatalogError> {
        if let Some(value) = &row.loaded {
            return Ok((**value).clone());
        }
        let value = self.link().read(async |session| rows::value(session, key, row).await)?;
        // Never the value of another version: its bytes would be sent with the head of this one.
        value.ok_or(CatalogError::Changed)
    }

    fn scan(&self) -> Box<dyn Scan + '_> {
        Box::new(Pages { catalog: self, from: Some(Vec::new()), page: VecDeque::new(), limit: FIRST_PAGE })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn clock_ms(&self) -> Result<Option<u64>, CatalogError> {
        let ms: i64 = self
            .link()
            .read(async |session| session.client.query_one(schema::CLOCK, &[]).await?.try_get(0))?;
        Ok(u64::try_from(ms).ok())
    }
}

/// Number of rows of the first page of a scan. Each page has four times as many, up to [`LAST_PAGE`].
const FIRST_PAGE: i64 = 16;
/// Maximum number of rows of a page.
const LAST_PAGE: i64 = 4096;

/// A scan that reads one page after the other. Rows that change meanwhile are seen before or after the change.
struct Pages<'a> {
    catalog: &'a PostgresCatalog,
    /// Key from which the next page is read; `None` at the end.
    from: Option<Vec<u8>>,
    page: VecDeque<(Vec<u8>, Row)>,
    limit: i64,
}

impl Scan for Pages<'_> {
    fn seek(&mut self, from: Bound<&[u8]>) -> Result<(), CatalogError> {
        self.from = Some(match from {
            Bound::Included(key) => key.to_vec(),
            // The next possible key in the order of byte strings: `PAGE` reads from a key on.
            Bound::Excluded(key) => [key, &[0]].concat(),
            Bound::Unbounded => Vec::new(),
        });
        self.page.clear();
        self.limit = FIRST_PAGE;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        if self.page.is_empty()
            && let Some(from) = self.from.take()
        {
            let limit = self.limit;
            let page = self.catalog.link().read(async |session| rows::page(session, &from, limit).await)?;
            // A page with fewer rows is the last one. A further request would find nothing.
            if page.len() as i64 == limit {
                self.from = page.last().map(|(key, _)| [key.as_slice(), &[0]].concat());
            }
            self.page = page.into();
            // A short listing reads few rows, and a long scan needs few requests.
            self.limit = (limit * 4).min(LAST_PAGE);
        }
        Ok(self.page.pop_front())
    }
}
