//! Visits the rows of all objects and versions, and their blobs.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::condition::Facts;
use plimsoll_bodies::location::{BlobHead, State};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::pack_file::record_length;
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::{Catalog, CatalogError, Row, unless_in_doubt};
use plimsoll_objects::Store;
use plimsoll_objects::keys;
use plimsoll_objects::live::Live;
use plimsoll_objects::read::now_s;
use plimsoll_objects::row::{Body, Head, Piece, Properties};

/// The row of an object or version with a body.
pub struct Visited<'a> {
    /// Key of the row.
    pub catalog_key: &'a [u8],
    /// Name of the bucket.
    pub bucket: &'a Arc<str>,
    /// Key of the object.
    pub key: &'a str,
    /// Head of the row.
    pub head: &'a Head,
    /// The row in the catalog.
    pub row: &'a Row,
    /// Time since the object was written, in milliseconds.
    pub age_ms: u64,
}

impl Visited<'_> {
    /// Reads the properties of the object; `None` if they are damaged.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn properties<C: Catalog>(&self, store: &Store<C>) -> Result<Option<Properties>, CatalogError> {
        match store.catalog.properties(self.catalog_key, self.row) {
            Err(CatalogError::Damaged { .. }) => Ok(None),
            properties => Ok(Properties::decode(&properties?)),
        }
    }

    /// Returns the length of the object's record in a pack file in bytes.
    pub fn record_length(&self) -> u64 {
        let lengths =
            [self.bucket.len(), self.key.len(), self.row.head.len(), self.row.place.properties as usize];
        record_length(lengths, self.head.size)
    }

    /// Returns the first of some rules that a condition selects.
    pub fn find<'r, C: Catalog, R>(
        &self,
        store: &Store<C>,
        mut rules: impl Iterator<Item = (usize, &'r R)>,
        selects: impl Fn(&R, &Facts<'_>) -> bool,
    ) -> Option<(usize, &'r R)> {
        // Without its tags, an object stays: a rule such as `tag.keep != 'yes'` would move what it must not.
        let is_unknown = Cell::new(false);
        let tags = || match self.properties(store) {
            Ok(Some(properties)) => properties.tags.0,
            _ => {
                is_unknown.set(true);
                Vec::new()
            }
        };
        let (size, age_ms) = (self.head.size, self.age_ms);
        let reads_per_day =
            || store.reads.as_ref().map_or(0.0, |reads| reads.per_day(self.catalog_key, now_s()));
        let (bucket, key) = (self.bucket, self.key);
        let facts = Facts { bucket, key, size, age_ms, reads_per_day: &reads_per_day, tags: &tags };
        rules.find(|(_, rule)| selects(rule, &facts)).filter(|_| !is_unknown.get())
    }

    /// Returns the blobs of the body with their sizes in bytes; none for an inline body or one in a pack file.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn blobs<C: Catalog>(&self, store: &Store<C>) -> Result<Vec<(BlobName, u64)>, CatalogError> {
        Ok(match &self.head.body {
            Body::Inline | Body::Slice(_) => Vec::new(),
            Body::Blob(name) => vec![(*name, self.head.size)],
            Body::Pieces => {
                // Without its properties, the blobs of an object are unknown, and stay where they are.
                let pieces = self.properties(store)?.unwrap_or_default().pieces;
                let blob = |piece: &Piece| match piece {
                    Piece::Inline(_) => None,
                    Piece::Blob(name, size) => Some((*name, *size)),
                };
                pieces.iter().filter_map(blob).collect()
            }
        })
    }
}

