//! A copy of a catalog in a database: a table that no gateway knows before it is complete.

use std::cell::Cell;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::Error;
use tokio_postgres::{Client, Statement};

use super::connection::{Database, Link, failed};
use super::schema;
use crate::blocking::block_on;
use crate::{CatalogError, Value};

/// Number of the lock that the only writer of a copy holds.
const LOCK: &str = "SELECT pg_try_advisory_lock(7093012548290169)";
/// Creates the table of the copy. What an earlier attempt has left is removed.
const CREATE: &str = "DROP TABLE IF EXISTS plimsoll_catalog_unfinished; \
     CREATE SEQUENCE IF NOT EXISTS plimsoll_catalog_version; \
     CREATE TABLE plimsoll_catalog_unfinished ";
/// Writes rows of the copy.
const PUT: &str = "INSERT INTO plimsoll_catalog_unfinished (key, head, properties, body) \
     SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) \
     ON CONFLICT (key) DO UPDATE SET head = EXCLUDED.head, properties = EXCLUDED.properties, \
     body = EXCLUDED.body, version = EXCLUDED.version";
/// Removes rows of the copy.
const DELETE: &str = "DELETE FROM plimsoll_catalog_unfinished WHERE key = ANY($1::bytea[])";
/// Returns true if the copy has become the catalog.
const IS_COMPLETE: &str = "SELECT to_regclass('plimsoll_catalog') IS NOT NULL \
     AND to_regclass('plimsoll_catalog_unfinished') IS NULL";

/// Reason why a copy is not complete.
#[derive(Debug)]
pub enum Incomplete {
    /// It certainly is not.
    Certainly(CatalogError),
    /// The database does not say.
    Perhaps(CatalogError),
}

/// A copy that is being written.
pub struct Filling {
    client: Client,
    put: Statement,
    delete: Statement,
    link: Link,
    /// True if the table stays when this is dropped, so that the old catalog does not wait: it is the catalog, or the
    /// next attempt removes it.
    is_left: Cell<bool>,
    /// Runtime of the connections; `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Filling {
    /// Begins a copy. Returns a message for the user instead if the database has a catalog, or one that was moved, or
    /// if another process writes a copy.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn begin(database: &Database) -> Result<Result<Filling, String>, CatalogError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let link = Link::new(database.clone(), runtime.handle().clone());
        let client = link.plain()?;
        let begun = block_on(async {
            client.batch_execute(schema::SETTINGS).await?;
            client.batch_execute("SET statement_timeout = 0").await?;
            // First: `CREATE` drops the table of an earlier attempt, which must not be one that is being written.
            if !client.query_one(LOCK, &[]).await?.try_get::<_, bool>(0)? {
                return Ok(Err("another process writes a copy into the database".to_string()));
            }
            if client.query_one(schema::EXISTS, &[]).await?.try_get(0)? {
                return Ok(Err("there is a catalog in the database already".into()));
            }
            if let Some(text) = client.query_one(schema::MOVED, &[]).await?.try_get::<_, Option<String>>(0)? {
                return Ok(Err(format!(
                    "the database has the table plimsoll_catalog_moved ({text}); drop it if it is not needed any more"
                )));
            }
            client.batch_execute(&format!("{CREATE}{}", schema::COLUMNS)).await?;
            client.batch_execute(&schema::store_externally("plimsoll_catalog_unfinished")).await?;
            Ok::<_, Error>(Ok((client.prepare(PUT).await?, client.prepare(DELETE).await?)))
        });
        let (put, delete) = match begun.map_err(|error| failed(&error))? {
            Ok(statements) => statements,
            Err(problem) => return Ok(Err(problem)),
        };
        Ok(Ok(Filling { client, put, delete, link, is_left: Cell::new(false), runtime: Some(runtime) }))
    }

    /// Writes rows; `None` removes one.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn write(&self, rows: &[(Vec<u8>, Option<Value>)]) -> Result<(), CatalogError> {
        let new: Vec<(&[u8], &Value)> =
            rows.iter().filter_map(|(key, value)| Some((&key[..], value.as_ref()?))).collect();
        let removed: Vec<&[u8]> =
            rows.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| &key[..]).collect();
        let part = |part: fn(&Value) -> &[u8]| new.iter().map(|(_, value)| part(value)).collect::<Vec<_>>();
        let keys: Vec<&[u8]> = new.iter().map(|(key, _)| *key).collect();
        let (heads, properties) = (part(|value| &value.head), part(|value| &value.properties));
        let bodies = part(|value| &value.body);
        let written = block_on(async {
            // After an error, this transaction stays open. The copy is given up then, and its end rolls back.
            self.client.batch_execute("BEGIN").await?;
            self.client.execute(&self.put, &[&keys, &heads, &properties, &bodies]).await?;
            if !removed.is_empty() {
                self.client.execute(&self.delete, &[&removed]).await?;
            }
            self.client.batch_execute("COMMIT").await
        });
        written.map_err(|error| failed(&error))
    }

    /// Makes the copy the catalog of the database.
    ///
    /// # Errors
    /// If the copy certainly or perhaps has not become the catalog.
    pub fn complete(&self) -> Result<(), Incomplete> {
        self.is_left.set(true);
        let Err(error) = block_on(self.client.batch_execute(&schema::complete())) else { return Ok(()) };
        // With a code, the database itself has refused, and has rolled the transaction back.
        let is_answer = error.code().is_some();
        let error = failed(&error);
        if is_answer {
            return Err(Incomplete::Certainly(error));
        }
        // The answer may be lost, or the database is still at it.
        match self.link.settled(LOCK, IS_COMPLETE) {
            Some(true) => Ok(()),
            Some(false) => Err(Incomplete::Certainly(error)),
            None => Err(Incomplete::Perhaps(error)),
        }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if !self.is_left.get() {
            // First the end of a transaction that a failed statement has left open: the removal would fail in it.
            let remove =
                "ROLLBACK; SET lock_timeout = '2s'; DROP TABLE IF EXISTS plimsoll_catalog_unfinished";
            // If this fails, the next attempt removes the table (`CREATE`).
            let _ = block_on(self.client.batch_execute(remove));
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
