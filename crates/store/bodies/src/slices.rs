//! Reads of slices of pack files: through the cache, with one request for neighbours that are read one after the other.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::sync::watch;

use super::cache::Cache;
use super::error::BlobError;
use super::location::Location;
use super::pack_file::Slice;
use crate::name::BlobName;

/// Largest distance in bytes between neighbouring reads, in both directions: concurrent reads arrive in any order.
const NEAR: u64 = 64 << 10;
/// Number of reads of neighbours after which more neighbours are read ahead. Reads of random objects seldom reach it.
const STREAK: u32 = 3;
/// Bytes that are read ahead at first, and at most.
const WINDOW: Range<u64> = 64 << 10..1 << 20;
/// Bytes that were read ahead and are kept in memory, besides the cache.
const MAX_AHEAD: usize = 32 << 20;
/// Number of pack files whose last reads are known.
const MAX_PACK_FILES: usize = 256;

/// Reads of neighbours.
#[derive(Debug, Clone, Copy, Default)]
struct Streak {
    /// End of the last read.
    end: u64,
    /// Number of reads after the first one.
    count: u32,
    /// Bytes that were read ahead last.
    window: u64,
}

/// The last reads of a pack file.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    streaks: [Streak; 4],
    /// Streak that the next distant read replaces.
    next: usize,
}

impl Recent {
    /// Returns the index of the streak that a read continues.
    fn near(&self, slice: &Slice) -> Option<usize> {
        let is_near = |streak: &Streak| streak.end > 0 && slice.offset.abs_diff(streak.end) <= NEAR;
        self.streaks.iter().position(is_near)
    }

    /// Returns the streak of a read.
    fn streak(&mut self, slice: &Slice) -> &mut Streak {
        if self.near(slice).is_none() {
            self.note(slice);
        }
        let index = self.near(slice).unwrap_or(0);
        &mut self.streaks[index]
    }

    /// Records a read.
    fn note(&mut self, slice: &Slice) {
        let near = self.near(slice);
        let index = near.unwrap_or(self.next);
        if near.is_none() {
            self.next = (self.next + 1) % self.streaks.len();
            self.streaks[index] = Streak::default();
        }
        let streak = &mut self.streaks[index];
        streak.count += u32::from(near.is_some());
        streak.end = slice.offset + slice.size;
    }
}

/// A range of a pack file that is being read.
struct Flight {
    pack_file: BlobName,
    range: Range<u64>,
    ended: watch::Receiver<()>,
}

/// A range of a pack file that was read ahead.
struct Window {
    pack_file: BlobName,
    /// Offset of the bytes in the pack file.
    at: u64,
    bytes: Bytes,
}

impl Window {
    fn get(&self, slice: &Slice) -> Option<Bytes> {
        let start = slice.offset.checked_sub(self.at).filter(|_| self.pack_file == slice.pack_file)?;
        let (start, size) = (usize::try_from(start).ok()?, usize::try_from(slice.size).ok()?);
        let end = start.checked_add(size).filter(|end| *end <= self.bytes.len())?;
        Some(self.bytes.slice(start..end))
    }
}

#[derive(Default)]
struct State {
    recent: HashMap<BlobName, Recent>,
    flights: Vec<Flight>,
    /// From the one that was used the longest time ago to the last one.
    windows: VecDeque<Window>,
}

impl State {
    /// Returns the bytes of a slice that was read ahead.
    fn ahead(&mut self, slice: &Slice) -> Option<Bytes> {
        let (index, bytes) =
            self.windows.iter().enumerate().find_map(|(index, window)| Some((index, window.get(slice)?)))?;
        let window = self.windows.remove(index)?;
        self.windows.push_back(window);
        Some(bytes)
    }

    /// Keeps a range that was read ahead, and drops the oldest ones.
    fn keep(&mut self, window: Window) {
        self.windows.push_back(window);
        let mut total: usize = self.windows.iter().map(|window| window.bytes.len()).sum();
        while total > MAX_AHEAD
            && let Some(oldest) = self.windows.pop_front()
        {
            total -= oldest.bytes.len();
        }
    }
}

