//! Groups of transactions: each group is one transaction of the database, under the lock of the catalog if its reads
//! are not known before.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join3};
use plimsoll_base::clock::{SECOND, now_ns};
use tokio_postgres::error::Error;

use super::connection::{Link, Session, failed};
use super::rows::{self, Columns, Known};
use super::{optimistic, schema};
use crate::committer::GroupWriter;
use crate::overlay::{Base, Changes, Overlay};
use crate::{CatalogError, KnownReads, Row, Value, Work};

/// Writer of groups over its own connection.
pub struct Groups {
    link: Link,
    /// Reads of the next group.
    reads: KnownReads,
    /// True if changes are dropped instead of written.
    read_only: bool,
    /// Time since which the database does not answer, in nanoseconds.
    down_ns: Option<u64>,
}

impl Groups {
    /// Creates a writer. If `read_only` is true, it drops all changes.
    pub fn new(link: Link, read_only: bool) -> Groups {
        Groups { link, reads: KnownReads::default(), read_only, down_ns: None }
    }

    /// Executes transactions under the lock of the catalog.
    fn commit_alone(
        &mut self,
        works: &mut [Work],
        keys: &[Vec<u8>],
    ) -> Result<Vec<Result<(), CatalogError>>, CatalogError> {
        let (session, known) = self.begin(keys)?;
        let before = Before { link: &self.link, session: Arc::clone(&session), known, error: None };
        let mut group = Overlay::new(before);
        // Each for itself: a transaction that fails drops its own changes, and the others of the group are committed.
        let results: Vec<_> = works.iter_mut().map(|work| group.execute(work)).collect();
        let (changes, before) = group.finish();
        if before.error.is_some() || self.read_only || changes.is_empty() {
            // Also without changes: the database holds the lock until its transaction ends, and others wait for it.
            let ended = self.link.answer(&session, session.client.batch_execute("ROLLBACK"))?;
            let error = before.error.or(ended.err().map(|error| failed(&error)));
            return error.map_or(Ok(results), Err);
        }
        match self.link.answer(&session, write(&session, &changes))? {
            Ok(()) => Ok(results),
            Err(error) => {
                // If the database has executed COMMIT, this changes nothing. Otherwise it frees the lock.
                let _ = self.link.answer(&session, session.client.batch_execute("ROLLBACK"));
                Err(failed(&error))
            }
        }
    }

    /// Starts a transaction of the database. Waits for a database that restarts; while it is down for longer,
    /// transactions fail soon.
    fn begin(&mut self, keys: &[Vec<u8>]) -> Result<(Arc<Session>, Known), CatalogError> {
        const PATIENCE_NS: u64 = 2 * SECOND;
        const PAUSE: Duration = Duration::from_millis(100);
        loop {
            let began_ns = now_ns();
            let begun = self.link.session().and_then(|session| {
                let known = begin(&self.link, &session, keys)?;
                Ok((session, known))
            });
            match begun {
                Ok(begun) => {
                    self.down_ns = None;
                    return Ok(begun);
                }
                Err(error) => {
                    // From the begin of the first failure, also of an earlier group: others must not wait as long
                    // again.
                    let down_ns = *self.down_ns.get_or_insert(began_ns);
                    if now_ns() - down_ns > PATIENCE_NS {
                        return Err(error);
                    }
                    std::thread::park_timeout(PAUSE);
                }
            }
        }
    }
}

/// Starts a transaction of the database, which then holds the lock, and reads some rows. The statements are sent
/// together.
fn begin(link: &Link, session: &Arc<Session>, keys: &[Vec<u8>]) -> Result<Known, CatalogError> {
    let begun = async {
        // Polled in this order, the statements are sent in this order.
        let begin = session.client.batch_execute(schema::BEGIN);
        let (begun, known) = join(begin, rows::known(session, keys)).await;
        begun.and(known)
    };
    link.answer(session, begun)?.map_err(|error| {
        // The lock may be held, although the reads have failed.
        let _ = link.answer(session, session.client.batch_execute("ROLLBACK"));
        failed(&error)
    })
}

