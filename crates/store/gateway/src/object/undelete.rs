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
use crate::ambient::wall_now;
use crate::catalog::{Catalog, CatalogError, Value};

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

/// Returns the versions that were current at a time in Unix milliseconds and are not in the bucket any more, of keys
/// that start with `prefix`.
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
            let Some(row) = t.get(&one.catalog_key)? else { return Ok(Ok(false)) };
            let retained = crate::catalog::intact(Retained::decode(&row.head))?;
            let value: Value = t.value(&row)?;
            let now = wall_now();
            let (generation, modified_ms) = (now.as_nanosecond() as u64, now.as_millisecond());
            let head = Head { generation, modified_ms, ..retained.head };
            if let Body::Slice(slice) = &head.body {
                live::revive(t, slice)?;
            }
            t.delete(one.catalog_key.clone());
            let written = write_object(t, &target, head, value, &WriteConditions::default())?;
            Ok(written.map(|_| true))
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ambient::now_ms;
    use crate::background::deletion::delete_due_at;
    use crate::background::retention::let_go_until;
    use crate::testing::{BUCKET, World};

    const DAY_MS: u64 = 86_400_000;

    async fn bring_all_back(world: &World, at_ms: u64) -> usize {
        let bucket = world.store.find_bucket(BUCKET).await.unwrap();
        let found = returning(&world.store, &bucket, "", at_ms).unwrap();
        let count = found.len();
        for one in found {
            assert!(bring_back(&world.store, &bucket, one).await.unwrap());
        }
        count
    }

    /// Waits for the next millisecond.
    fn next_ms() -> u64 {
        let now = now_ms();
        while now_ms() == now {}
        now
    }

    #[tokio::test]
    async fn what_was_deleted_or_replaced_comes_back_as_it_was() {
        let world = World::retaining(1, 100, DAY_MS).await;
        let (small, large) = (vec![1; 50], vec![2; 5000]);
        world.put("deleted", &large).await;
        world.put("replaced", &large).await;
        world.put("inline", &small).await;
        world.put("stays", &small).await;
        let at_ms = next_ms();
        world.put("later", &small).await;
        world.put("replaced", &small).await;
        world.put("replaced", &[3; 7000]).await;
        for key in ["deleted", "inline"] {
            world.delete(key).await;
        }
        delete_due_at(&world.store, now_ms() + DAY_MS / 2).await.unwrap();
        assert_eq!(bring_all_back(&world, at_ms).await, 3);
        for (key, body) in [("deleted", &large), ("replaced", &large), ("inline", &small), ("later", &small)]
        {
            assert_eq!(world.get(key).await.unwrap().1, *body, "{key}");
        }
        // The object that was replaced by this is kept, too.
        assert_eq!(bring_all_back(&world, next_ms()).await, 0);
        assert_eq!(world.count(0).await, 3);
    }

    #[tokio::test]
    async fn nothing_is_kept_after_its_time() {
        let world = World::retaining(1, 100, DAY_MS).await;
        for key in ["a", "b"] {
            world.put(key, &[1; 5000]).await;
        }
        let at_ms = next_ms();
        world.delete("a").await;
        let now = now_ms();
        let_go_until(&world.store, at_ms, 0).await.unwrap();
        delete_due_at(&world.store, now + DAY_MS).await.unwrap();
        assert_eq!(world.count(0).await, 2);
        let_go_until(&world.store, now, 0).await.unwrap();
        delete_due_at(&world.store, now + DAY_MS).await.unwrap();
        assert_eq!((world.count(0).await, world.rows(keys::RETAINED).len()), (1, 0));
        assert_eq!(bring_all_back(&world, at_ms).await, 0);
    }
}