/// Reader of slices, shared by all requests.
pub struct SliceReader {
    cache: Cache,
    state: Mutex<State>,
}

/// A permission to read a range. Others wait for its end instead of reading the same range.
struct Ticket<'a> {
    slices: &'a SliceReader,
    pack_file: BlobName,
    range: Range<u64>,
    _end: watch::Sender<()>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let (pack_file, range) = (self.pack_file, &self.range);
        self.slices.lock().flights.retain(|flight| flight.pack_file != pack_file || flight.range != *range);
    }
}

/// The next step of a read that the cache cannot answer.
enum Step<'a> {
    /// Another read has requested the range.
    Wait(watch::Receiver<()>),
    Read(Ticket<'a>),
}

impl SliceReader {
    /// Creates a reader over a cache.
    pub fn new(cache: Cache) -> SliceReader {
        SliceReader { cache, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the body if it is in memory or in the cache, and intact.
    pub async fn cached(&self, slice: &Slice) -> Option<Bytes> {
        let ahead = {
            let mut state = self.lock();
            if let Some(recent) = state.recent.get_mut(&slice.pack_file) {
                recent.note(slice);
            }
            state.ahead(slice)
        };
        match ahead.filter(|body| slice.is_intact(body)) {
            // Bodies that are read in their order are seldom read again soon, so they do not displace others.
            Some(body) => Some(body),
            None => self.cache.get(slice).await.filter(|body| slice.is_intact(body)),
        }
    }

    /// Decides whether to read, and how far, or to wait for another read.
    fn step(&self, slice: &Slice) -> Step<'_> {
        let end = slice.offset + slice.size;
        let mut state = self.lock();
        let covers = |flight: &&Flight| {
            flight.pack_file == slice.pack_file
                && flight.range.start <= slice.offset
                && flight.range.end >= end
        };
        if let Some(flight) = state.flights.iter().find(covers) {
            return Step::Wait(flight.ended.clone());
        }
        if state.recent.len() >= MAX_PACK_FILES {
            state.recent.clear();
        }
        let recent = state.recent.entry(slice.pack_file).or_default();
        // The look into the cache has recorded this read, unless it is the first one in the pack file.
        let streak = recent.streak(slice);
        if streak.count >= STREAK {
            streak.window = (streak.window * 2).clamp(WINDOW.start, WINDOW.end);
        }
        let range = slice.offset..end.max(slice.offset + streak.window);
        let (sender, ended) = watch::channel(());
        state.flights.push(Flight { pack_file: slice.pack_file, range: range.clone(), ended });
        Step::Read(Ticket { slices: self, pack_file: slice.pack_file, range, _end: sender })
    }

    /// Reads a slice at a place of its pack file, of `size` bytes in `store`, and keeps it and what was read ahead.
    ///
    /// # Errors
    /// If the bytes are damaged or the backend fails.
    pub async fn read(
        &self,
        store: &dyn ObjectStore,
        location: &Location,
        size: u64,
        slice: &Slice,
    ) -> Result<Bytes, BlobError> {
        let ticket = loop {
            match self.step(slice) {
                Step::Read(ticket) => break ticket,
                Step::Wait(mut ended) => {
                    // The sender is dropped at the end of the other read.
                    let _ = ended.changed().await;
                    if let Some(body) = self.cached(slice).await {
                        return Ok(body);
                    }
                }
            }
        };
        let range = ticket.range.start..ticket.range.end.min(size);
        let bytes = store.get_range(&location.path(), range).await?;
        let damaged = || BlobError::Damaged { name: location.to_string(), offset: slice.offset };
        let length = usize::try_from(slice.size).map_err(|_| damaged())?;
        let body = bytes.get(..length).filter(|body| slice.is_intact(body)).ok_or_else(damaged)?;
        if bytes.len() > length {
            let window = Window { pack_file: slice.pack_file, at: slice.offset, bytes: bytes.clone() };
            self.lock().keep(window);
        } else {
            self.cache.insert(slice.pack_file, slice.offset, body);
        }
        Ok(bytes.slice(..length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use bytes::BytesMut;
    use futures_util::future::join_all;
    use object_store::memory::InMemory;
    use plimsoll_base::provider::calls::Call;

    use crate::blob::Blobs;
    use crate::cache::CacheSettings;
    use crate::name::new_name;
    use crate::pack_file::{Header, START};
    use crate::tier::counted::TierUsage;
    use crate::tier::{Backend, Tier, Tiers};

    struct World {
        blobs: Blobs,
        usage: Arc<TierUsage>,
        location: Location,
        size: u64,
        slices: Vec<Slice>,
    }

    /// A pack file with 1,000 bodies of 1 KiB.
    async fn world() -> World {
        let tier = Tier::new("only", Backend::new(Arc::new(InMemory::new())));
        let usage = Arc::clone(&tier.usage);
        let cache = Cache::open(&CacheSettings::default()).unwrap();
        let blobs = Blobs::new(Tiers::new(BTreeMap::from([(0, tier)])), cache);
        let name = new_name();
        let location = Location::new(0, name);
        let mut bytes = BytesMut::from(&START[..]);
        let mut slices = Vec::new();
        for number in 0..1000u32 {
            let body = vec![number as u8; 1024];
            let (key, at) = (number.to_string(), bytes.len() as u64);
            let header = Header { bucket: "b", key: &key, head: b"", properties: b"" };
            let (offset, crc) = header.put(&mut bytes, &body);
            slices.push(Slice { pack_file: name, offset: at + offset, size: 1024, crc });
        }
        let size = bytes.len() as u64;
        blobs.tiers().get(0).unwrap().store.put(&location.path(), bytes.freeze().into()).await.unwrap();
        World { blobs, usage, location, size, slices }
    }

    impl World {
        fn gets(&self) -> u64 {
            self.usage.of(Call::GetObject).requests.load(Ordering::Relaxed)
        }

        async fn read(&self, number: usize) {
            let slice = &self.slices[number];
            let body = match self.blobs.cached_slice(slice).await {
                Some(body) => body,
                None => self.blobs.read_slice(&self.location, self.size, slice).await.unwrap(),
            };
            assert_eq!(body, vec![number as u8; 1024]);
        }
    }

    #[tokio::test]
    async fn neighbours_share_a_request() {
        let world = world().await;
        for number in 0..1000 {
            world.read(number).await;
        }
        let gets = world.gets();
        assert!(gets <= 10, "{gets} requests for 1000 neighbours");
    }

    #[tokio::test]
    async fn neighbours_that_are_read_at_the_same_time_share_requests() {
        let world = world().await;
        for start in (0..1000).step_by(50) {
            join_all((start..start + 50).map(|number| world.read(number))).await;
        }
        let gets = world.gets();
        assert!(gets <= 20, "{gets} requests for 1000 neighbours");
    }

    #[tokio::test]
    async fn a_single_body_is_read_once_and_alone() {
        let world = world().await;
        for _ in 0..3 {
            world.read(500).await;
        }
        assert_eq!(world.gets(), 1);
        assert_eq!(world.blobs.cached_slice(&world.slices[501]).await, None);
    }

    #[tokio::test]
    async fn a_body_with_a_wrong_checksum_is_never_returned() {
        let world = world().await;
        let wrong = Slice { crc: world.slices[7].crc ^ 1, ..world.slices[7] };
        let read = world.blobs.read_slice(&world.location, world.size, &wrong).await;
        assert!(matches!(read, Err(BlobError::Damaged { .. })));
        world.read(7).await;
        assert_eq!(world.blobs.cached_slice(&wrong).await, None);
    }
}
