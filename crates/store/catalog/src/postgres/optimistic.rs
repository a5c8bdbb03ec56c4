//! Groups of transactions whose reads are known before: executed on rows that were read without a lock, and written if
//! these rows are still the same. So the database waits for nobody, and several groups are on their way.
//!
//! A group has two requests. The first one reads the rows, in one statement. The second one locks them, compares their
//! versions, writes, and commits. If a row has changed, or a transaction needs something else, nothing is written, and
//! the group must be executed under the lock of the catalog.

use std::cell::Cell;
use std::ops::Bound;
use std::pin::Pin;

use futures_util::future::join_all;
use tokio_postgres::error::{Error, SqlState};

use super::connection::{Session, failed};
use super::rows::{self, Columns, Known};
use super::schema;
use crate::keys;
use crate::overlay::{Base, Changes, Overlay};
use crate::{CatalogError, Row, Value, Work};

/// The state before a group, as far as it was read.
struct Snapshot<'a> {
    known: &'a Known,
    /// True if a transaction has needed something else.
    has_missed: &'a Cell<bool>,
}

impl Snapshot<'_> {
    fn miss<T>(&self) -> Result<T, CatalogError> {
        self.has_missed.set(true);
        Err(CatalogError::Changed)
    }
}

impl Base for Snapshot<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        self.known.get(key).map_or_else(|| self.miss(), |row| Ok(row.clone()))
    }

    fn value(&mut self, _: &[u8], row: &Row) -> Result<Value, CatalogError> {
        row.loaded.as_ref().map_or_else(|| self.miss(), |value| Ok((**value).clone()))
    }

    fn first(&mut self, _: &[u8], _: Bound<&[u8]>) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
        self.miss()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Executes transactions that read `wanted_keys`. Returns the result of each; `None` if they must be executed under the
/// lock of the catalog.
///
/// # Errors
/// If the database does not answer. The group may be durable nevertheless.
pub async fn commit(
    session: &Session,
    works: &mut [Work],
    wanted_keys: &[Vec<u8>],
) -> Result<Option<Vec<Result<(), CatalogError>>>, CatalogError> {
    // Nothing has happened yet if this fails.
    let Ok(known) = rows::known(session, wanted_keys).await else { return Ok(None) };
    let has_missed = Cell::new(false);
    let mut group = Overlay::new(Snapshot { known: &known, has_missed: &has_missed });
    let results: Vec<_> = works.iter_mut().map(|work| group.execute(work)).collect();
    let (changes, _) = group.finish();
    // Other groups read these rows without locks of the rows, so they change only while nobody shares the lock.
    let writes_stable = changes.keys().any(|key| is_stable(key));
    // The whole group: later transactions may have seen changes of the one that has missed something.
    if has_missed.get() || writes_stable {
        return Ok(None);
    }
    // What a group without changes has read was the state of one moment.
    if changes.is_empty() {
        return Ok(Some(results));
    }
    match write(session, &known, &changes).await {
        Ok(()) => Ok(Some(results)),
        Err(error) => {
            // The next group uses the same connection, and must not continue a transaction that has failed.
            let _ = session.client.batch_execute("ROLLBACK").await;
            if is_conflict(&error) { Ok(None) } else { Err(failed(&error)) }
        }
    }
}

/// Returns true for a row that is only written under the lock of the catalog. Many transactions read it, and need no
/// lock of the row.
fn is_stable(key: &[u8]) -> bool {
    key.starts_with(keys::BUCKETS)
}

/// Returns true if other transactions have changed rows, or wait for each other.
fn is_conflict(error: &Error) -> bool {
    // Only the checks of versions divide, and only new rows can violate the primary key. After a deadlock, the database
    // has rolled this group back, and the lock of the catalog excludes another one.
    let conflicts = [SqlState::DIVISION_BY_ZERO, SqlState::UNIQUE_VIOLATION, SqlState::T_R_DEADLOCK_DETECTED];
    error.code().is_some_and(|code| conflicts.contains(code))
}

/// Keys and versions of rows to check.
#[derive(Default)]
struct Versions<'a> {
    keys: Vec<&'a [u8]>,
    versions: Vec<i64>,
}

impl<'a> Versions<'a> {
    fn add(&mut self, key: &'a [u8], row: &Row) {
        self.keys.push(key);
        self.versions.push(rows::version(&row.place));
    }
}

type Statement<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

/// Locks and checks the rows that were read, writes the changes, and commits. The statements are sent together; if one
/// fails, the database executes none behind it.
async fn write(session: &Session, known: &Known, changes: &Changes) -> Result<(), Error> {
    let (mut written, mut read, mut absent) = (Versions::default(), Versions::default(), Vec::new());
    let mut stable = Versions::default();
    for (key, row) in known {
        match row {
            Some(row) if is_stable(key) => stable.add(key, row),
            Some(row) if changes.contains_key(key) => written.add(key, row),
            Some(row) => read.add(key, row),
            // The insertion of a row checks that it does not exist.
            None if changes.get(key).is_some_and(Option::is_some) => {}
            None => absent.push(&key[..]),
        }
    }
    let (mut new, mut other, mut removed) = (Columns::default(), Columns::default(), Vec::new());
    for (key, change) in changes {
        match change {
            None => removed.push(&key[..]),
            Some(value) if known.get(key).is_some_and(Option::is_none) => new.add(key, value),
            // Also a key that no transaction has read: its row is replaced whatever it is.
            Some(value) => other.add(key, value),
        }
    }
    let client = &session.client;
    // A row that does not exist cannot be locked.
    let begin = if absent.is_empty() { schema::BEGIN_SHARED } else { schema::BEGIN };
    let mut statements: Vec<Statement<'_>> = vec![Box::pin(client.batch_execute(begin))];
    let checks =
        [(&stable, &session.check_stable), (&written, &session.check_written), (&read, &session.check_read)];
    // Before the writes: the rows that a failed group has written would stay in the table until it is vacuumed.
    for (rows, statement) in checks {
        if !rows.keys.is_empty() {
            statements.push(Box::pin(async move {
                let count = rows.keys.len() as i64;
                client.query_one(statement, &[&rows.keys, &rows.versions, &count]).await.map(|_| ())
            }));
        }
    }
    if !absent.is_empty() {
        statements
            .push(Box::pin(async { client.query_one(&session.check_absent, &[&absent]).await.map(|_| ()) }));
    }
    statements.push(Box::pin(new.write(session, &session.insert)));
    statements.push(Box::pin(other.write(session, &session.put)));
    statements.push(Box::pin(rows::remove(session, &removed)));
    statements.push(Box::pin(client.batch_execute("COMMIT")));
    // Polled in this order, the statements are sent in this order.
    // The first error is the cause: later statements only say that the transaction has failed, and COMMIT has no error.
    join_all(statements).await.into_iter().collect()
}
