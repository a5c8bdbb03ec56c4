//! The objects that the blobs of all tiers describe.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::stream::{StreamExt, TryStreamExt, iter};

use super::ReattachError;
use super::attached::Attached;
use crate::sweep;
use plimsoll_bodies::blob::Blobs;
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::Location;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::name::CatalogId;
use plimsoll_bodies::pack_file::{Records, START, Slice, decode};
use plimsoll_bodies::tier::Tier;
use plimsoll_bodies::trailer::{Description, Kind, Parsed, Trailer, parse};
use plimsoll_catalog::Value;
use plimsoll_objects::row::{Body, Head, Piece, Properties};

/// Bytes at the end of a blob that are read first.
const TAIL: u64 = 4096;
/// Number of blobs that are read at a time.
const IN_FLIGHT: usize = 32;

/// A blob in the tiers.
#[derive(Debug, Clone)]
pub struct FoundBlob {
    /// Places of the bytes, from the newest to the oldest.
    pub places: Vec<Location>,
    /// Size of the body in bytes.
    pub size: u64,
    /// CRC-32C of each chunk of the body.
    pub crcs: Vec<u32>,
}

/// A pack file in the tiers.
#[derive(Debug, Clone, Copy)]
pub struct FoundPackFile {
    /// Number of bodies.
    pub records: u64,
    /// Size of the bodies in bytes.
    pub bytes: u64,
}

/// A version of an object as its blob or its pack file describes it.
#[derive(Debug, Clone)]
pub struct FoundVersion {
    /// Head of the row.
    pub head: Head,
    /// Properties and inline body of the row. The head is not encoded.
    pub value: Value,
    /// Blobs of the body.
    pub blobs: Vec<BlobName>,
}

impl FoundVersion {
    /// Returns what stays the same when the body of a version moves or is packed.
    pub fn identity(&self) -> (i64, [u8; 16], u64) {
        (self.head.modified_ms, self.head.md5, self.head.size)
    }

    /// Returns the rank among descriptions of the same version: a pack file is newer than the blob that it has
    /// replaced, and names sort by time.
    fn rank(&self) -> (bool, Option<BlobName>) {
        (matches!(self.head.body, Body::Slice(_)), self.blobs.first().copied())
    }
}

/// Blobs, pack files and versions in the tiers.
#[derive(Debug, Default)]
pub struct Inventory {
    /// Blobs and pack files by name.
    pub blobs: BTreeMap<BlobName, FoundBlob>,
    /// Pack files by name.
    pub pack_files: BTreeMap<BlobName, FoundPackFile>,
    /// Versions by bucket and key, from the oldest to the newest.
    pub versions: BTreeMap<(String, String), Vec<FoundVersion>>,
    /// Objects of the gateway in each tier.
    pub objects: BTreeMap<u16, BTreeSet<BlobName>>,
    /// Number of objects without an intact trailer: unfinished, damaged, or of a version without trailers.
    pub unidentified: u64,
    /// Number of objects of other catalogs.
    pub foreign: u64,
}

/// A blob or a pack file that was read.
enum Found {
    Blob(Location, Box<Trailer>),
    PackFile(Location, Box<Trailer>, Bytes),
    Unidentified,
}

async fn tail(blobs: &Blobs, place: &Location, size: u64) -> Result<Parsed, BlobError> {
    let mut length = TAIL.min(size);
    loop {
        let parsed = parse(&blobs.read_range(place, size - length..size).await?, size);
        match parsed {
            // The length is not verified yet. The bounds end the loop, whatever a damaged object says.
            Parsed::Longer(needed) if needed > length && needed <= size => length = needed,
            parsed => return Ok(parsed),
        }
    }
}

async fn read(blobs: &Blobs, tier: u16, name: BlobName, size: u64) -> Result<Found, BlobError> {
    let place = Location::new(tier, name);
    // An empty range is not a valid one.
    if size == 0 {
        return Ok(Found::Unidentified);
    }
    let trailer = match tail(blobs, &place, size).await {
        Ok(Parsed::Trailer(trailer)) => trailer,
        Ok(_) => return Ok(Found::Unidentified),
        // It was deleted after the listing.
        Err(error) if error.is_missing() => return Ok(Found::Unidentified),
        Err(error) => return Err(error),
    };
    if trailer.description.kind != Kind::PackFile {
        return Ok(Found::Blob(place, trailer));
    }
    // The trailer of a pack file names no objects, so its records are read.
    let bytes = blobs.read_range(&place, 0..trailer.size).await?;
    Ok(Found::PackFile(place, trailer, bytes))
}

/// Returns the version that a blob describes; `None` if it is only a piece.
fn version_of(description: Description) -> Option<((String, String), FoundVersion)> {
    let mut head = Head::decode(&description.head)?;
    let properties = Properties::decode(&description.properties)?;
    let blobs = match description.kind {
        Kind::Object => {
            head.body = Body::Blob(description.blob);
            vec![description.blob]
        }
        Kind::Manifest => {
            let blob = |piece: &Piece| if let Piece::Blob(name, _) = piece { Some(*name) } else { None };
            properties.pieces.iter().filter_map(blob).collect()
        }
        Kind::Piece | Kind::PackFile => return None,
    };
    let Description { bucket, key, properties, inline, .. } = description;
    let value = Value { head: Bytes::new(), properties, body: inline };
    Some(((bucket, key), FoundVersion { head, value, blobs }))
}

