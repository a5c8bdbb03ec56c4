//! Blobs: immutable objects of a backend with one body each, written and read as streams.
//!
//! The catalog stores a CRC-32C of every [`CHUNK`] bytes of a blob. A read verifies each chunk before it hands out a
//! byte of it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use object_store::ObjectStoreExt;
use plimsoll_base::net::encode::hex;

use super::cache::Cache;
use super::chunks::PART;
use super::error::BlobError;
use super::pack_file::Slice;
use super::read_memory::ReadMemory;
use super::reader::BlobReader;
use super::slices::SliceReader;
use super::writer::BlobCopy;
pub use super::writer::{Appearance, BlobWriter};
use crate::location::Location;
use crate::name::BlobName;
use crate::tier::{Tier, Tiers};

/// Length of a part of an upload to a remote backend in bytes: at least 5 MiB, as S3 requires.
const REMOTE_PART: usize = 8 << 20;

/// Returns the name as text.
pub fn text(name: &BlobName) -> String {
    hex(name)
}

/// Returns the length of a part of an upload in bytes.
pub fn part_bytes(is_local: bool) -> u64 {
    if is_local { PART as u64 } else { REMOTE_PART as u64 }
}

/// Blobs in all tiers.
#[derive(Clone)]
pub struct Blobs {
    tiers: Tiers,
    pub(super) slices: Arc<SliceReader>,
    /// Memory of bodies that are being read.
    pub memory: ReadMemory,
}

impl Blobs {
    /// Creates a view of tiers, with a cache of slices.
    pub fn new(tiers: Tiers, cache: Cache) -> Blobs {
        Blobs { tiers, slices: Arc::new(SliceReader::new(cache)), memory: ReadMemory::default() }
    }

    /// Returns the same view with another limit of the memory of reads.
    pub fn with_memory(self, memory: ReadMemory) -> Blobs {
        Blobs { memory, ..self }
    }

    /// Returns true if a tier is not a directory.
    pub fn have_remote_tiers(&self) -> bool {
        self.tiers.iter().any(|(_, tier)| tier.directory.is_none())
    }

    /// Returns the tiers.
    pub fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    pub(super) fn tier(&self, location: &Location) -> Result<&Tier, BlobError> {
        self.tiers.get(location.tier).ok_or(BlobError::NoTier(location.tier))
    }

    /// Starts to write a blob to all these places. A small blob is written with one request to each.
    ///
    /// # Errors
    /// If a tier is not in the settings.
    pub fn create(&self, locations: &[Location]) -> Result<BlobWriter, BlobError> {
        self.create_with(locations, &Appearance::default())
    }

    /// Starts to write a blob whose backends' objects have these properties.
    ///
    /// # Errors
    /// If a tier is not in the settings.
    pub fn create_with(
        &self,
        locations: &[Location],
        appearance: &Appearance,
    ) -> Result<BlobWriter, BlobError> {
        let mut targets = Vec::new();
        let mut part = PART;
        for location in locations {
            part = part.max(self.part_bytes(location.tier) as usize);
            targets.push(BlobCopy::new(self.tier(location)?.clone(), location.path(), appearance));
        }
        Ok(BlobWriter::new(targets, appearance.parts.clone(), part))
    }

