//! Verifies objects, their versions, and the versions that are kept, one after the other.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::{FaultyObject, is_damage};
use plimsoll_bodies::blob::text;
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::{BlobHead, Location};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::pack_file::Slice;
use plimsoll_catalog::{Catalog, CatalogError, Row};
use plimsoll_objects::body::{BodyError, find_blob};
use plimsoll_objects::live::Live;
use plimsoll_objects::retained::Retained;
use plimsoll_objects::row::{Body, Head, Piece, Properties};
use plimsoll_objects::{Document, Store, keys};

/// Problem of an object.
#[derive(Debug, Clone)]
pub enum Problem {
    /// Its row or its properties are damaged, or no place has its bytes.
    Damaged(String),
    /// It is damaged in the same way, and is kept after it was deleted or replaced.
    Kept(String),
    /// It is readable, but a copy of it is damaged or missing.
    Copy(String),
    /// It could not be verified, because a tier does not answer or is not in the settings.
    Unverified(String),
    /// The catalog does not answer.
    Catalog(CatalogError),
}

impl Problem {
    fn damaged(problem: impl ToString) -> Problem {
        Problem::Damaged(problem.to_string())
    }

    /// Returns the problem for an error of the catalog: only damage concerns the object.
    fn of_catalog(error: CatalogError) -> Problem {
        if is_damage(&error) { Problem::damaged(error) } else { Problem::Catalog(error) }
    }
}

/// Result of the verification of some bytes.
type Verdict = Result<(), Problem>;

/// Result of one object.
pub struct Verified {
    /// Key of the row.
    pub catalog_key: Vec<u8>,
    /// Bytes of the body.
    pub bytes: u64,
    /// Object with its problem; `None` if it is intact.
    pub problem: Option<(FaultyObject, Problem)>,
}

/// A verification of all objects, which can be continued.
pub struct ObjectScrub {
    /// Key after which the next rows are read; `None` at the start.
    after: Option<Vec<u8>>,
    rows: VecDeque<(Vec<u8>, Row)>,
    /// Names of the buckets by number.
    names: BTreeMap<u32, String>,
    pack_files: PackFiles,
}

/// Pack files that were verified: the number of objects that refer to each, and what is wrong with it.
type PackFiles = BTreeMap<BlobName, (u64, Result<(), Problem>)>;