/// Calls `visit` with the rows of all objects and versions from a key of the catalog on, until it returns false.
/// Markers, empty objects, malformed rows, and those of buckets with a damaged document are skipped. Returns false if
/// `visit` did.
///
/// # Errors
/// If the catalog cannot be read.
pub fn visit_rows<C: Catalog>(
    store: &Store<C>,
    from: Bound<&[u8]>,
    visit: &mut dyn FnMut(Visited<'_>) -> Result<bool, CatalogError>,
) -> Result<bool, CatalogError> {
    let names: BTreeMap<u32, Arc<str>> =
        store.all_buckets()?.into_iter().map(|(name, bucket)| (bucket.number, name.into())).collect();
    let now_ms = wall_now().as_millisecond();
    let mut scan = store.catalog.scan();
    scan.seek(from)?;
    while let Some((catalog_key, row)) = scan.next()?
        && catalog_key.starts_with(keys::OBJECTS)
    {
        let Some(head) = Head::decode(&row.head).filter(|head| !head.marker && head.size > 0) else {
            continue;
        };
        let Some((key, _)) = keys::parse_object(&catalog_key) else { continue };
        let number = catalog_key.get(1..5).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
        // A bucket with a damaged document is not in `all_buckets`. Its rules are unknown, so its objects stay.
        let Some(bucket) = names.get(&number) else { continue };
        // A time in the future gives age 0. Without this bound, it would become a huge age, and look very old.
        let age_ms = now_ms.saturating_sub(head.modified_ms).max(0) as u64;
        let visited =
            Visited { catalog_key: &catalog_key, bucket, key: &key, head: &head, row: &row, age_ms };
        if !visit(visited)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the head of a complete blob; `None` if it is missing or not complete.
///
/// # Errors
/// If the catalog cannot be read.
pub fn complete_blob<C: Catalog>(
    store: &Store<C>,
    blob: &BlobName,
) -> Result<Option<BlobHead>, CatalogError> {
    // A row in doubt is left alone. It must not end the visit, and with it all work behind this blob.
    let Some(row) = unless_in_doubt(store.catalog.get(&keys::blob(blob)))? else { return Ok(None) };
    Ok(BlobHead::decode(&row.head).filter(|head| head.state == State::Complete))
}

/// Returns the counts of all pack files by name.
///
/// # Errors
/// If the catalog cannot be read.
pub fn all_pack_files<C: Catalog>(store: &Store<C>) -> Result<BTreeMap<BlobName, Live>, CatalogError> {
    let mut found = BTreeMap::new();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(keys::PACK_FILES))?;
    while let Some((key, row)) = scan.next()? {
        let Some(name) = key.strip_prefix(keys::PACK_FILES) else { break };
        if let (Ok(name), Some(live)) = (BlobName::try_from(name), Live::decode(&row.head)) {
            found.insert(name, live);
        }
    }
    Ok(found)
}

/// A complete blob of an object.
pub struct Stored<'a> {
    /// Name of the object's bucket.
    pub bucket: &'a str,
    /// Key of the object.
    pub key: &'a str,
    /// Name of the blob.
    pub blob: BlobName,
    /// Size of the blob in bytes.
    pub size: u64,
    /// Head of the blob's row.
    pub head: BlobHead,
}

/// Calls `visit` with the blobs and pack files of all objects and versions. A pack file is visited with each of its
/// objects until `visit` returns true.
///
/// # Errors
/// If the catalog cannot be read.
pub fn visit_blobs<C: Catalog>(
    store: &Store<C>,
    visit: &mut dyn FnMut(Stored<'_>) -> bool,
) -> Result<(), CatalogError> {
    let pack_files = all_pack_files(store)?;
    let mut done = HashSet::new();
    visit_rows(store, Bound::Included(keys::OBJECTS), &mut |visited| {
        let blobs = match &visited.head.body {
            Body::Slice(slice) if done.contains(&slice.pack_file) => return Ok(true),
            Body::Slice(slice) => {
                // Without counts the size is 0, which only makes a report smaller.
                vec![(slice.pack_file, pack_files.get(&slice.pack_file).map_or(0, |live| live.size))]
            }
            _ => visited.blobs(store)?,
        };
        for (blob, size) in blobs {
            let Some(head) = complete_blob(store, &blob)? else { continue };
            if visit(Stored { bucket: visited.bucket, key: visited.key, blob, size, head }) {
                done.insert(blob);
            }
        }
        Ok(true)
    })?;
    Ok(())
}