    /// Deletes the bytes at a place; missing ones are not an error.
    ///
    /// # Errors
    /// If the backend fails.
    pub async fn delete(&self, location: &Location) -> Result<(), BlobError> {
        let tier = self.tier(location)?;
        match tier.store.delete(&location.path()).await {
            Err(object_store::Error::NotFound { .. }) => {}
            result => result?,
        }
        if let Some(directory) = &tier.directory {
            // A killed process leaves the file that it was writing.
            let unfinished = directory.join(format!("{}#1", location.path()));
            match std::fs::remove_file(unfinished) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Deletes the bytes at places of one tier, many with one request if the tier has such requests; missing ones are
    /// not an error. Returns the places that have no bytes any more, and the first error.
    pub async fn delete_all(&self, tier: u16, places: &[Location]) -> (HashSet<Location>, Option<BlobError>) {
        let Some(found) = self.tiers.get(tier) else {
            return (HashSet::new(), Some(BlobError::NoTier(tier)));
        };
        let (mut deleted, mut first) = (HashSet::new(), None);
        if found.directory.is_some() {
            for place in places {
                match self.delete(place).await {
                    Ok(()) => {
                        deleted.insert(place.clone());
                    }
                    Err(error) => first = first.or(Some(error)),
                }
            }
            return (deleted, first);
        }
        let by_path: HashMap<String, &Location> =
            places.iter().map(|place| (place.path().to_string(), place)).collect();
        let paths: Vec<_> = places.iter().map(|place| Ok(place.path())).collect();
        let mut results = found.store.delete_stream(stream::iter(paths).boxed());
        while let Some(result) = results.next().await {
            match result {
                Ok(path) => deleted.extend(by_path.get(path.as_ref()).map(|place| (*place).clone())),
                // The error names the object with the prefix of the tier.
                Err(object_store::Error::NotFound { path, .. }) => {
                    let missing = by_path.iter().find(|(own, _)| path.ends_with(own.as_str()));
                    deleted.extend(missing.map(|(_, place)| (*place).clone()));
                }
                Err(error) => first = first.or(Some(error.into())),
            }
        }
        (deleted, first)
    }

    /// Returns true if there are bytes at a place.
    ///
    /// # Errors
    /// If the backend fails.
    pub async fn exists(&self, location: &Location) -> Result<bool, BlobError> {
        match self.tier(location)?.store.head(&location.path()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a range of the bytes at a place, without verification.
    ///
    /// # Errors
    /// If the backend fails, or has fewer bytes.
    pub async fn read_range(&self, location: &Location, range: Range<u64>) -> Result<Bytes, BlobError> {
        let length = range.end - range.start;
        let bytes = self.tier(location)?.store.get_range(&location.path(), range).await?;
        if bytes.len() as u64 != length {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        Ok(bytes)
    }

    /// Returns the length of a part of an upload to a tier in bytes. A blob that is smaller is one request.
    pub fn part_bytes(&self, tier: u16) -> u64 {
        part_bytes(self.tiers.get(tier).is_some_and(|tier| tier.directory.is_some()))
    }

    /// Returns the body of a slice if it is in memory or in the cache.
    pub async fn cached_slice(&self, slice: &Slice) -> Option<Bytes> {
        self.slices.cached(slice).await
    }

    /// Reads a slice at a place of its pack file, of `size` bytes.
    ///
    /// # Errors
    /// If the bytes are damaged or the backend fails.
    pub async fn read_slice(
        &self,
        location: &Location,
        size: u64,
        slice: &Slice,
    ) -> Result<Bytes, BlobError> {
        let tier = self.tier(location)?;
        let read = self.slices.read(&tier.store, location, size, slice).await;
        self.unless_lost(tier, read).await
    }

    /// Returns a reader of a byte range of the bytes at a place, which have these checksums.
    ///
    /// # Errors
    /// If the blob does not exist or the backend fails.
    pub async fn open(
        &self,
        location: &Location,
        size: u64,
        crcs: Arc<[u32]>,
        range: Range<u64>,
    ) -> Result<BlobReader, BlobError> {
        let tier = self.tier(location)?;
        let opened = BlobReader::open(&*tier.store, location, size, crcs, range, self.memory.clone()).await;
        self.unless_lost(tier, opened).await
    }

    /// Does not take a blob for damaged that is missing because its tier is another place than before.
    async fn unless_lost<T>(&self, tier: &Tier, read: Result<T, BlobError>) -> Result<T, BlobError> {
        match read {
            Err(error) if error.is_missing() && tier.has_lost_record().await => {
                Err(BlobError::NoRecord(tier.name.clone()))
            }
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::new_name;
    use crate::tier::Backend;
    use object_store::ObjectStore;
    use object_store::local::LocalFileSystem;
    use object_store::memory::InMemory;
    use plimsoll_testing::directory::TempDir;

    async fn read(blobs: &Blobs, place: &Location, crcs: &[u32], size: u64, range: Range<u64>) -> Vec<u8> {
        let mut reader = blobs.open(place, size, crcs.into(), range).await.unwrap();
        let mut out = Vec::new();
        while let Some(bytes) = reader.next().await.unwrap() {
            out.extend_from_slice(&bytes);
        }
        out
    }

    async fn any_range_is_read(store: Arc<dyn ObjectStore>, memory: ReadMemory) {
        let other: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let tiers =
            [("first", store), ("second", other)].map(|(name, store)| Tier::new(name, Backend::new(store)));
        let cache = Cache::open(&Default::default()).unwrap();
        let blobs = Blobs::new(Tiers::new((0..).zip(tiers).collect()), cache).with_memory(memory);
        let places = [0, 1].map(|tier| Location::new(tier, new_name()));
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut writer = blobs.create(&places).unwrap();
        for piece in data.chunks(100_001) {
            writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        let (size, crcs) = writer.finish(None).await.unwrap();
        assert_eq!((size, crcs.len()), (3_000_000, 23));
        for (place, range) in places.iter().flat_map(|place| [(place, 0..3_000_000), (place, 7..8)]) {
            assert_eq!(
                read(&blobs, place, &crcs, size, range.clone()).await,
                data[range.start as usize..range.end as usize]
            );
        }
        let place = places[0].clone();
        for range in [0..3_000_000, 0..1, 131_071..131_073, 2_999_999..3_000_000, 1_000_000..2_500_000] {
            let bytes = read(&blobs, &place, &crcs, size, range.clone()).await;
            assert_eq!(bytes, data[range.start as usize..range.end as usize], "{range:?}");
        }
        let mut wrong = crcs.clone();
        wrong[1] ^= 1;
        let mut reader = blobs.open(&place, size, wrong.into(), 0..size).await.unwrap();
        let mut intact = 0;
        let error = loop {
            match reader.next().await {
                Ok(bytes) => intact += bytes.unwrap().len(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, BlobError::Damaged { offset: 131_072, .. }) && intact <= 131_072);
        for _ in 0..2 {
            blobs.delete(&place).await.unwrap();
        }
        assert!(blobs.open(&place, size, crcs.into(), 0..1).await.is_err());
        let nowhere = Location { tier: 9, ..place };
        assert!(matches!(blobs.delete(&nowhere).await, Err(BlobError::NoTier(9))));
    }

    #[tokio::test]
    async fn any_range_of_a_blob_is_read_and_verified() {
        let directory = TempDir::new("blobs");
        let local = LocalFileSystem::new_with_prefix(directory.path()).unwrap().with_fsync(true);
        let local = Arc::new(local);
        for memory in [ReadMemory::default(), ReadMemory::with(300_000, 0), ReadMemory::with(0, 0)] {
            any_range_is_read(Arc::clone(&local) as Arc<dyn ObjectStore>, memory).await;
        }
        any_range_is_read(Arc::new(InMemory::new()), ReadMemory::default()).await;
    }

    #[test]
    fn names_are_unique_and_sort_by_time() {
        let names: Vec<BlobName> = (0..1000).map(|_| new_name()).collect();
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), 1000);
        assert!(names[0][..6] <= names[999][..6] && names[0][6] >> 4 == 7);
    }
}
