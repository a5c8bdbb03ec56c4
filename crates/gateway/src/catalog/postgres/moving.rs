//! The catalog of a database that is moved: all rows of one moment, and the keys that transactions have changed since
//! then, which a trigger records.

use std::collections::VecDeque;

use tokio_postgres::Client;
use tokio_postgres::error::Error;

use super::connection::failed;
use super::{PostgresCatalog, schema};
use crate::blocking::block_on;
use crate::catalog::any::AnyCatalog;
use crate::catalog::{CatalogError, Value};
use crate::migrate::rows::{RowSource, is_of_engine};
use crate::migrate::{Keys, Source};

/// Reads rows with their values behind a key.
const ROWS: &str =
    "SELECT key, head, properties, body FROM plimsoll_catalog WHERE key > $1 ORDER BY key LIMIT $2";
/// Bytes that a page of rows should have.
const PAGE_BYTES: usize = 4 << 20;
/// Maximum number of rows of a page.
const PAGE_ROWS: i64 = 4096;
/// Number of the lock that the only move of a catalog holds.
const LOCK: &str = "7093012548290168";
/// Reads at one moment, without a limit of time.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
/// Removes what a move has left.
const CLEAN: &str = "DROP TRIGGER IF EXISTS plimsoll_changes ON plimsoll_catalog; \
     DROP FUNCTION IF EXISTS plimsoll_record_change; DROP TABLE IF EXISTS plimsoll_changes";
/// Creates the trigger.
const RECORD: &str = "CREATE TABLE plimsoll_changes (key bytea NOT NULL); \
     CREATE FUNCTION plimsoll_record_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
       INSERT INTO plimsoll_changes VALUES (CASE TG_OP WHEN 'DELETE' THEN OLD.key ELSE NEW.key END); \
       RETURN NULL; END $$; \
     CREATE TRIGGER plimsoll_changes AFTER INSERT OR UPDATE OR DELETE ON plimsoll_catalog \
       FOR EACH ROW EXECUTE FUNCTION plimsoll_record_change()";
/// Takes the keys that were recorded.
const TAKE: &str = "DELETE FROM plimsoll_changes RETURNING key";

/// All rows of one moment.
pub struct Rows {
    client: Client,
    after: Vec<u8>,
    page: VecDeque<(Vec<u8>, Value)>,
    limit: i64,
    is_end: bool,
}

impl Rows {
    /// Begins to read the rows of this moment.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn begin(catalog: &PostgresCatalog) -> Result<Rows, CatalogError> {
        let client = catalog.link().plain()?;
        block_on(client.batch_execute(SNAPSHOT)).map_err(|error| failed(&error))?;
        // Only the first statement decides on the moment.
        block_on(client.query_one("SELECT 1", &[])).map_err(|error| failed(&error))?;
        Ok(Rows { client, after: Vec::new(), page: VecDeque::new(), limit: 16, is_end: false })
    }

    /// Reads the next page. Pages have more or fewer rows, so that they have about the same size.
    fn read(&mut self) -> Result<(), CatalogError> {
        let read = block_on(self.client.query(ROWS, &[&self.after, &self.limit]));
        let read = read.map_err(|error| failed(&error))?;
        self.is_end = (read.len() as i64) < self.limit;
        let part = |row: &tokio_postgres::Row, column| row.try_get::<_, Vec<u8>>(column);
        let mut bytes = 0;
        for row in &read {
            let parts: Result<_, Error> =
                (|| Ok((part(row, 0)?, part(row, 1)?, part(row, 2)?, part(row, 3)?)))();
            let (key, head, properties, body) = parts.map_err(|error| failed(&error))?;
            bytes += key.len() + head.len() + properties.len() + body.len();
            self.after.clone_from(&key);
            let value = Value { head: head.into(), properties: properties.into(), body: body.into() };
            self.page.push_back((key, value));
        }
        let usual = bytes / read.len().max(1);
        let wanted = (PAGE_BYTES / usual.max(1)) as i64;
        self.limit = wanted.clamp(1, PAGE_ROWS).min(4 * self.limit);
        Ok(())
    }
}

