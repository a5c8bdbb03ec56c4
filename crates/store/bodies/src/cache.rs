//! Cache of slices of pack files, in memory and on a local disk.
//!
//! SliceReader are immutable and their places are never used again, so an entry cannot be outdated. Readers verify the
//! checksum of an entry, so a damaged one is read again from its tier.

use std::io::{Read, Write};
use std::path::PathBuf;

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, Code, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, LfuConfig,
};

use super::pack_file::Slice;
use crate::name::BlobName;
use plimsoll_catalog::blocking::block_on;

/// Sizes of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// Capacity in memory in bytes.
    pub memory: u64,
    /// Directory and capacity in bytes of the cache on a disk; `None` if there is none.
    pub disk: Option<(PathBuf, u64)>,
}

/// Capacity in memory without settings, in bytes.
const DEFAULT_MEMORY: u64 = 64 << 20;
/// Bytes that the cache needs for each entry, estimated.
const OVERHEAD: usize = 128;

impl Default for CacheSettings {
    fn default() -> CacheSettings {
        CacheSettings { memory: DEFAULT_MEMORY, disk: None }
    }
}

/// Location of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    pack_file: BlobName,
    offset: u64,
}

impl Code for Key {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        writer.write_all(&self.pack_file).map_err(foyer::Error::io_error)?;
        writer.write_all(&self.offset.to_le_bytes()).map_err(foyer::Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Key> {
        let (mut pack_file, mut offset) = ([0; 16], [0; 8]);
        reader.read_exact(&mut pack_file).map_err(foyer::Error::io_error)?;
        reader.read_exact(&mut offset).map_err(foyer::Error::io_error)?;
        Ok(Key { pack_file, offset: u64::from_le_bytes(offset) })
    }

    fn estimated_size(&self) -> usize {
        24
    }
}

/// A cache of slices.
pub struct Cache {
    /// `None` if the capacity in memory is 0 and there is no disk.
    entries: Option<HybridCache<Key, Bytes>>,
    has_disk: bool,
    /// Threads that read and write the disk.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Cache {
    /// Opens a cache. A cache on a disk has the entries of earlier processes.
    ///
    /// # Errors
    /// A message if the directory cannot be used.
    pub fn open(settings: &CacheSettings) -> Result<Cache, String> {
        if settings.memory == 0 && settings.disk.is_none() {
            return Ok(Cache { entries: None, has_disk: false, runtime: None });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("cache")
            .enable_all()
            .build()
            .map_err(|e| e.to_string())?;
        let memory = usize::try_from(settings.memory).unwrap_or(usize::MAX);
        let builder = HybridCacheBuilder::new()
            .memory(memory)
            .with_shards(8)
            .with_eviction_config(LfuConfig::default())
            .with_weighter(|_: &Key, body: &Bytes| body.len() + OVERHEAD)
            .storage()
            .with_spawner(runtime.handle().clone().into());
        let builder = match &settings.disk {
            None => builder,
            Some((directory, capacity)) => {
                let place = |e: &dyn std::fmt::Display| format!("{}: {e}", directory.display());
                let device = FsDeviceBuilder::new(directory)
                    .with_capacity(usize::try_from(*capacity).unwrap_or(usize::MAX))
                    .build()
                    .map_err(|e| place(&e))?;
                builder.with_engine_config(BlockEngineConfig::new(device))
            }
        };
        let entries = block_on(builder.build()).map_err(|e| e.to_string())?;
        Ok(Cache { entries: Some(entries), has_disk: settings.disk.is_some(), runtime: Some(runtime) })
    }

    /// Returns the bytes of a slice, which may be damaged. An error of the cache is a miss.
    pub async fn get(&self, slice: &Slice) -> Option<Bytes> {
        let key = Key { pack_file: slice.pack_file, offset: slice.offset };
        let entries = self.entries.as_ref()?;
        if !self.has_disk {
            return entries.memory().get(&key).map(|entry| entry.value().clone());
        }
        entries.get(&key).await.ok().flatten().map(|entry| entry.value().clone())
    }

    /// Adds a body. The bytes are copied, so that they do not hold a larger buffer in memory.
    pub fn insert(&self, pack_file: BlobName, offset: u64, body: &[u8]) {
        if let Some(entries) = &self.entries {
            entries.insert(Key { pack_file, offset }, Bytes::copy_from_slice(body));
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(entries) = self.entries.as_ref().filter(|_| self.has_disk)
            && let Err(error) = block_on(entries.close())
        {
            plimsoll_catalog::log::warn(&format!("the cache was not written: {error}"));
        }
        runtime.shutdown_background();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::directory::TempDir;

    fn slice(offset: u64) -> Slice {
        Slice { pack_file: [1; 16], offset, size: 4, crc: 0 }
    }

    #[test]
    fn the_cache_in_memory_is_bounded() {
        let cache = Cache::open(&CacheSettings { memory: 100_000, disk: None }).unwrap();
        for offset in 0..10_000 {
            cache.insert([1; 16], offset, b"body");
        }
        let mut found = 0;
        for offset in 0..10_000 {
            found += u64::from(block_on(cache.get(&slice(offset))).is_some_and(|body| body == "body"));
        }
        assert!((100..1000).contains(&found), "{found}");
    }

    #[test]
    fn a_cache_without_capacity_is_empty() {
        let cache = Cache::open(&CacheSettings { memory: 0, disk: None }).unwrap();
        cache.insert([1; 16], 0, b"body");
        assert_eq!(block_on(cache.get(&slice(0))), None);
    }

    #[test]
    fn the_cache_on_a_disk_survives_a_restart() {
        let dir = TempDir::new("cache");
        let settings = CacheSettings { memory: 1 << 20, disk: Some((dir.path().join("cache"), 64 << 20)) };
        let cache = Cache::open(&settings).unwrap();
        cache.insert([1; 16], 7, b"body");
        drop(cache);
        let cache = Cache::open(&settings).unwrap();
        let found = block_on(cache.get(&slice(7)));
        assert_eq!(found.as_deref(), Some(&b"body"[..]));
        assert_eq!(block_on(cache.get(&slice(8))), None);
    }
}
