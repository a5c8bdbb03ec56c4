//! Finds orphans: objects in the tiers with names of the gateway that its catalog does not know.
//!
//! A blob is recorded before its first byte is written, and a name is never used again. So an object that was listed
//! before the catalog was read, and that the catalog does not contain, will never be needed. Objects with other names
//! are not the gateway's.

use std::collections::BTreeMap;
use std::ops::Bound;

use futures_util::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt};

use plimsoll_bodies::location::{BlobHead, Location, ObjectName, parse_own};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::tier::odd_keys::odd_key;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::keys;

/// Objects of the gateway in one tier, with their sizes in bytes.
pub type Objects = BTreeMap<BlobName, u64>;

/// Lists the gateway's objects of a tier.
///
/// # Errors
/// If the tier fails.
pub async fn list(tier: &dyn ObjectStore) -> Result<Objects, object_store::Error> {
    let mut found = Objects::new();
    let mut listed = tier.list(None);
    while let Some(object) = listed.next().await {
        let object = match object {
            // The gateway's own names are not odd.
            Err(error) if odd_key(&error).is_some() => continue,
            object => object?,
        };
        found.extend(parse_own(object.location.as_ref()).map(|name| (name, object.size)));
    }
    Ok(found)
}

/// Order in which the catalog is read. The gateways continue to work meanwhile, and a scan of a database is no
/// snapshot. A place is first in an intent or a pending blob, then in a complete one, then in the list of bytes to
/// delete. Read in this order, it is found, whatever happens in between.
const ORDER: [&[u8]; 3] = [keys::INTENTS, keys::BLOBS, keys::GARBAGE];

/// Removes the objects that the catalog knows from those of each tier.
///
/// # Errors
/// If the catalog cannot be read or is damaged.
pub fn remove_known(
    catalog: &impl Catalog,
    objects: &mut BTreeMap<u16, Objects>,
) -> Result<(), CatalogError> {
    // A malformed row may name an object that is in use, so the sweep ends before it deletes anything.
    let malformed = || CatalogError::Io("the catalog has a malformed row; nothing was deleted".into());
    let mut known = |place: &Location| {
        // The list has only names of the gateway, and thus no adopted objects.
        if let ObjectName::Own(name) = &place.name
            && let Some(objects) = objects.get_mut(&place.tier)
        {
            objects.remove(name);
        }
    };
    let mut scan = catalog.scan();
    for prefix in ORDER {
        scan.seek(Bound::Included(prefix))?;
        while let Some((key, row)) = scan.next()?
            && key.starts_with(prefix)
        {
            match prefix {
                keys::BLOBS => {
                    let head = BlobHead::decode(&row.head).ok_or_else(malformed)?;
                    head.locations.iter().for_each(&mut known);
                }
                keys::GARBAGE => known(&keys::parse_garbage(&key).ok_or_else(malformed)?.1),
                _ => known(&Location::decode(&key[prefix.len()..]).ok_or_else(malformed)?),
            }
        }
    }
    Ok(())
}

