//! The catalog of a database that is moved: all rows of one moment, and the keys that transactions have changed since
//! then, which a trigger records.

use std::collections::VecDeque;

use tokio_postgres::Client;
use tokio_postgres::error::{Error, SqlState};

use super::rows::{RowSource, stays_behind};
use super::{Keys, Marked, Source};
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::postgres::connection::failed;
use plimsoll_catalog::postgres::trigger::{CLEAN, DISARM, HAS_TRIGGER, IS_MOVED, RECORD, TAKE, try_lock};
use plimsoll_catalog::postgres::{PostgresCatalog, schema};
use plimsoll_catalog::{CatalogError, Value};

/// Reads rows with their values behind a key.
const ROWS: &str =
    "SELECT key, head, properties, body FROM plimsoll_catalog WHERE key > $1 ORDER BY key LIMIT $2";
/// Bytes that a page of rows should have.
const PAGE_BYTES: usize = 4 << 20;
/// Maximum number of rows of a page.
const PAGE_ROWS: i64 = 4096;
/// Reads at one moment, without a limit of time.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
/// Settings of the connection that moves a catalog: it must not hold locks for long, and not if its process hangs.
const SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = '2s'; \
     SET idle_in_transaction_session_timeout = '60s'";

/// All rows of one moment.
pub struct Rows {
    client: Client,
    /// Time of the moment in Unix milliseconds, by the clock of this machine.
    pub at_ms: u64,
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
        // The first statement decides on the moment.
        let at_ms = shared_now_ms();
        block_on(client.query_one("SELECT 1", &[])).map_err(|error| failed(&error))?;
        Ok(Rows { client, at_ms, after: Vec::new(), page: VecDeque::new(), limit: 16, is_end: false })
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
                Some((key, _)) if stays_behind(&key) => {}
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
        let set = format!("{}; {SETTINGS}", schema::SETTINGS);
        block_on(client.batch_execute(&set)).map_err(|error| failed(&error))?;
        let is_alone = block_on(client.query_one(&try_lock(), &[])).and_then(|row| row.try_get(0));
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
        self.clean()?;
        // Under the lock of the catalog, so that no transaction is between its rows.
        self.execute(&format!("{}; {RECORD}; COMMIT", schema::BEGIN)).inspect_err(|_| {
            let _ = self.execute("ROLLBACK");
        })?;
        Ok(Box::new(Rows::begin(self.catalog)?))
    }

    fn changed(&mut self) -> Result<Keys, CatalogError> {
        let rows = block_on(self.client.query(TAKE, &[])).map_err(|error| failed(&error))?;
        let keys = rows.iter().map(|row| row.try_get::<_, Vec<u8>>(0));
        keys.collect::<Result<Keys, Error>>().map_err(|error| failed(&error))
    }

    fn close(&mut self) -> Result<Option<Keys>, CatalogError> {
        match block_on(self.client.batch_execute(schema::BEGIN)) {
            Ok(()) => {
                self.is_closed = true;
                self.changed().map(Some)
            }
            Err(error) => {
                self.execute("ROLLBACK")?;
                let is_busy = error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE);
                if is_busy { Ok(None) } else { Err(failed(&error)) }
            }
        }
    }

    fn mark_moved(&mut self, to: &str) -> Result<Marked, CatalogError> {
        let text = format!("this catalog was moved to {to}");
        let marked =
            block_on(self.client.batch_execute(&format!("{CLEAN}; {}", schema::rename_moved(&text))));
        let Err(error) = marked else {
            (self.is_closed, self.is_moved) = (false, true);
            return Ok(Marked::Moved);
        };
        self.is_closed = false;
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            self.execute("ROLLBACK")?;
            return Ok(Marked::Busy);
        }
        // The answer may be lost.
        let is_moved = if error.code().is_some() {
            Some(false)
        } else {
            self.catalog.link().settled(&try_lock(), IS_MOVED)
        };
        self.is_moved = is_moved != Some(false);
        match is_moved {
            Some(true) => Ok(Marked::Moved),
            Some(false) => Err(failed(&error)),
            None => Ok(Marked::Unknown),
        }
    }

    fn unmark(&mut self) -> Result<(), CatalogError> {
        let renamed =
            self.catalog.link().once(async |client| client.batch_execute(&schema::rename_back()).await);
        if renamed.is_err() && self.look(IS_MOVED)? {
            return renamed;
        }
        self.is_moved = false;
        Ok(())
    }

    fn way_back(&self) -> &'static str {
        "rename the table plimsoll_catalog_moved in the old database to plimsoll_catalog"
    }

    fn catalog(&self) -> &AnyCatalog {
        self.any
    }
}

impl DatabaseSource<'_> {
    /// Removes what a move has left. Only if there is a trigger, readers wait.
    fn clean(&self) -> Result<(), CatalogError> {
        if self.look(HAS_TRIGGER)? { self.execute(CLEAN) } else { Ok(()) }
    }

    /// Asks the database over another connection.
    fn look(&self, question: &str) -> Result<bool, CatalogError> {
        self.catalog.link().once(async |client| client.query_one(question, &[]).await?.try_get(0))
    }
}

impl Drop for DatabaseSource<'_> {
    fn drop(&mut self) {
        if self.is_closed {
            let _ = self.execute("ROLLBACK");
        }
        if self.is_moved || self.clean().is_ok() {
            return;
        }
        // Others use the table. The trigger stays until a gateway starts, and does nothing.
        let _ = self.catalog.link().once(async |client| client.batch_execute(DISARM).await);
    }
}
