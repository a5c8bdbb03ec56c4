//! Deletes discarded blobs, and at a start those that were never finished.

use std::ops::Bound;

use plimsoll::clock::wall_now;
use plimsoll::server::error::ApiError;

use crate::body::blob::text;
use crate::catalog::{Catalog, CatalogError};
use crate::object::keys::{self, BlobName};
use crate::object::write::PENDING;
use crate::object::{Store, unavailable};

/// Reads the keys with this prefix, at most 1,000.
fn some_keys<C: Catalog>(store: &Store<C>, prefix: &[u8]) -> Result<Vec<Vec<u8>>, CatalogError> {
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(prefix))?;
    let mut found = Vec::new();
    while let Some((key, _)) = scan.next()?
        && key.starts_with(prefix)
        && found.len() < 1000
    {
        found.push(key);
    }
    Ok(found)
}

/// Deletes the blobs whose time has come. The entry is removed after the blob, so a crash repeats the deletion.
pub async fn reap<C: Catalog>(store: &Store<C>) -> Result<(), ApiError> {
    let now = wall_now().as_millisecond() as u64;
    let garbage = some_keys(store, keys::GARBAGE).map_err(|e| unavailable(&e))?;
    for key in garbage {
        let Some((at, name)) = keys::parse_garbage(&key) else { continue };
        if at > now {
            break;
        }
        delete(store, &name, Some(key)).await?;
    }
    Ok(())
}

/// Deletes the blobs that an earlier process began and did not finish.
pub async fn remove_unfinished<C: Catalog>(store: &Store<C>) -> Result<(), ApiError> {
    let own = crate::body::blob::new_name();
    let mut scan_from = keys::BLOBS.to_vec();
    let mut unfinished = Vec::new();
    {
        let mut scan = store.catalog.scan();
        scan.seek(Bound::Included(&scan_from)).map_err(|e| unavailable(&e))?;
        while let Some((key, row)) = scan.next().map_err(|e| unavailable(&e))? {
            let Some(name) = key.strip_prefix(keys::BLOBS) else { break };
            // Names begin with their time; those of this process are newer.
            if let Ok(name) = BlobName::try_from(name)
                && row.head.first() == Some(&PENDING)
                && name[..6] < own[..6]
            {
                unfinished.push(name);
            }
            scan_from.clone_from(&key);
        }
    }
    for name in unfinished {
        delete(store, &name, None).await?;
    }
    Ok(())
}

async fn delete<C: Catalog>(
    store: &Store<C>,
    name: &BlobName,
    garbage: Option<Vec<u8>>,
) -> Result<(), ApiError> {
    if let Err(error) = store.blobs.delete(name).await {
        crate::log::warn(&format!("blob {}: {error}", text(name)));
        return Ok(());
    }
    let name = *name;
    store
        .transact(0, move |t| {
            t.delete(keys::blob(&name));
            garbage.into_iter().for_each(|key| t.delete(key));
            Ok(Ok(()))
        })
        .await
}
