//! Verifies every stored byte of a data directory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::body::blob::{Blobs, text};
use crate::body::location::BlobName;
use crate::body::segment::Slice;
use crate::catalog::Catalog;
use crate::catalog::any::AnyCatalog;
use crate::catalog::embedded::Engine;
use crate::catalog::embedded::reader::GroupReader;
use crate::catalog::embedded::segment::{DIRECTORY, file_name};
use crate::object::body::find_blob;
use crate::object::live::Live;
use crate::object::row::{Body, Head, Piece, Properties};
use crate::object::{Document, keys};

/// Result of a verification.
#[derive(Debug, Default, serde::Serialize)]
pub struct Scrub {
    /// Number of objects and versions verified.
    pub objects: u64,
    /// Bytes of bodies verified.
    pub bytes: u64,
    /// Damaged places in files, in use or not.
    pub damage: Vec<String>,
    /// Damaged objects: bucket, key, version and problem.
    pub objects_damaged: Vec<DamagedObject>,
}

/// A damaged object.
#[derive(Debug, serde::Serialize)]
pub struct DamagedObject {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Id of the version.
    pub version: String,
    /// Property of the object that is wrong.
    pub problem: String,
}

/// Verifies the log, the index and the blobs.
pub async fn scrub(catalog: &Arc<AnyCatalog>, blobs: &Blobs) -> Scrub {
    let mut result = Scrub::default();
    if let Some(engine) = catalog.engine() {
        verify_log(engine, &mut result);
    }
    if let Err(error) = verify_objects(catalog, blobs, &mut result).await {
        result.damage.push(error.to_string());
    }
    result
}

/// Verifies the log of an embedded catalog.
fn verify_log(engine: &Engine, result: &mut Scrub) {
    for damage in engine.damage() {
        result.damage.push(format!("{} at offset {}: {}", damage.file, damage.offset, damage.problem));
    }
    for segment in engine.segments() {
        let name = format!("{DIRECTORY}/{}", file_name(segment.id));
        let verified = GroupReader::new(&segment, 0).and_then(|mut reader| {
            loop {
                let at = reader.offset;
                match reader.next_group()? {
                    Some(group) => {
                        for (record, _, offset, _) in group.records() {
                            if record.is_none_or(|record| !record.intact) {
                                result.damage.push(format!("{name} at offset {offset}: a record is damaged"));
                            }
                        }
                    }
                    None if at >= reader.length => return Ok(()),
                    None => {
                        result
                            .damage
                            .push(format!("{name} at offset {at}: the header of a group is damaged"));
                        if !reader.skip_damage()? {
                            return Ok(());
                        }
                    }
                }
            }
        });
        if let Err(error) = verified {
            result.damage.push(format!("{name}: {error}"));
        }
    }
}

async fn verify_objects(
    catalog: &Arc<AnyCatalog>,
    blobs: &Blobs,
    result: &mut Scrub,
) -> Result<(), crate::catalog::CatalogError> {
    let mut names = BTreeMap::new();
    let mut scan = catalog.scan();
    scan.seek(Bound::Included(keys::BUCKETS))?;
    while let Some((key, row)) = scan.next()? {
        let Some(name) = key.strip_prefix(keys::BUCKETS) else { break };
        let name = String::from_utf8_lossy(name).into_owned();
        let value = catalog.value(&key, &row)?;
        match serde_json::from_slice::<Document>(&value.properties) {
            Ok(document) => names.insert(document.number, name),
            Err(error) => {
                result.damage.push(format!("bucket {name}: {error}"));
                None
            }
        };
    }
    let mut segments = Segments::default();
    scan.seek(Bound::Included(b"o"))?;
    while let Some((catalog_key, row)) = scan.next()? {
        if catalog_key.first() != Some(&b'o') {
            break;
        }
        let bucket = catalog_key.get(1..5).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
        let bucket = names.get(&bucket).cloned().unwrap_or_else(|| format!("number {bucket}"));
        let key = keys::parse_object(&catalog_key).map_or(String::new(), |(key, _)| key);
        let head = Head::decode(&row.head);
        let version = head.as_ref().map_or(String::new(), Head::version);
        result.objects += 1;
        result.bytes += head.as_ref().map_or(0, |head| head.size);
        let problem = match catalog.get(&catalog_key) {
            Err(error) => Some(error.to_string()),
            Ok(_) => verify_object(catalog, blobs, &catalog_key, &row, &mut segments).await,
        };
        if let Some(problem) = problem {
            result.objects_damaged.push(DamagedObject { bucket, key, version, problem });
        }
    }
    segments.compare_counts(catalog, result)
}

