//! Deletes of objects and versions.

use bytes::Bytes;
use plimsoll_server::conditions::{DeleteConditions, Existing};
use plimsoll_server::error::ApiError;
use plimsoll_server::service::{Deleted, Versioning};
use plimsoll_server::versions::{VersionToDelete, check_delete};

use super::removal::{Leaving, Removal};
use super::row::{Body, Head, parse_version_id};
use super::version::{ObjectAddress, find_version, head_of, in_doubt, value_of_version};
use super::{Store, keys};
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value, unless_in_doubt};

/// Checks the conditions of a delete on a version.
fn check(conditions: &DeleteConditions, head: Option<&Head>) -> Result<(), ApiError> {
    let etag = head.map(Head::etag).unwrap_or_default();
    let found = head.map(|head| VersionToDelete {
        existing: Existing { etag: &etag, modified_s: head.modified().as_second() },
        size: head.size,
        is_marker: head.marker,
    });
    check_delete(conditions, found)
}

/// Deletes the current object of a key: removes it or, in a versioned bucket, hides it behind a delete marker.
fn delete_current(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    conditions: &DeleteConditions,
    removal: Removal,
) -> Result<Result<Deleted, ApiError>, CatalogError> {
    let replaced = target.replaced(t, *conditions != DeleteConditions::default())?;
    let current = replaced.current.as_ref();
    if let Err(error) = check(conditions, current.map(|(_, head)| head)) {
        return Ok(Err(error));
    }
    let number = target.bucket.number;
    if target.bucket.info.versioning == Versioning::Off {
        // Without a row, too: if damage leaves it in doubt whether there is an object, there is none from now on.
        if current.is_some() || replaced.is_in_doubt {
            target.make_room(t, &replaced, removal)?;
            t.delete(keys::current(number, &target.key));
        }
        return Ok(Ok(Deleted::default()));
    }
    // The marker must be newer than the version that it hides, also if the clock was set back.
    let generation = target.next_generation(t, current, wall_now().as_nanosecond() as u64)?;
    let null = target.make_room(t, &replaced, removal)?;
    let marker = Head {
        marker: true,
        null,
        body: Body::Inline,
        generation,
        size: 0,
        modified_ms: wall_now().as_millisecond(),
        md5: [0; 16],
        parts: 0,
        checksum: None,
    };
    let version = marker.version();
    let value = Value { head: marker.encode(), properties: Bytes::new(), body: Bytes::new() };
    t.put(keys::current(number, &target.key), value);
    Ok(Ok(Deleted { version: Some(version), marker: true }))
}

/// Deletes one version. If it is the current one, the newest other version becomes current.
pub fn delete_version(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    version: &str,
    conditions: &DeleteConditions,
) -> Result<Result<Deleted, ApiError>, CatalogError> {
    let found = find_version(t, target, version)?;
    if let Err(error) = check(conditions, found.as_ref().map(|(_, _, head)| head)) {
        return Ok(Err(error));
    }
    let with_version = target.bucket.is_versioned().then(|| version.to_string());
    let Some((key, row, head)) = found else {
        // The record of the version may be lost. A deletion in the log ends the doubt about its key.
        let lost = parse_version_id(version).map(|generation| target.version_key(generation));
        if let Some(key) = lost.filter(|key| t.check_absent(key).is_err()) {
            t.delete(key);
        }
        return Ok(Ok(Deleted { version: with_version, marker: false }));
    };
    let is_current = key == keys::current(target.bucket.number, &target.key);
    let leaving = Leaving { head: &head, row: &row, removal: Removal::Deleted, is_current };
    remove(t, target, &key, &leaving)?;
    Ok(Ok(Deleted { version: with_version, marker: head.marker }))
}

/// Removes a version of an object.
fn remove(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    key: &[u8],
    leaving: &Leaving<'_>,
) -> Result<(), CatalogError> {
    let number = target.bucket.number;
    target.take_out(t, leaving)?;
    // The id must not come again for another version, also if the clock is set back.
    target.forget_generation(t, leaving.head.generation)?;
    t.delete(key.to_vec());
    if leaving.is_current {
        let prefix = keys::noncurrent(number, &target.key);
        if let Some((newest, row)) = t.first(&prefix, &prefix)? {
            // `first` does not check for lost records, so `get` asks whether the row is certain.
            let value = match t.get(&newest) {
                Err(CatalogError::Damaged { .. }) => in_doubt(&head_of(&row)?),
                found => found.and_then(|_| value_of_version(t, &row))?,
            };
            t.delete(newest);
            t.put(key.to_vec(), value);
        }
    }
    Ok(())
}

/// Removes a version if it is still the one with this generation.
pub fn remove_generation(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    key: &[u8],
    generation: u64,
) -> Result<bool, CatalogError> {
    let Some(row) = unless_in_doubt(t.get(key))? else { return Ok(false) };
    let head = head_of(&row)?;
    // The rules have looked at the object before this transaction. A client may have changed it since.
    if head.generation != generation || target.bucket.check(t)?.is_err() {
        return Ok(false);
    }
    let is_current = key == keys::current(target.bucket.number, &target.key);
    let leaving = Leaving { head: &head, row: &row, removal: Removal::Expired, is_current };
    remove(t, target, key, &leaving)?;
    Ok(true)
}

/// Hides the current version behind a delete marker, or removes it, if it is still the one with this generation.
pub fn expire_generation(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    generation: u64,
) -> Result<bool, CatalogError> {
    let current = unless_in_doubt(target.current(t))?;
    // As in `remove_generation`. Behind a delete marker, the object is hidden already.
    let is_same = current.is_some_and(|(_, head)| head.generation == generation && !head.marker);
    if !is_same || target.bucket.check(t)?.is_err() {
        return Ok(false);
    }
    Ok(delete_current(t, target, &DeleteConditions::default(), Removal::Expired)?.is_ok())
}

impl<C: Catalog> Store<C> {
    pub(super) async fn delete_object(
        &self,
        target: ObjectAddress,
        version: Option<String>,
        conditions: DeleteConditions,
    ) -> Result<Deleted, ApiError> {
        self.transact(self.expected(256, &target, version.is_none()), move |t| {
            // Clients free space on a full disk with deletes.
            t.use_reserve();
            if let Err(error) = target.bucket.check(t)? {
                return Ok(Err(error));
            }
            match &version {
                None => delete_current(t, &target, &conditions, Removal::Deleted),
                Some(version) => delete_version(t, &target, version, &conditions),
            }
        })
        .await
    }
}