impl Inventory {
    /// Reads the tiers. If the id of the catalog is given, blobs of others are only counted.
    ///
    /// # Errors
    /// If a tier fails.
    pub async fn take(
        blobs: &Blobs,
        catalog: Option<CatalogId>,
        tell: &dyn Fn(&Tier, usize),
    ) -> Result<Inventory, ReattachError> {
        let mut inventory = Inventory::default();
        for (number, tier) in blobs.tiers().iter() {
            let failed = |error: BlobError| ReattachError::Tier { tier: tier.name.clone(), error };
            let listed = sweep::list(&*tier.store).await.map_err(|error| failed(error.into()))?;
            tell(tier, listed.len());
            // All names, also those of damaged objects: a blob loses a place only if nothing exists there.
            inventory.objects.insert(number, listed.keys().copied().collect());
            let found = iter(listed).map(|(name, size)| read(blobs, number, name, size));
            let mut found = found.buffer_unordered(IN_FLIGHT);
            while let Some(found) = found.try_next().await.map_err(failed)? {
                inventory.add(found, catalog);
            }
        }
        // After all tiers, because the copies of a blob may be in several of them.
        inventory.sort();
        Ok(inventory)
    }

    fn add(&mut self, found: Found, catalog: Option<CatalogId>) {
        let (place, trailer, records) = match found {
            Found::Unidentified => {
                self.unidentified += 1;
                return;
            }
            Found::Blob(place, trailer) => (place, trailer, None),
            Found::PackFile(place, trailer, bytes) => (place, trailer, Some(bytes)),
        };
        if catalog.is_some_and(|id| id != trailer.description.catalog) {
            self.foreign += 1;
            return;
        }
        let Trailer { description, size, crcs } = *trailer;
        let blob = description.blob;
        let is_copy = self.blobs.contains_key(&blob);
        let known = self.blobs.entry(blob).or_insert_with(|| FoundBlob { places: Vec::new(), size, crcs });
        known.places.push(place);
        match records {
            // A copy has the same records.
            Some(_) if is_copy => {}
            Some(bytes) => self.add_records(blob, bytes),
            // A copy that a move has made knows the generation that the version got in the end.
            None => {
                if let Some((key, version)) = version_of(description) {
                    self.versions.entry(key).or_default().push(version);
                }
            }
        }
    }

    fn add_records(&mut self, pack_file: BlobName, bytes: Bytes) {
        let mut found = FoundPackFile { records: 0, bytes: 0 };
        if bytes.starts_with(START) {
            for record in Records::new(bytes.slice(START.len()..), START.len() as u64) {
                // Before the header is decoded: these counts are those of the whole file (`Live::records`).
                found.records += 1;
                found.bytes += record.body.len() as u64;
                // `Records` has verified the body by its own checksum, so the new one is that of the intact bytes.
                let slice = Slice {
                    pack_file,
                    offset: record.offset,
                    size: record.body.len() as u64,
                    crc: plimsoll_catalog::embedded::record::crc32c(&record.body),
                };
                let Some(header) = decode(&record.header) else { continue };
                let Some(head) = Head::decode(header.head) else { continue };
                let head = Head { body: Body::Slice(slice), ..head };
                let properties = Bytes::copy_from_slice(header.properties);
                let value = Value { head: Bytes::new(), properties, body: Bytes::new() };
                let version = FoundVersion { head, value, blobs: vec![pack_file] };
                self.versions.entry((header.bucket.into(), header.key.into())).or_default().push(version);
            }
        }
        self.pack_files.insert(pack_file, found);
    }

    /// Keeps one description of each version, and sorts places and versions.
    fn sort(&mut self) {
        for blob in self.blobs.values_mut() {
            // Reads use the first place, and after a move the source behind it may be deleted.
            blob.places.sort_by_key(|place| std::cmp::Reverse(place.written_ms()));
        }
        for versions in self.versions.values_mut() {
            let mut best: BTreeMap<_, FoundVersion> = BTreeMap::new();
            for version in versions.drain(..) {
                let identity = version.identity();
                let generation = version.head.generation;
                let kept = match best.remove(&identity) {
                    Some(other) if other.rank() > version.rank() => other,
                    Some(other) => with_generation(version, other.head.generation),
                    None => version,
                };
                best.insert(identity, with_generation(kept, generation));
            }
            versions.extend(best.into_values());
            // `attach` writes the versions in this order, so that the newest one becomes current.
            versions.sort_by_key(|version| version.head.generation);
        }
    }

    /// Counts what would be attached to an empty catalog: the newest complete version of each key as an object, and its
    /// other versions as older ones.
    pub fn newest(&self) -> Attached {
        let mut counts = Attached { unidentified: self.unidentified, ..Attached::default() };
        let mut buckets = BTreeSet::new();
        for ((bucket, key), versions) in &self.versions {
            buckets.insert(bucket);
            let complete = versions.iter().filter(|version| self.is_complete(version));
            if let Some(newest) = complete.clone().last() {
                counts.objects += 1;
                counts.bytes += newest.head.size;
            }
            counts.older += (complete.count() as u64).saturating_sub(1);
            if versions.iter().any(|version| !self.is_complete(version)) {
                counts.incomplete.push(format!("{bucket}/{key}"));
            }
        }
        counts.buckets = buckets.len() as u64;
        counts
    }

    /// Returns true if all blobs of a version were found.
    pub fn is_complete(&self, version: &FoundVersion) -> bool {
        version.blobs.iter().all(|name| self.blobs.contains_key(name))
    }
}

/// Raises the generation of a version: the one in a trailer may be lower than the one that the version got in the end.
fn with_generation(mut version: FoundVersion, generation: u64) -> FoundVersion {
    version.head.generation = version.head.generation.max(generation);
    version
}
