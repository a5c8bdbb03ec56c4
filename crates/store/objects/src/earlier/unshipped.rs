//! Writes that only the replaced log of a former leader has: they were acknowledged, and not shipped before another
//! gateway led.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_server::error::ApiError;
use serde::Serialize;

use super::bytes::{Version, copy_from};
use super::document_of;
use crate::error::for_client;
use crate::row::Head;
use crate::version::ObjectAddress;
use crate::{Bucket, Store, keys};
use plimsoll_catalog::{Catalog, CatalogError, intact};

/// Milliseconds by which the generation of a write may be older than its group.
const SLACK_MS: u64 = 60_000;

/// State of the object in the store, compared with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Now {
    /// An older state of the object, or nothing.
    Older,
    /// A later write: the object stays as it is.
    Later,
}

/// A write that was not shipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unshipped {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Size in bytes; `None` for a deletion.
    pub size: Option<u64>,
    /// State of the object in the store.
    pub now: Now,
    #[serde(skip)]
    row_key: Vec<u8>,
}

/// Finds the writes whose catalog keys are `changed` in the replaced catalog `old`, of which `store` knows nothing.
/// Writes before `since_ms` in Unix milliseconds were shipped.
///
/// # Errors
/// If a catalog cannot be read.
pub fn find<C: Catalog, D: Catalog>(
    store: &Store<C>,
    old: &Store<D>,
    changed: &BTreeSet<Vec<u8>>,
    since_ms: u64,
) -> Result<Vec<Unshipped>, CatalogError> {
    let since_ns = u128::from(since_ms.saturating_sub(SLACK_MS)) * 1_000_000;
    let (before, now) = (old.all_buckets()?, store.all_buckets()?);
    let mut found = Vec::new();
    for (name, bucket) in &before {
        let current = now.iter().find(|(other, _)| other == name).map(|(_, bucket)| bucket);
        for row_key in changed.iter().filter(|key| key.starts_with(&keys::objects(bucket.number, ""))) {
            let Some((key, true)) = keys::parse_object(row_key) else { continue };
            let Some(row) = old.catalog.get(row_key)? else { continue };
            let head = intact(Head::decode(&row.head))?;
            // Compaction copies rows to the end of the log, so old writes are among the changed keys, too.
            if u128::from(head.generation) <= since_ns {
                continue;
            }
            let newest = current.map(|bucket| newest(store, bucket, &key)).transpose()?.flatten();
            let state = match newest {
                Some(newest) if newest.generation == head.generation => continue,
                Some(newest) if newest.generation > head.generation => Now::Later,
                _ => Now::Older,
            };
            let size = (!head.marker).then_some(head.size);
            found.push(Unshipped { bucket: name.clone(), key, size, now: state, row_key: row_key.clone() });
        }
    }
    Ok(found)
}

/// Returns the current version of an object; `None` if it has none.
fn newest<C: Catalog>(
    store: &Store<C>,
    bucket: &Arc<Bucket>,
    key: &str,
) -> Result<Option<Head>, CatalogError> {
    let row = store.catalog.get(&keys::current(bucket.number, key))?;
    row.map(|row| intact(Head::decode(&row.head))).transpose()
}

/// Writes an object again that was not shipped. Returns false if it stays as it is: it was deleted, the store has a
/// later write, or its bytes have gone.
///
/// # Errors
/// If a catalog or a tier fails.
pub async fn bring_back<C: Catalog, D: Catalog>(
    store: &Store<C>,
    old: &Store<D>,
    write: &Unshipped,
) -> Result<bool, ApiError> {
    if write.now == Now::Later || write.size.is_none() {
        return Ok(false);
    }
    let source = old.find_bucket(&write.bucket).await?;
    // The creation of the bucket may not have been shipped, either.
    let document = document_of(&*old.catalog, &write.bucket).map_err(for_client)?;
    let (bucket, _) = store.ensure_bucket(&write.bucket, document.as_ref()).await?;
    let Some(row) = old.catalog.get(&write.row_key).map_err(for_client)? else { return Ok(false) };
    let head = intact(Head::decode(&row.head)).map_err(for_client)?;
    let address = ObjectAddress { bucket: source, key: write.key.clone() };
    let target = ObjectAddress { bucket, key: write.key.clone() };
    copy_from(Version { store: old, address, row_key: write.row_key.clone(), head: &head }, store, target)
        .await
}
