//! Finds the versions of an object in a transaction, and makes room for a new one.

use std::sync::Arc;

use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::versions::of_write;

use super::removal::{Leaving, Removal};
use super::row::{Body, Head, parse_version_id};
use super::{Bucket, keys};
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{CatalogError, Row, Transaction, Value, intact, unless_in_doubt};

/// The current version of an object that a write replaces.
pub struct Replaced {
    /// Row and head of the version; `None` if there is none.
    pub current: Option<(Row, Head)>,
    /// True if a lost record may have replaced or removed it.
    pub is_in_doubt: bool,
}

/// The place of an object in a bucket.
#[derive(Clone)]
pub struct ObjectAddress {
    /// Bucket of the object.
    pub bucket: Arc<Bucket>,
    /// Key of the object.
    pub key: String,
}

impl ObjectAddress {
    /// Returns the catalog key of a version that is not the current one.
    pub fn version_key(&self, generation: u64) -> Vec<u8> {
        keys::version(self.bucket.number, &self.key, generation)
    }

    /// Returns the current row and its head; `None` if the key has no versions.
    pub fn current(&self, t: &mut dyn Transaction) -> Result<Option<(Row, Head)>, CatalogError> {
        let key = keys::current(self.bucket.number, &self.key);
        let Some(row) = t.get(&key)? else {
            // Without a row, too: a lost record may have written an object that a condition must not overlook.
            t.check_absent(&key)?;
            return Ok(None);
        };
        let head = head_of(&row)?;
        Ok(Some((row, head)))
    }

    /// Returns the current version for a write that replaces or hides it. Only a write without conditions may replace a
    /// version that is in doubt.
    pub fn replaced(&self, t: &mut dyn Transaction, is_conditional: bool) -> Result<Replaced, CatalogError> {
        match self.current(t) {
            Err(CatalogError::Damaged { .. }) if !is_conditional => {
                // The last known version takes its place among the others. `make_room` releases nothing of it.
                let row = t.last_known(&keys::current(self.bucket.number, &self.key))?;
                let current = row.map(|row| head_of(&row).map(|head| (row, head))).transpose()?;
                Ok(Replaced { current, is_in_doubt: true })
            }
            current => Ok(Replaced { current: current?, is_in_doubt: false }),
        }
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
    fn retire(
        &self,
        t: &mut dyn Transaction,
        row: &Row,
        head: &Head,
        is_in_doubt: bool,
    ) -> Result<(), CatalogError> {
        let key = self.version_key(head.generation);
        if !is_in_doubt {
            let value = value_of_version(t, row)?;
            t.put(key, value);
        } else if t.last_known(&key)?.is_none() {
            // Only if there is none: a version that was stored here before has its bytes, and this one has none.
            t.put(key, in_doubt(head));
        }
        Ok(())
    }

    /// Removes the version `null` if it is not the current one.
    fn remove_null(&self, t: &mut dyn Transaction) -> Result<(), CatalogError> {
        let Some((key, row, head)) = self.null_version(t)? else { return Ok(()) };
        // A row in doubt releases nothing: a lost record may have released it before (docs/decisions/0035).
        if unless_in_doubt(t.get(&key))?.is_some() {
            let leaving = Leaving { head: &head, row: &row, removal: Removal::Replaced, is_current: false };
            self.take_out(t, &leaving)?;
        }
        t.delete(key);
        Ok(())
    }

    /// Returns the generation of a new current version: `proposed`, if it is greater than the generation of the
    /// existing version and, in a versioned bucket, than the generations of all deleted versions, also after the clock
    /// was set back. The blob of the version has the proposed one in its trailer.
    pub fn next_generation(
        &self,
        t: &mut dyn Transaction,
        current: Option<&(Row, Head)>,
        proposed: u64,
    ) -> Result<u64, CatalogError> {
        let next = current.map_or(proposed, |(_, head)| proposed.max(head.generation + 1));
        // Without version ids, the order of the versions that exist is enough.
        if !self.bucket.is_versioned() {
            return Ok(next);
        }
        Ok(next.max(deleted_generation(t)? + 1))
    }

    /// Records that a version with this generation was deleted.
    pub fn forget_generation(&self, t: &mut dyn Transaction, generation: u64) -> Result<(), CatalogError> {
        // One row for all keys: a row for each deleted key would stay for ever.
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
        replaced: &Replaced,
        removal: Removal,
    ) -> Result<bool, CatalogError> {
        let versioning = self.bucket.info.versioning;
        let Replaced { current, is_in_doubt } = replaced;
        let effect = of_write(versioning, current.as_ref().map(|(_, head)| head.null));
        // A key has at most one version `null`.
        if effect.removes_null {
            self.remove_null(t)?;
        }
        if let Some((row, head)) = current {
            match effect.replaces_current {
                // The lost record may have discarded what the row refers to.
                true if *is_in_doubt => {}
                true => self.take_out(t, &Leaving { head, row, removal, is_current: true })?,
                false => self.retire(t, row, head, *is_in_doubt)?,
            }
        }
        Ok(effect.is_null)
    }
}

/// Returns the head of a row.
pub fn head_of(row: &Row) -> Result<Head, CatalogError> {
    intact(Head::decode(&row.head))
}

fn deleted_generation(t: &mut dyn Transaction) -> Result<u64, CatalogError> {
    // A lost record must not refuse all writes to buckets with versions.
    let row = t.last_known(keys::DELETED_GENERATION)?;
    Ok(row.and_then(|row| row.head[..].try_into().ok()).map_or(0, u64::from_be_bytes))
}

/// Returns the value of a version that is in doubt: it has no properties, so its reads report damage. It refers to no
/// bytes, because they may belong to nobody or be counted elsewhere.
pub fn in_doubt(head: &Head) -> Value {
    head_only(Head { body: Body::Inline, ..head.clone() }.encode())
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
    // Other versions come first: doubt about the current one must not affect them.
    if let Some(found) = find_noncurrent(t, target, version)? {
        return Ok(Some(found));
    }
    let current = target.current(t)?.filter(|(_, head)| head.version() == version);
    Ok(current.map(|(row, head)| (keys::current(target.bucket.number, &target.key), row, head)))
}

/// Finds a version of an object that is not the current one; `None` if there is none.
fn find_noncurrent(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    version: &str,
) -> Result<Option<(Vec<u8>, Row, Head)>, CatalogError> {
    if version == "null" {
        return target.null_version(t);
    }
    let Some(generation) = parse_version_id(version) else { return Ok(None) };
    let key = target.version_key(generation);
    let Some(row) = t.get(&key)? else { return Ok(None) };
    let head = head_of(&row)?;
    // The version `null` has a generation, too, which is not its id.
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
    plimsoll_server::versions::hidden(head.version(), head.modified(), by_version)
}
