//! Verifies every stored byte of a data directory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::body::blob::{Blobs, text};
use crate::body::error::BlobError;
use crate::body::location::BlobName;
use crate::body::pack_file::Slice;
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
    /// Objects whose bytes are damaged.
    pub objects_damaged: Vec<FaultyObject>,
    /// Objects that could not be verified, because a tier did not answer or is not in the settings.
    pub objects_unverified: Vec<FaultyObject>,
}

/// An object with a problem.
#[derive(Debug, serde::Serialize)]
pub struct FaultyObject {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Id of the version.
    pub version: String,
    /// Property of the object that is wrong, or the reason why it is not known.
    pub problem: String,
}

/// Problem of an object.
#[derive(Debug, Clone)]
enum Problem {
    /// It is damaged.
    Damaged(String),
    /// It could not be verified.
    Unverified(String),
}

impl Problem {
    fn damaged(problem: impl ToString) -> Problem {
        Problem::Damaged(problem.to_string())
    }
}

impl From<BlobError> for Problem {
    fn from(error: BlobError) -> Problem {
        if error.is_unavailable() { Problem::Unverified(error.to_string()) } else { Problem::damaged(error) }
    }
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
    match engine.verify_index() {
        Ok(0) => {}
        Ok(_) => {
            result.damage.push("a table of the index was damaged; it was built again from the log".into())
        }
        Err(error) => result.damage.push(error.to_string()),
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
        let document = catalog.value(&key, &row).map_err(|error| error.to_string());
        match document.and_then(|value| {
            serde_json::from_slice::<Document>(&value.properties).map_err(|error| error.to_string())
        }) {
            Ok(document) => {
                names.insert(document.number, name);
            }
            Err(error) => result.damage.push(format!("the settings of bucket {name}: {error}")),
        }
    }
    let mut pack_files = PackFiles::default();
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
        let found = match catalog.get(&catalog_key) {
            Err(error) => Err(Problem::damaged(error)),
            Ok(_) => verify_object(catalog, blobs, &catalog_key, &row, &mut pack_files).await,
        };
        match found {
            Ok(()) => {
                result.objects += 1;
                result.bytes += head.as_ref().map_or(0, |head| head.size);
            }
            Err(Problem::Damaged(problem)) => {
                result.objects_damaged.push(FaultyObject { bucket, key, version, problem });
            }
            Err(Problem::Unverified(problem)) => {
                result.objects_unverified.push(FaultyObject { bucket, key, version, problem });
            }
        }
    }
    pack_files.compare_counts(catalog, result)
}

/// Pack files that were verified: the number of objects that refer to each, and what is wrong with it.
#[derive(Default)]
struct PackFiles(BTreeMap<BlobName, (u64, Result<(), Problem>)>);

impl PackFiles {
    /// Compares the numbers of objects with those in the catalog.
    fn compare_counts(
        &self,
        catalog: &Arc<AnyCatalog>,
        result: &mut Scrub,
    ) -> Result<(), crate::catalog::CatalogError> {
        let mut scan = catalog.scan();
        scan.seek(Bound::Included(keys::PACK_FILES))?;
        while let Some((key, row)) = scan.next()?
            && let Some(name) = key.strip_prefix(keys::PACK_FILES)
        {
            let count = Live::decode(&row.head).map_or(0, |live| live.live);
            let name = BlobName::try_from(name).unwrap_or_default();
            let found = self.0.get(&name).map_or(0, |(objects, _)| *objects);
            if count != found {
                let name = text(&name);
                result.damage.push(format!("pack file {name} counts {count} objects instead of {found}"));
            }
        }
        Ok(())
    }
}

/// Verifies all bytes of a blob at all its places.
async fn verify_blob(
    catalog: &Arc<AnyCatalog>,
    blobs: &Blobs,
    name: &BlobName,
    size: u64,
) -> Result<(), Problem> {
    let (head, crcs) = find_blob(&**catalog, name).map_err(Problem::damaged)?;
    for location in &head.locations {
        let mut reader = blobs.open(location, size, Arc::clone(&crcs), 0..size).await?;
        while reader.next().await?.is_some() {}
    }
    Ok(())
}

/// Verifies a body in a pack file. All bytes of the pack file are verified once; if some are damaged, each body is
/// read.
async fn verify_slice(
    catalog: &Arc<AnyCatalog>,
    blobs: &Blobs,
    slice: &Slice,
    pack_files: &mut PackFiles,
) -> Result<(), Problem> {
    let live = catalog.get(&keys::pack_file(&slice.pack_file)).ok().flatten();
    let Some(live) = live.and_then(|row| Live::decode(&row.head)) else {
        let name = text(&slice.pack_file);
        return Err(Problem::Damaged(format!("pack file {name} is not in the catalog")));
    };
    if let std::collections::btree_map::Entry::Vacant(entry) = pack_files.0.entry(slice.pack_file) {
        entry.insert((0, verify_blob(catalog, blobs, &slice.pack_file, live.size).await));
    }
    let Some((objects, verified)) = pack_files.0.get_mut(&slice.pack_file) else { return Ok(()) };
    *objects += 1;
    if verified.is_ok() {
        return Ok(());
    }
    let head = find_blob(&**catalog, &slice.pack_file).map(|(head, _)| head);
    for location in head.map(|head| head.locations).unwrap_or_default() {
        blobs.read_slice(&location, live.size, slice).await?;
    }
    Ok(())
}

/// Reads an object completely.
async fn verify_object(
    catalog: &Arc<AnyCatalog>,
    blobs: &Blobs,
    key: &[u8],
    row: &crate::catalog::Row,
    pack_files: &mut PackFiles,
) -> Result<(), Problem> {
    let value = catalog.value(key, row).map_err(Problem::damaged)?;
    let head = Head::decode(&row.head).ok_or_else(|| Problem::damaged("the row has an unknown encoding"))?;
    if head.marker {
        return Ok(());
    }
    let properties = Properties::decode(&value.properties);
    let properties = properties.ok_or_else(|| Problem::damaged("the properties have an unknown encoding"))?;
    match &head.body {
        Body::Inline => Ok(()),
        Body::Blob(name) => verify_blob(catalog, blobs, name, head.size).await,
        Body::Slice(slice) => verify_slice(catalog, blobs, slice, pack_files).await,
        Body::Pieces => {
            for piece in &properties.pieces {
                let Piece::Blob(name, size) = piece else { continue };
                verify_blob(catalog, blobs, name, *size).await?;
            }
            Ok(())
        }
    }
}