impl ObjectScrub {
    /// Begins a verification behind a key of the catalog, or at the start. Returns it, and the buckets whose settings
    /// are damaged.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn new<C: Catalog>(
        store: &Store<C>,
        after: Option<Vec<u8>>,
    ) -> Result<(ObjectScrub, Vec<String>), CatalogError> {
        let (names, damage) = bucket_names(&*store.catalog)?;
        let scrub = ObjectScrub { after, rows: VecDeque::new(), names, pack_files: PackFiles::new() };
        Ok((scrub, damage))
    }

    /// Reads the next rows: those of objects, then those of kept versions.
    fn read_rows(&mut self, catalog: &impl Catalog) -> Result<(), CatalogError> {
        /// Number of rows that are read at a time. A scan keeps old files of the index.
        const PAGE: usize = 1000;
        let mut scan = catalog.scan();
        for prefix in [keys::OBJECTS, keys::RETAINED] {
            match &self.after {
                // Behind a kept version, there are no more objects: the scan finds none, and kept versions follow.
                Some(after) if after.as_slice() >= prefix => scan.seek(Bound::Excluded(after))?,
                _ => scan.seek(Bound::Included(prefix))?,
            }
            while let Some((key, row)) = scan.next()?
                && key.starts_with(prefix)
            {
                self.rows.push_back((key, row));
                if self.rows.len() == PAGE {
                    return Ok(());
                }
            }
            if !self.rows.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Verifies the next object; `None` at the end.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub async fn next<C: Catalog>(&mut self, store: &Store<C>) -> Result<Option<Verified>, CatalogError> {
        if self.rows.is_empty() {
            self.read_rows(&*store.catalog)?;
        }
        let Some((catalog_key, row)) = self.rows.pop_front() else { return Ok(None) };
        let before = self.after.replace(catalog_key.clone());
        let head = head_of(&catalog_key, &row);
        let bytes = head.as_ref().map_or(0, |head| head.size);
        let mut problem = self.verify(store, &catalog_key, &row).await.err();
        if problem.is_some() {
            // The object or its blobs may have changed during the verification.
            let is_other = match store.catalog.get(&catalog_key) {
                Ok(found) => found.is_none_or(|now| now.head != row.head),
                // The second verification reads the row, too, and returns the error that counts.
                Err(_) => false,
            };
            problem = if is_other { None } else { self.verify(store, &catalog_key, &row).await.err() };
        }
        if let Some(Problem::Catalog(error)) = problem {
            // The object is verified when the verification continues.
            self.rows.clear();
            self.after = before;
            return Err(error);
        }
        if let Some(Problem::Damaged(text)) = &problem
            && catalog_key.starts_with(keys::RETAINED)
        {
            problem = Some(Problem::Kept(text.clone()));
        }
        // Kept versions do not count: `Live::live`, with which the number is compared, leaves them out.
        if let Some(Body::Slice(slice)) = head.as_ref().map(|head| &head.body)
            && catalog_key.starts_with(keys::OBJECTS)
            && let Some((objects, _)) = self.pack_files.get_mut(&slice.pack_file)
        {
            *objects += 1;
        }
        let problem = problem.map(|problem| (self.name(&catalog_key, head.as_ref(), &problem), problem));
        Ok(Some(Verified { catalog_key, bytes, problem }))
    }

    /// Names an object with a problem.
    fn name(&self, catalog_key: &[u8], head: Option<&Head>, problem: &Problem) -> FaultyObject {
        let object = catalog_key.starts_with(keys::OBJECTS);
        let (number, key) = if object {
            let key = keys::parse_object(catalog_key).map_or(String::new(), |(key, _)| key);
            (keys::bucket_number(catalog_key).unwrap_or(0), key)
        } else {
            keys::parse_retained(catalog_key).map_or((0, String::new()), |(_, number, key)| (number, key))
        };
        let bucket = self.names.get(&number).cloned().unwrap_or_else(|| format!("number {number}"));
        let version = head.map_or(String::new(), Head::version);
        let problem = match problem {
            Problem::Damaged(problem)
            | Problem::Kept(problem)
            | Problem::Copy(problem)
            | Problem::Unverified(problem) => problem.clone(),
            Problem::Catalog(error) => error.to_string(),
        };
        FaultyObject { bucket, key, version, problem }
    }

    /// Reads an object completely.
    async fn verify<C: Catalog>(&mut self, store: &Store<C>, key: &[u8], row: &Row) -> Result<(), Problem> {
        // A scan returns a row in doubt as it was before the lost record. `get` returns the damage.
        store.catalog.get(key).map_err(Problem::of_catalog)?;
        let value = store.catalog.value(key, row).map_err(Problem::of_catalog)?;
        let head = head_of(key, row).ok_or_else(|| Problem::damaged("the row has an unknown encoding"))?;
        if head.marker {
            return Ok(());
        }
        let properties = Properties::decode(&value.properties);
        let properties =
            properties.ok_or_else(|| Problem::damaged("the properties have an unknown encoding"))?;
        match &head.body {
            // `value` has verified the checksums of inline bodies, which a catalog in a directory has.
            Body::Inline => Ok(()),
            Body::Blob(name) => verify_blob(store, name, head.size).await,
            Body::Slice(slice) => verify_slice(store, slice, &mut self.pack_files).await,
            Body::Pieces => {
                for piece in &properties.pieces {
                    let Piece::Blob(name, size) = piece else { continue };
                    verify_blob(store, name, *size).await?;
                }
                Ok(())
            }
        }
    }

    /// Compares the numbers of objects in pack files with those in the catalog, after all objects were verified.
    /// Returns the differences.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn compare_counts<C: Catalog>(&self, store: &Store<C>) -> Result<Vec<String>, CatalogError> {
        let mut damage = Vec::new();
        let mut scan = store.catalog.scan();
        scan.seek(Bound::Included(keys::PACK_FILES))?;
        while let Some((key, row)) = scan.next()?
            && let Some(name) = key.strip_prefix(keys::PACK_FILES)
        {
            let count = Live::decode(&row.head).map_or(0, |live| live.live);
            let name = BlobName::try_from(name).unwrap_or_default();
            let found = self.pack_files.get(&name).map_or(0, |(objects, _)| *objects);
            if count != found {
                let name = text(&name);
                damage.push(format!("pack file {name} counts {count} objects instead of {found}"));
            }
        }
        Ok(damage)
    }
}

/// Returns the head of an object or of a kept version.
fn head_of(catalog_key: &[u8], row: &Row) -> Option<Head> {
    if catalog_key.starts_with(keys::OBJECTS) {
        return Head::decode(&row.head);
    }
    Retained::decode(&row.head).map(|retained| retained.head)
}

