//! Finds the versions of an object in a transaction, and makes room for a new one.

use std::sync::Arc;

use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::service::Versioning;

use super::discard::discard_row;
use super::row::{Head, parse_version_id};
use super::{Bucket, keys};
use crate::ambient::wall_now;
use crate::catalog::embedded::head_only;
use crate::catalog::{CatalogError, Row, Transaction, Value, intact};

/// The place of an object in a bucket.
#[derive(Clone)]
pub struct ObjectAddress {
    /// Bucket of the object.
    pub bucket: Arc<Bucket>,
    /// Key of the object.
    pub key: String,
}

impl ObjectAddress {
    /// Returns the current row and its head; `None` if the key has no versions.
    pub fn current(&self, t: &mut dyn Transaction) -> Result<Option<(Row, Head)>, CatalogError> {
        let row = t.get(&keys::current(self.bucket.number, &self.key))?;
        row.map(|row| head_of(&row).map(|head| (row, head))).transpose()
    }

    /// Returns the catalog key, row and head of the version `null`; `None` if there is none.
    pub fn null_version(
        &self,
        t: &mut dyn Transaction,
    ) -> Result<Option<(Vec<u8>, Row, Head)>, CatalogError> {
        let prefix = keys::noncurrent(self.bucket.number, &self.key);
        let mut from = prefix.clone();
        while let Some((key, row)) = t.first(&prefix, &from)? {
            let head = head_of(&row)?;
            if head.null {
                return Ok(Some((key, row, head)));
            }
            from = [key.as_slice(), &[0]].concat();
        }
        Ok(None)
    }

    /// Makes the current version noncurrent.
    fn retire(&self, t: &mut dyn Transaction, row: &Row, head: &Head) -> Result<(), CatalogError> {
        let value = value_of_version(t, row)?;
        t.put(keys::version(self.bucket.number, &self.key, head.generation), value);
        Ok(())
    }

    /// Returns the generation of a new current version. It is greater than the generation of the existing version and,
    /// in a versioned bucket, than the generations of all deleted versions, also after the clock was set back.
    pub fn next_generation(
        &self,
        t: &mut dyn Transaction,
        current: Option<&(Row, Head)>,
    ) -> Result<u64, CatalogError> {
        let now = wall_now().as_nanosecond() as u64;
        let next = current.map_or(now, |(_, head)| now.max(head.generation + 1));
        if !self.bucket.is_versioned() {
            return Ok(next);
        }
        Ok(next.max(deleted_generation(t)? + 1))
    }

    /// Records that a version with this generation was deleted.
    pub fn forget_generation(&self, t: &mut dyn Transaction, generation: u64) -> Result<(), CatalogError> {
        if self.bucket.is_versioned() && generation > deleted_generation(t)? {
            t.put(keys::DELETED_GENERATION.to_vec(), head_only(generation.to_be_bytes().to_vec()));
        }
        Ok(())
    }

    /// Prepares the bucket for a new current version: retires or removes the existing one. Returns true if the new
    /// version is `null`.
    pub fn make_room(
        &self,
        t: &mut dyn Transaction,
        current: Option<&(Row, Head)>,
    ) -> Result<bool, CatalogError> {
        let versioning = self.bucket.info.versioning;
        if versioning == Versioning::Suspended
            && !current.is_some_and(|(_, head)| head.null)
            && let Some((key, row, head)) = self.null_version(t)?
        {
            discard_row(t, &head, &row)?;
            t.delete(key);
        }
        match (versioning, current) {
            (_, None) => {}
            (Versioning::Off, Some((row, head))) => discard_row(t, head, row)?,
            (Versioning::Suspended, Some((row, head))) if head.null => discard_row(t, head, row)?,
            (_, Some((row, head))) => self.retire(t, row, head)?,
        }
        Ok(versioning != Versioning::Enabled)
    }
}

/// Returns the head of a row.
pub fn head_of(row: &Row) -> Result<Head, CatalogError> {
    intact(Head::decode(&row.head))
}

fn deleted_generation(t: &mut dyn Transaction) -> Result<u64, CatalogError> {
    let row = t.get(keys::DELETED_GENERATION)?;
    Ok(row.and_then(|row| row.head[..].try_into().ok()).map_or(0, u64::from_be_bytes))
}

/// Returns the value of a version that becomes another row. If the value is damaged, the new row has no properties, so
/// its reads report damage, too.
pub fn value_of_version(t: &mut dyn Transaction, row: &Row) -> Result<Value, CatalogError> {
    match t.value(row) {
        Err(CatalogError::Damaged { .. }) => Ok(head_only(row.head.clone())),
        value => value,
    }
}

type FoundRow = Result<(Vec<u8>, Row, Head), ApiError>;

/// Finds the current version of an object, or a given one, in a transaction.
///
/// # Errors
/// Returns the S3 error for a missing version or a delete marker.
pub fn find(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    version: Option<&str>,
) -> Result<FoundRow, CatalogError> {
    let number = target.bucket.number;
    let found = match version {
        None => target.current(t)?.map(|(row, head)| (keys::current(number, &target.key), row, head)),
        Some(version) => find_version(t, target, version)?,
    };
    Ok(match found {
        None => Err(if version.is_some() { no_version() } else { no_key() }),
        Some((_, _, head)) if head.marker => Err(hidden(&head, version.is_some())),
        Some(found) => Ok(found),
    })
}

/// Finds a version of an object, which may be a delete marker; `None` if there is none.
pub fn find_version(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    version: &str,
) -> Result<Option<(Vec<u8>, Row, Head)>, CatalogError> {
    let number = target.bucket.number;
    if let Some((row, head)) = target.current(t)?
        && head.version() == version
    {
        return Ok(Some((keys::current(number, &target.key), row, head)));
    }
    if version == "null" {
        return target.null_version(t);
    }
    let Some(generation) = parse_version_id(version) else { return Ok(None) };
    let key = keys::version(number, &target.key, generation);
    let Some(row) = t.get(&key)? else { return Ok(None) };
    let head = head_of(&row)?;
    Ok((!head.null).then_some((key, row, head)))
}

/// Returns the error for a key without versions.
pub fn no_key() -> ApiError {
    ApiError::new(ErrorCode::NoSuchKey)
}

/// Returns the error for a version that does not exist.
pub fn no_version() -> ApiError {
    ApiError::new(ErrorCode::NoSuchVersion)
}

/// Returns the error for a read that finds a delete marker.
pub fn hidden(head: &Head, by_version: bool) -> ApiError {
    let error = ApiError::new(if by_version { ErrorCode::MethodNotAllowed } else { ErrorCode::NoSuchKey });
    error.hidden_by(head.version(), head.modified())
}