/// The state before a group: the rows of the database under the lock.
struct Before<'a> {
    link: &'a Link,
    session: Arc<Session>,
    /// Rows that were read before. The lock protects them.
    known: Known,
    /// First error of a statement, after which the database executes no others.
    error: Option<CatalogError>,
}

impl Before<'_> {
    fn execute<T>(
        &mut self,
        statements: impl AsyncFnOnce(&Session) -> Result<T, Error>,
    ) -> Result<T, CatalogError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let answered = self.link.answer(&self.session, statements(&self.session));
        let result = answered.and_then(|answered| answered.map_err(|error| failed(&error)));
        result.inspect_err(|error| self.error = Some(error.clone()))
    }
}

impl Base for Before<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        if let Some(known) = self.known.get(key) {
            return Ok(known.clone());
        }
        let row = self.execute(async |session| rows::get(session, key).await)?;
        // The lock keeps the row as it is until the end of the group.
        self.known.insert(key.to_vec(), row.clone());
        Ok(row)
    }

    fn value(&mut self, key: &[u8], row: &Row) -> Result<Value, CatalogError> {
        if let Some(value) = &row.loaded {
            return Ok((**value).clone());
        }
        let value = self.execute(async |session| rows::value(session, key, row).await)?;
        value.ok_or(CatalogError::Changed)
    }

    fn first(&mut self, prefix: &[u8], from: Bound<&[u8]>) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        let from = match from {
            Bound::Included(from) => from.to_vec(),
            // The next possible key in the order of byte strings: `PAGE` reads from a key on.
            Bound::Excluded(from) => [from, &[0]].concat(),
            Bound::Unbounded => Vec::new(),
        };
        let page = self.execute(async |session| rows::page(session, &from, 1).await)?;
        Ok(page.into_iter().next().filter(|(key, _)| key.starts_with(prefix)))
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Writes the changes of a group and commits. The statements are sent together; if one fails, the database rolls back.
async fn write(session: &Session, changes: &Changes) -> Result<(), Error> {
    let (mut written, mut removed) = (Columns::default(), Vec::new());
    for (key, change) in changes {
        match change {
            None => removed.push(&key[..]),
            Some(value) => written.add(key, value),
        }
    }
    let put = written.write(session, &session.put);
    // Polled in this order, the statements are sent in this order.
    let commit = session.client.batch_execute("COMMIT");
    let (put, deleted, committed) = join3(put, rows::remove(session, &removed), commit).await;
    // The statements before COMMIT first: the COMMIT of a failed transaction is a ROLLBACK without an error.
    put?;
    deleted?;
    committed
}

impl GroupWriter for Groups {
    fn prepare(&mut self, reads: KnownReads) -> Result<(), CatalogError> {
        self.reads = reads;
        // Each key once: `rows::known` would take the second one for the key of a missing row.
        self.reads.keys.sort_unstable();
        self.reads.keys.dedup();
        Ok(())
    }

    fn commit(&mut self, mut works: Vec<Work>, _: bool) -> Vec<Result<(), CatalogError>> {
        let KnownReads { keys, is_complete } = std::mem::take(&mut self.reads);
        if is_complete
            // An optimistic group writes what it changes. Under the lock, the changes are dropped.
            && !self.read_only
            && let Ok(session) = self.link.session()
        {
            let committed = self.link.answer(&session, optimistic::commit(&session, &mut works, &keys));
            match committed.and_then(|committed| committed) {
                Ok(Some(results)) => {
                    self.down_ns = None;
                    return results;
                }
                Ok(None) => {}
                // Not again under the lock: the group may be durable, and would take effect twice.
                Err(error) => return vec![Err(error); works.len()],
            }
        }
        let done = self.commit_alone(&mut works, &keys);
        done.unwrap_or_else(|error| vec![Err(error); works.len()])
    }

    fn sync(&mut self) -> Result<(), CatalogError> {
        // Each COMMIT is durable: `SETTINGS` in postgres/schema.rs.
        Ok(())
    }
}