/// Returns the names of the buckets by number, and what is wrong with their settings.
fn bucket_names(catalog: &impl Catalog) -> Result<(BTreeMap<u32, String>, Vec<String>), CatalogError> {
    let (mut names, mut damage) = (BTreeMap::new(), Vec::new());
    let mut scan = catalog.scan();
    scan.seek(Bound::Included(keys::BUCKETS))?;
    while let Some((key, row)) = scan.next()? {
        let Some(name) = key.strip_prefix(keys::BUCKETS) else { break };
        let name = String::from_utf8_lossy(name).into_owned();
        let document = match catalog.value(&key, &row) {
            // Otherwise, a catalog that does not answer would make all buckets look damaged.
            Err(error) if !is_damage(&error) => return Err(error),
            value => value.map_err(|error| error.to_string()),
        };
        match document.and_then(|value| {
            serde_json::from_slice::<Document>(&value.properties).map_err(|error| error.to_string())
        }) {
            Ok(document) => drop(names.insert(document.number, name)),
            Err(error) => damage.push(format!("the settings of bucket {name}: {error}")),
        }
    }
    Ok((names, damage))
}

/// Verifies all copies of some bytes. The bytes are damaged if no copy is intact; else the others are named. If a tier
/// does not answer or is not in the settings, they count as not verified, whatever the other copies are.
async fn verify_copies<'a, C: Catalog, F: Future<Output = Result<(), BlobError>>>(
    store: &Store<C>,
    head: &'a BlobHead,
    verify: impl Fn(&'a Location) -> F,
) -> Verdict {
    let (mut intact, mut damaged, mut silent) = (0, Vec::new(), None);
    for location in &head.locations {
        let tier = store.tier_name(location.tier);
        match verify(location).await {
            Ok(()) => intact += 1,
            Err(error) if error.is_unavailable() => silent = silent.or(Some(format!("tier {tier}: {error}"))),
            Err(error) => damaged.push(format!("tier {tier}: {error}")),
        }
    }
    // A tier that does not answer may have an intact copy, so nothing is called damaged until it answers.
    match (intact, silent, damaged.is_empty()) {
        (_, Some(problem), _) => Err(Problem::Unverified(problem)),
        (_, None, true) => Ok(()),
        (0, None, false) => Err(Problem::Damaged(damaged.join("; "))),
        (_, None, false) => Err(Problem::Copy(damaged.join("; "))),
    }
}

/// Verifies all bytes of a blob at all its places.
async fn verify_blob<C: Catalog>(store: &Store<C>, name: &BlobName, size: u64) -> Verdict {
    let (head, crcs) = find_blob(&*store.catalog, name).await.map_err(|error| match error {
        BodyError::Catalog(error) => Problem::of_catalog(error),
        other => Problem::damaged(other),
    })?;
    let verify = |location| {
        let crcs = Arc::clone(&crcs);
        async move {
            let mut reader = store.blobs.open(location, size, crcs, 0..size).await?;
            // The reader compares the checksum of each chunk. Adopted objects have none before their first move.
            while reader.next().await?.is_some() {}
            Ok(())
        }
    };
    verify_copies(store, &head, verify).await
}

/// Verifies a body in a pack file. All bytes of the pack file are verified once; if some are damaged, each body is
/// read.
async fn verify_slice<C: Catalog>(store: &Store<C>, slice: &Slice, pack_files: &mut PackFiles) -> Verdict {
    let live = store.catalog.get(&keys::pack_file(&slice.pack_file)).map_err(Problem::of_catalog)?;
    let Some(live) = live.and_then(|row| Live::decode(&row.head)) else {
        let name = text(&slice.pack_file);
        return Err(Problem::Damaged(format!("pack file {name} is not in the catalog")));
    };
    if let Entry::Vacant(entry) = pack_files.entry(slice.pack_file) {
        entry.insert((0, verify_blob(store, &slice.pack_file, live.size).await));
    }
    if pack_files.get(&slice.pack_file).is_none_or(|(_, verified)| verified.is_ok()) {
        return Ok(());
    }
    let row = store.catalog.get(&keys::blob(&slice.pack_file)).map_err(Problem::of_catalog)?;
    let Some(head) = row.and_then(|row| BlobHead::decode(&row.head)) else {
        // Reads need its places. Without this, such objects would count as intact.
        let name = text(&slice.pack_file);
        return Err(Problem::Damaged(format!("the row of pack file {name} is missing or damaged")));
    };
    let verify =
        |location| async move { store.blobs.read_slice(location, live.size, slice).await.map(|_| ()) };
    verify_copies(store, &head, verify).await
}
