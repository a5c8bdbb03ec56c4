//! Reads of slices of segments: through the cache, with one request for neighbours that are read one after the other.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use object_store::ObjectStoreExt;
use tokio::sync::watch;

use super::blob::{BlobError, Blobs, path, text};
use super::cache::Cache;
use super::location::{BlobName, Location};
use super::segment::{Records, Slice, TAIL};
use crate::catalog::embedded::record::crc32c;

/// Largest distance in bytes between two reads that are still neighbours.
const NEAR: u64 = 256 << 10;
/// Bytes that are read at a time at the start and at most, if neighbours are read one after the other.
const WINDOW: Range<u64> = 64 << 10..1 << 20;
/// Number of segments whose last reads are known.
const MAX_SEGMENTS: usize = 256;

/// The last reads of a segment.
#[derive(Debug, Clone, Copy, Default)]
struct Recent {
    /// Ends of the last reads in the segment.
    ends: [u64; 4],
    /// End that the next distant read replaces.
    next: usize,
    /// Bytes that the last sequential read has requested.
    window: u64,
}

impl Recent {
    /// Records a read. Returns true if it is near one of the last reads.
    fn note(&mut self, slice: &Slice) -> bool {
        let near = self.ends.iter().position(|end| *end > 0 && slice.offset.abs_diff(*end) <= NEAR);
        let place = near.unwrap_or(self.next);
        if near.is_none() {
            self.next = (self.next + 1) % self.ends.len();
        }
        self.ends[place] = slice.offset + slice.size;
        near.is_some()
    }
}

/// A range of a segment that is being read.
struct Flight {
    segment: BlobName,
    range: Range<u64>,
    ended: watch::Receiver<()>,
}

#[derive(Default)]
struct State {
    recent: HashMap<BlobName, Recent>,
    flights: Vec<Flight>,
}

/// Reader of slices, shared by all requests.
pub struct Slices {
    cache: Cache,
    state: Mutex<State>,
}

/// A permission to read a range. Others wait for its end instead of reading the same range.
struct Ticket<'a> {
    slices: &'a Slices,
    segment: BlobName,
    range: Range<u64>,
    _end: watch::Sender<()>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let (segment, range) = (self.segment, &self.range);
        self.slices.lock().flights.retain(|flight| flight.segment != segment || flight.range != *range);
    }
}

/// The next step of a read that the cache cannot answer.
enum Step<'a> {
    /// Another read has requested the range.
    Wait(watch::Receiver<()>),
    Read(Ticket<'a>),
}

impl Slices {
    /// Creates a reader over a cache.
    pub fn new(cache: Cache) -> Slices {
        Slices { cache, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the body from the cache if it is there and intact.
    async fn cached(&self, slice: &Slice) -> Option<Bytes> {
        self.cache.get(slice).await.filter(|body| is_intact(slice, body))
    }

    fn note(&self, slice: &Slice) {
        let mut state = self.lock();
        if let Some(recent) = state.recent.get_mut(&slice.segment) {
            recent.note(slice);
        }
    }

    /// Decides whether to read, and how far, or to wait for another read.
    fn step(&self, slice: &Slice) -> Step<'_> {
        let end = slice.offset + slice.size + TAIL;
        let mut state = self.lock();
        let covers = |flight: &&Flight| {
            flight.segment == slice.segment && flight.range.start <= slice.offset && flight.range.end >= end
        };
        if let Some(flight) = state.flights.iter().find(covers) {
            let ended = flight.ended.clone();
            if let Some(recent) = state.recent.get_mut(&slice.segment) {
                recent.note(slice);
            }
            return Step::Wait(ended);
        }
        if state.recent.len() >= MAX_SEGMENTS {
            state.recent.clear();
        }
        let recent = state.recent.entry(slice.segment).or_default();
        recent.window = match recent.note(slice) {
            true => (recent.window * 2).clamp(WINDOW.start, WINDOW.end),
            false => 0,
        };
        let range = slice.offset..end.max(slice.offset + recent.window);
        let (sender, ended) = watch::channel(());
        state.flights.push(Flight { segment: slice.segment, range: range.clone(), ended });
        Step::Read(Ticket { slices: self, segment: slice.segment, range, _end: sender })
    }
}

fn is_intact(slice: &Slice, body: &[u8]) -> bool {
    body.len() as u64 == slice.size && crc32c(body) == slice.crc
}

impl Blobs {
    /// Returns the body of a slice from the cache; `None` if it is not there. Waits for a read that will add it.
    pub async fn cached_slice(&self, slice: &Slice) -> Option<Bytes> {
        let body = self.slices.cached(slice).await;
        if body.is_some() {
            self.slices.note(slice);
        }
        body
    }

    /// Reads a slice at a place of its segment, of `size` bytes, and adds it and its neighbours to the cache.
    ///
    /// # Errors
    /// If the bytes are damaged or the backend fails.
    pub async fn read_slice(
        &self,
        location: &Location,
        size: u64,
        slice: &Slice,
    ) -> Result<Bytes, BlobError> {
        let ticket = loop {
            match self.slices.step(slice) {
                Step::Read(ticket) => break ticket,
                Step::Wait(mut ended) => {
                    // The sender is dropped at the end of the other read.
                    let _ = ended.changed().await;
                    if let Some(body) = self.slices.cached(slice).await {
                        return Ok(body);
                    }
                }
            }
        };
        let store = &self.tier(location)?.store;
        let range = ticket.range.start..ticket.range.end.min(size);
        let bytes = store.get_range(&path(&location.name), range).await?;
        let damaged = || BlobError::Damaged { name: text(&location.name), offset: slice.offset };
        let length = usize::try_from(slice.size).map_err(|_| damaged())?;
        let body = bytes.get(..length).filter(|body| is_intact(slice, body)).ok_or_else(damaged)?;
        let cache = &self.slices.cache;
        cache.insert(slice.segment, slice.offset, body);
        let next = length + TAIL as usize;
        if bytes.len() > next {
            for record in Records::new(bytes.slice(next..), slice.offset + next as u64) {
                cache.insert(slice.segment, record.offset, &record.body);
            }
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
    use plimsoll::provider::calls::Call;

    use crate::body::blob::new_name;
    use crate::body::cache::CacheSettings;
    use crate::body::segment::{Header, START};
    use crate::tier::counted::TierUsage;
    use crate::tier::{Tier, Tiers};

    struct World {
        blobs: Blobs,
        usage: Arc<TierUsage>,
        location: Location,
        size: u64,
        slices: Vec<Slice>,
    }

    /// A segment with 1,000 bodies of 1 KiB.
    async fn world() -> World {
        let tier = Tier::new("only", Arc::new(InMemory::new()), None);
        let usage = Arc::clone(&tier.usage);
        let cache = Cache::open(&CacheSettings::default()).unwrap();
        let blobs = Blobs::new(Tiers::new(BTreeMap::from([(0, tier)])), cache);
        let location = Location { tier: 0, name: new_name() };
        let mut bytes = BytesMut::from(&START[..]);
        let mut slices = Vec::new();
        for number in 0..1000u32 {
            let body = vec![number as u8; 1024];
            let (key, at) = (number.to_string(), bytes.len() as u64);
            let header = Header { bucket: "b", key: &key, head: b"", properties: b"" };
            let (offset, crc) = header.put(&mut bytes, &body);
            slices.push(Slice { segment: location.name, offset: at + offset, size: 1024, crc });
        }
        let size = bytes.len() as u64;
        blobs.tiers().get(0).unwrap().store.put(&path(&location.name), bytes.freeze().into()).await.unwrap();
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
