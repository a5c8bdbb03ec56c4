//! Conversion between rows of the table and rows of the catalog.

use std::collections::HashMap;

use bytes::Bytes;
use tokio_postgres::error::Error;
use tokio_postgres::{Row as TableRow, Statement};

use super::connection::Session;
use super::schema;
use crate::{LogPosition, Row, Value};

/// Returns the place of a row: its version and the lengths of its parts.
fn place(version: i64, properties: i32, body: i32) -> LogPosition {
    let version = version as u64;
    LogPosition {
        segment: (version >> 32) as u32,
        offset: version as u32,
        properties: properties as u32,
        body: body as u32,
        ..LogPosition::default()
    }
}

/// Returns the version in a place.
pub fn version(place: &LogPosition) -> i64 {
    (u64::from(place.segment) << 32 | u64::from(place.offset)) as i64
}

fn bytes(row: &TableRow, column: usize) -> Result<Bytes, Error> {
    row.try_get::<_, &[u8]>(column).map(Bytes::copy_from_slice)
}

/// Converts a row that `GET` or `PAGE` has returned.
pub fn row(row: &TableRow) -> Result<(Vec<u8>, Row), Error> {
    let key = row.try_get::<_, &[u8]>(0)?.to_vec();
    let head = bytes(row, 1)?;
    let place = place(row.try_get(5)?, row.try_get(3)?, row.try_get(4)?);
    let body: Option<&[u8]> = row.try_get(6)?;
    // `GET` leaves out a large body. Such a row is not loaded at all, and `VALUE` reads all of its parts together.
    let loaded = match body {
        Some(body) => {
            let (properties, body) = (bytes(row, 2)?, Bytes::copy_from_slice(body));
            Some(Box::new(Value { head: head.clone(), properties, body }))
        }
        None => None,
    };
    Ok((key, Row { head, place, loaded }))
}

/// Reads the row of a key.
pub async fn get(session: &Session, key: &[u8]) -> Result<Option<Row>, Error> {
    Ok(get_many(session, &[key]).await?.into_values().next())
}

/// Reads the rows of several keys, with the values that are small.
pub async fn get_many(session: &Session, keys: &[&[u8]]) -> Result<HashMap<Vec<u8>, Row>, Error> {
    let found = session.client.query(&session.get, &[&keys, &schema::SMALL]).await?;
    found.iter().map(row).collect()
}

/// Rows by key; `None` for keys without rows.
pub type Known = HashMap<Vec<u8>, Option<Row>>;

/// Reads the rows of several keys in one statement, with the values that are small; none without keys.
pub async fn known(session: &Session, keys: &[Vec<u8>]) -> Result<Known, Error> {
    let wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut found = if wanted.is_empty() { HashMap::new() } else { get_many(session, &wanted).await? };
    Ok(keys.iter().map(|key| (key.clone(), found.remove(key))).collect())
}

/// Rows to write, as the columns of a statement.
#[derive(Default)]
pub struct Columns<'a> {
    keys: Vec<&'a [u8]>,
    heads: Vec<&'a [u8]>,
    properties: Vec<&'a [u8]>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    /// Adds a row.
    pub fn add(&mut self, key: &'a [u8], value: &'a Value) {
        self.keys.push(key);
        self.heads.push(&value.head);
        self.properties.push(&value.properties);
        self.bodies.push(&value.body);
    }

    /// Writes the rows, if there are any.
    pub async fn write(&self, session: &Session, statement: &Statement) -> Result<(), Error> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let Columns { keys, heads, properties, bodies } = self;
        session.client.execute(statement, &[keys, heads, properties, bodies]).await.map(|_| ())
    }
}

/// Removes the rows of keys, if there are any.
pub async fn remove(session: &Session, keys: &[&[u8]]) -> Result<(), Error> {
    if keys.is_empty() {
        return Ok(());
    }
    session.client.execute(&session.delete, &[&keys]).await.map(|_| ())
}

/// Reads the rows of several keys, without their values.
pub async fn get_all(session: &Session, keys: &[Vec<u8>]) -> Result<HashMap<Vec<u8>, Row>, Error> {
    let found = session.client.query(schema::GET_ALL, &[&keys]).await?;
    found.iter().map(row).collect()
}

/// Reads the value of a row; `None` if the row has changed.
pub async fn value(session: &Session, key: &[u8], row: &Row) -> Result<Option<Value>, Error> {
    let found = session.client.query_opt(&session.value, &[&key, &version(&row.place)]).await?;
    let value = |row: TableRow| {
        Ok(Value { head: bytes(&row, 0)?, properties: bytes(&row, 1)?, body: bytes(&row, 2)? })
    };
    found.map(value).transpose()
}

/// Reads at most `limit` rows from a key on.
pub async fn page(session: &Session, from: &[u8], limit: i64) -> Result<Vec<(Vec<u8>, Row)>, Error> {
    let found = session.client.query(&session.page, &[&from, &limit]).await?;
    found.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_the_version() {
        for number in [0, 1, 1 << 33 | 5, i64::MAX] {
            let place = place(number, 7, 9);
            assert_eq!((version(&place), place.properties, place.body), (number, 7, 9));
        }
    }
}