/// Returns the objects that still exist. A gateway deleted the missing ones after the tier was listed and before the
/// catalog was read.
///
/// # Errors
/// If the tier fails.
pub async fn existing(tier: &dyn ObjectStore, objects: Objects) -> Result<Objects, object_store::Error> {
    let mut found = Objects::new();
    for (name, size) in objects {
        // The number of the tier is not part of the path.
        match tier.head(&Location::new(0, name).path()).await {
            Ok(_) => {
                found.insert(name, size);
            }
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns the objects that were begun before a time in Unix milliseconds.
pub fn begun_before(objects: Objects, time_ms: u64) -> Objects {
    let is_old = |name: &BlobName| Location::new(0, *name).written_ms().is_some_and(|ms| ms < time_ms);
    objects.into_iter().filter(|(name, _)| is_old(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use plimsoll_bodies::location::{Garbage, Reason};
    use plimsoll_bodies::name::new_name;
    use plimsoll_catalog::blocking::block_on;
    use plimsoll_catalog::embedded::head_only;
    use plimsoll_catalog::memory::MemoryCatalog;
    use plimsoll_catalog::{Expected, Row, Scan, Value, Work};
    use plimsoll_store_testing::World;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A catalog in which a place proceeds while it is read: at a seek, rows are replaced.
    struct Proceeding {
        catalog: MemoryCatalog,
        seeks: AtomicUsize,
        /// Number of the seek, the key that is removed, and the row that is written.
        change: (usize, Vec<u8>, (Vec<u8>, Bytes)),
    }

    impl Catalog for Proceeding {
        async fn commit(&self, work: Work, expected: impl Into<Expected>) -> Result<(), CatalogError> {
            self.catalog.commit(work, expected).await
        }

        fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
            self.catalog.get(key)
        }

        fn properties(&self, key: &[u8], row: &Row) -> Result<Bytes, CatalogError> {
            self.catalog.properties(key, row)
        }

        fn value(&self, key: &[u8], row: &Row) -> Result<Value, CatalogError> {
            self.catalog.value(key, row)
        }

        fn scan(&self) -> Box<dyn Scan + '_> {
            Box::new(ProceedingScan { of: self, scan: self.catalog.scan() })
        }
    }

    struct ProceedingScan<'a> {
        of: &'a Proceeding,
        scan: Box<dyn Scan + 'a>,
    }

    impl Scan for ProceedingScan<'_> {
        fn seek(&mut self, from: Bound<&[u8]>) -> Result<(), CatalogError> {
            let (at, old, (new, head)) = self.of.change.clone();
            if self.of.seeks.fetch_add(1, Ordering::Relaxed) == at {
                block_on(self.of.catalog.commit(
                    Box::new(move |t| {
                        t.delete(old.clone());
                        t.put(new.clone(), head_only(head.clone()));
                        Ok(true)
                    }),
                    0,
                ))?;
            }
            self.scan.seek(from)
        }

        fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>, CatalogError> {
            self.scan.next()
        }
    }

    #[test]
    fn an_object_that_is_switched_or_discarded_during_a_sweep_is_no_orphan() {
        let (blob, place) = (new_name(), Location::new(0, new_name()));
        let ObjectName::Own(name) = place.name else { panic!("the name is not one of the gateway") };
        let intent = (keys::intent(&place), Bytes::copy_from_slice(&blob));
        let complete = (keys::blob(&blob), BlobHead::complete(vec![place.clone()]).encode());
        let garbage = Garbage { blob, reason: Reason::Discarded, switched: 0, window_ms: 0 };
        let discarded = (keys::garbage(5, &place), garbage.encode());
        for (before, after) in [(&intent, &complete), (&complete, &discarded), (&intent, &discarded)] {
            for seek in 0..4 {
                let catalog = Proceeding {
                    catalog: MemoryCatalog::default(),
                    seeks: AtomicUsize::new(0),
                    change: (seek, before.0.clone(), after.clone()),
                };
                let (key, head) = before.clone();
                let work: Work = Box::new(move |t| {
                    t.put(key.clone(), head_only(head.clone()));
                    Ok(true)
                });
                block_on(catalog.commit(work, 0)).unwrap();
                let mut objects = BTreeMap::from([(0, Objects::from([(name, 1)]))]);
                remove_known(&catalog, &mut objects).unwrap();
                assert!(objects[&0].is_empty(), "a change at seek {seek} makes an orphan");
            }
        }
    }

    #[tokio::test]
    async fn unknown_objects_are_orphans_and_others_are_not() {
        let world = World::new(2, 100).await;
        for key in ["a", "b", "c"] {
            world.put(key, &[7; 1000]).await;
        }
        world.delete("c").await;
        let orphan = Location::new(0, new_name());
        for path in [orphan.path(), "foreign/object".into()] {
            world.tiers[0].put(&path, "orphan".into()).await.unwrap();
        }
        let listed = list(&*world.tiers[0]).await.unwrap();
        assert_eq!(listed.len(), 4);
        let mut objects = BTreeMap::from([(0, listed)]);
        remove_known(&*world.store.catalog, &mut objects).unwrap();
        let orphans = objects.remove(&0).unwrap();
        assert_eq!(orphans.values().collect::<Vec<_>>(), [&6]);
        let mut with_deleted = orphans.clone();
        with_deleted.insert(new_name(), 7);
        assert_eq!(existing(&*world.tiers[0], with_deleted).await.unwrap(), orphans);
        assert_eq!(begun_before(orphans.clone(), 1000), Objects::new());
        assert_eq!(begun_before(orphans.clone(), u64::MAX), orphans);
    }
}