impl RowSource for Rows {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Value)>, CatalogError> {
        loop {
            match self.page.pop_front() {
                Some((key, _)) if is_of_engine(&key) => {}
                None if !self.is_end => self.read()?,
                next => return Ok(next),
            }
        }
    }
}

/// A catalog in a database, which gateways may use.
pub struct DatabaseSource<'a> {
    any: &'a AnyCatalog,
    catalog: &'a PostgresCatalog,
    client: Client,
    /// True while the lock of the catalog is held.
    is_closed: bool,
    /// True if the catalog was moved.
    is_moved: bool,
}

impl<'a> DatabaseSource<'a> {
    /// Creates the source; `None` if the catalog is on another engine.
    ///
    /// # Errors
    /// If the database does not answer, or another process moves the catalog.
    pub fn new(any: &'a AnyCatalog) -> Result<Option<DatabaseSource<'a>>, CatalogError> {
        let AnyCatalog::Postgres(catalog) = any else { return Ok(None) };
        let client = catalog.link().plain()?;
        let lock = format!("SELECT pg_try_advisory_lock({LOCK})");
        let is_alone = block_on(client.query_one(&lock, &[])).and_then(|row| row.try_get(0));
        if !is_alone.map_err(|error| failed(&error))? {
            return Err(CatalogError::Io("another process moves this catalog already".into()));
        }
        Ok(Some(DatabaseSource { any, catalog, client, is_closed: false, is_moved: false }))
    }

    fn execute(&self, statements: &str) -> Result<(), CatalogError> {
        block_on(self.client.batch_execute(statements)).map_err(|error| failed(&error))
    }
}

impl Source for DatabaseSource<'_> {
    fn begin(&mut self) -> Result<Box<dyn RowSource + '_>, CatalogError> {
        // Under the lock of the catalog, so that no transaction is between its rows.
        self.execute(&format!("{}; {CLEAN}; {RECORD}; COMMIT", schema::BEGIN))?;
        Ok(Box::new(Rows::begin(self.catalog)?))
    }

    fn changed(&mut self) -> Result<Keys, CatalogError> {
        let rows = block_on(self.client.query(TAKE, &[])).map_err(|error| failed(&error))?;
        let keys = rows.iter().map(|row| row.try_get::<_, Vec<u8>>(0));
        keys.collect::<Result<Keys, Error>>().map_err(|error| failed(&error))
    }

    fn close(&mut self) -> Result<Keys, CatalogError> {
        self.execute(schema::BEGIN)?;
        self.is_closed = true;
        self.changed()
    }

    fn mark_moved(&mut self, to: &str) -> Result<(), CatalogError> {
        let text = format!("this catalog was moved to {to}").replace('\'', "''");
        self.execute(&format!(
            "{CLEAN}; ALTER TABLE plimsoll_catalog RENAME TO plimsoll_catalog_moved; \
             COMMENT ON TABLE plimsoll_catalog_moved IS '{text}'; COMMIT"
        ))?;
        (self.is_closed, self.is_moved) = (false, true);
        Ok(())
    }

    fn unmark(&mut self) -> Result<(), CatalogError> {
        let comment = super::format::comment();
        self.execute(&format!(
            "BEGIN; ALTER TABLE plimsoll_catalog_moved RENAME TO plimsoll_catalog; \
             COMMENT ON TABLE plimsoll_catalog IS '{comment}'; COMMIT"
        ))?;
        self.is_moved = false;
        Ok(())
    }

    fn catalog(&self) -> &AnyCatalog {
        self.any
    }
}

impl Drop for DatabaseSource<'_> {
    fn drop(&mut self) {
        if self.is_closed {
            let _ = self.execute("ROLLBACK");
        }
        if !self.is_moved {
            let _ = self.execute(&format!("{}; {CLEAN}; COMMIT", schema::BEGIN));
        }
    }
}