/// Segments that were verified: the number of objects that refer to each, and what is wrong with it.
#[derive(Default)]
struct Segments(BTreeMap<BlobName, (u64, Option<String>)>);

impl Segments {
    /// Compares the numbers of objects with those in the catalog.
    fn compare_counts(
        &self,
        catalog: &Arc<AnyCatalog>,
        result: &mut Scrub,
    ) -> Result<(), crate::catalog::CatalogError> {
        let mut scan = catalog.scan();
        scan.seek(Bound::Included(keys::SEGMENTS))?;
        while let Some((key, row)) = scan.next()?
            && let Some(name) = key.strip_prefix(keys::SEGMENTS)
        {
            let count = Live::decode(&row.head).map_or(0, |live| live.live);
            let name = BlobName::try_from(name).unwrap_or_default();
            let found = self.0.get(&name).map_or(0, |(objects, _)| *objects);
            if count != found {
                let name = text(&name);
                result.damage.push(format!("segment {name} counts {count} objects instead of {found}"));
            }
        }
        Ok(())
    }
}

/// Verifies all bytes of a blob at all its places. Returns what is wrong with it.
async fn verify_blob(catalog: &Arc<AnyCatalog>, blobs: &Blobs, name: &BlobName, size: u64) -> Option<String> {
    let (head, crcs) = match find_blob(&**catalog, name) {
        Ok(found) => found,
        Err(error) => return Some(error.to_string()),
    };
    for location in &head.locations {
        let read = async {
            let mut reader = blobs.open(location, size, Arc::clone(&crcs), 0..size).await?;
            while reader.next().await?.is_some() {}
            Ok::<(), crate::body::blob::BlobError>(())
        };
        if let Err(error) = read.await {
            return Some(error.to_string());
        }
    }
    None
}

/// Verifies a body in a segment. All bytes of the segment are verified once; if some are damaged, each body is read.
async fn verify_slice(
    catalog: &Arc<AnyCatalog>,
    blobs: &Blobs,
    slice: &Slice,
    segments: &mut Segments,
) -> Option<String> {
    let live = catalog.get(&keys::segment(&slice.segment)).ok().flatten();
    let Some(live) = live.and_then(|row| Live::decode(&row.head)) else {
        return Some(format!("segment {} is not in the catalog", text(&slice.segment)));
    };
    if let std::collections::btree_map::Entry::Vacant(entry) = segments.0.entry(slice.segment) {
        entry.insert((0, verify_blob(catalog, blobs, &slice.segment, live.size).await));
    }
    let (objects, problem) = segments.0.get_mut(&slice.segment)?;
    *objects += 1;
    problem.as_ref()?;
    let head = find_blob(&**catalog, &slice.segment).map(|(head, _)| head);
    for location in head.map(|head| head.locations).unwrap_or_default() {
        if let Err(error) = blobs.read_slice(&location, live.size, slice).await {
            return Some(error.to_string());
        }
    }
    None
}

/// Reads an object completely. Returns what is wrong with it.
async fn verify_object(
    catalog: &Arc<AnyCatalog>,
    blobs: &Blobs,
    key: &[u8],
    row: &crate::catalog::Row,
    segments: &mut Segments,
) -> Option<String> {
    let value = match catalog.value(key, row) {
        Ok(value) => value,
        Err(error) => return Some(error.to_string()),
    };
    let Some(head) = Head::decode(&row.head) else { return Some("the row has an unknown encoding".into()) };
    if head.marker {
        return None;
    }
    let Some(properties) = Properties::decode(&value.properties) else {
        return Some("the properties have an unknown encoding".into());
    };
    match &head.body {
        Body::Inline => None,
        Body::Blob(name) => verify_blob(catalog, blobs, name, head.size).await,
        Body::Slice(slice) => verify_slice(catalog, blobs, slice, segments).await,
        Body::Pieces => {
            for piece in &properties.pieces {
                let Piece::Blob(name, size) = piece else { continue };
                let problem = verify_blob(catalog, blobs, name, *size).await;
                if problem.is_some() {
                    return problem;
                }
            }
            None
        }
    }
}
