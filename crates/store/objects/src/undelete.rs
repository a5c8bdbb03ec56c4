//! Brings versions back that have left their bucket.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use plimsoll_server::conditions::WriteConditions;
use plimsoll_server::error::ApiError;

use super::removal::Removal;
use super::retained::Retained;
use super::row::{Body, Head};
use super::version::ObjectAddress;
use super::write::write_object;
use super::{Bucket, Store, keys, live};
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::{Catalog, CatalogError, Value};

/// A version that can be brought back.
#[derive(Debug, Clone)]
pub struct Returning {
    /// Catalog key of the kept version.
    pub catalog_key: Vec<u8>,
    /// Key of the object.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Reason why it has left the bucket.
    pub removal: Removal,
    /// Generation of the version.
    pub generation: u64,
}

/// Returns the versions that existed at a time in Unix milliseconds, and were current when they left the bucket after
/// it, of keys that start with `prefix`: of each key the newest.
///
/// # Errors
/// If the catalog cannot be read.
pub fn returning<C: Catalog>(
    store: &Store<C>,
    bucket: &Bucket,
    prefix: &str,
    at_ms: u64,
) -> Result<Vec<Returning>, CatalogError> {
    let mut found: BTreeMap<String, Returning> = BTreeMap::new();
    visit_kept(store, bucket.number, prefix, at_ms, &mut |retained, one| {
        let modified_ms = retained.head.modified_ms;
        let was_there = retained.was_current && u64::try_from(modified_ms).is_ok_and(|ms| ms <= at_ms);
        // A key may have had several of these versions. The newest one was its object at that time.
        if was_there && found.get(&one.key).is_none_or(|other| other.generation < one.generation) {
            found.insert(one.key.clone(), one);
        }
    })?;
    Ok(found.into_values().collect())
}

/// Visits the versions that have left a bucket since a time in Unix milliseconds and are kept, of keys that start with
/// `prefix`.
///
/// # Errors
/// If the catalog cannot be read.
pub fn visit_kept<C: Catalog>(
    store: &Store<C>,
    bucket: u32,
    prefix: &str,
    at_ms: u64,
    visit: &mut dyn FnMut(Retained, Returning),
) -> Result<(), CatalogError> {
    let mut scan = store.catalog.scan();
    let after = [keys::RETAINED, &at_ms.saturating_add(1).to_be_bytes()].concat();
    scan.seek(Bound::Included(&after))?;
    while let Some((catalog_key, row)) = scan.next()?
        && catalog_key.starts_with(keys::RETAINED)
    {
        let Some((_, number, key)) = keys::parse_retained(&catalog_key) else { continue };
        if number != bucket || !key.starts_with(prefix) {
            continue;
        }
        // A damaged row must not keep the others from coming back.
        let Some(retained) = Retained::decode(&row.head) else { continue };
        let (removal, size, generation) = (retained.removal, retained.head.size, retained.head.generation);
        visit(retained, Returning { catalog_key, key, size, removal, generation });
    }
    Ok(())
}

/// Brings a version back as a new version, which replaces or hides the current one. Returns false if the version is no
/// longer kept.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn bring_back<C: Catalog>(
    store: &Store<C>,
    bucket: &Arc<Bucket>,
    one: Returning,
) -> Result<bool, ApiError> {
    let target = ObjectAddress { bucket: Arc::clone(bucket), key: one.key };
    store
        .transact(one.size as usize + 512, move |t| {
            // While this row exists, the bytes are not garbage: `let_go` removes the row in the transaction that
            // discards them.
            let Some(row) = t.get(&one.catalog_key)? else { return Ok(Ok(false)) };
            let retained = plimsoll_catalog::intact(Retained::decode(&row.head))?;
            let value: Value = t.value(&row)?;
            let now = wall_now();
            let (generation, modified_ms) = (now.as_nanosecond() as u64, now.as_millisecond());
            // With its old time, a lifecycle rule could remove the object again at once.
            let head = Head { generation, modified_ms, ..retained.head };
            if let Body::Slice(slice) = &head.body {
                live::revive(t, slice)?;
            }
            // If the row stayed, the end of its time would discard the bytes of the object.
            t.delete(one.catalog_key.clone());
            let written = write_object(t, &target, head, value, &WriteConditions::default())?;
            Ok(written.map(|_| true))
        })
        .await
}
