//! Memory of bodies that are being sent to clients.
//!
//! A client that does not read its response keeps one piece of it in memory. Large pieces are efficient, so there is a
//! pool for them. A reader that finds the pool used up hands out [`SMALL`] bytes at a time and reads the rest again
//! later: thousands of slow clients then use little memory, and others continue.

use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use plimsoll_base::machine::usable_memory_bytes;
use plimsoll_server::error::ApiError;
use plimsoll_server::reserve::{Memory, Reservation, held};

use super::chunks::{CHUNK, PART};

/// Largest piece in bytes that needs no place in the pool.
pub const SMALL: usize = 16 * 1024;
/// Size of the pool in bytes.
const POOL: u64 = 128 << 20;
/// Upper estimate of the buffers of a response of a remote tier in bytes.
const RESPONSE: u64 = 512 * 1024;

/// The pool of pieces, and a limit on what a reader holds besides.
#[derive(Debug, Clone)]
pub struct ReadMemory {
    pool: Arc<Memory>,
    readers: Arc<Memory>,
}

impl Default for ReadMemory {
    fn default() -> ReadMemory {
        ReadMemory::with(POOL, usable_memory_bytes().map_or(u64::MAX, |bytes| bytes / 4))
    }
}

impl ReadMemory {
    /// Creates a pool of `pool` bytes, and a limit of `readers` bytes.
    pub fn with(pool: u64, readers: u64) -> ReadMemory {
        ReadMemory { pool: Memory::new(pool), readers: Memory::new(readers) }
    }

    /// Returns the number of bytes, at most `most`, to read at a time, with their place in the pool; `None` if the pool
    /// is used up. Half of the pool is for pieces of [`CHUNK`] bytes.
    pub fn piece(&self, most: usize) -> Option<(usize, Reservation)> {
        let (large, chunk) = (most.min(PART), most.min(CHUNK));
        let has_room = self.pool.used() < self.pool.limit() / 2;
        let sizes = [Some(large).filter(|_| has_room), Some(chunk)];
        sizes.into_iter().flatten().find_map(|size| Some((size, self.pool.try_reserve(size as u64)?)))
    }

    /// Returns a range of a body in memory; a range above [`SMALL`] bytes takes a place in the pool. Returns `None` if
    /// the pool is used up. A range of less than half of the body does not keep the body in memory.
    pub fn hold(&self, body: &Bytes, range: &Range<u64>) -> Option<Bytes> {
        let mut bytes = body.slice(range.start as usize..range.end as usize);
        let reservation = match bytes.len() {
            0..=SMALL => None,
            large => Some(self.pool.try_reserve(large as u64)?),
        };
        if bytes.len() < body.len() / 2 {
            bytes = Bytes::copy_from_slice(&bytes);
        }
        Some(match reservation {
            Some(reservation) => held(bytes, reservation),
            None => bytes,
        })
    }

    /// Reserves the memory of a reader without its pieces: of the list of its `parts`, of the checksums of a blob of
    /// `largest` bytes and, if tiers are remote, of a response.
    ///
    /// # Errors
    /// `SlowDown` if readers would use more than a quarter of the memory.
    pub fn reader<P>(&self, parts: usize, largest: u64, is_remote: bool) -> Result<Reservation, ApiError> {
        let checksums = largest / CHUNK as u64 * size_of::<u32>() as u64;
        let list = (parts * size_of::<P>()) as u64;
        self.readers.reserve(list + checksums + if is_remote { RESPONSE } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_smaller_while_the_pool_fills() {
        let memory = ReadMemory::with(4 << 20, u64::MAX);
        let mut held = Vec::new();
        let mut sizes = Vec::new();
        while let Some((size, reservation)) = memory.piece(usize::MAX) {
            sizes.push(size);
            held.push(reservation);
        }
        assert_eq!(sizes, [vec![PART; 2], vec![CHUNK; 16]].concat());
        held.truncate(1);
        assert_eq!(memory.piece(7).map(|(size, _)| size), Some(7));
    }

    #[test]
    fn only_large_bytes_need_a_place() {
        let memory = ReadMemory::with(100_000, u64::MAX);
        let large = Bytes::from(vec![1; 90_000]);
        let all = 0..90_000;
        let held = memory.hold(&large, &all).unwrap();
        assert!(held == large && memory.hold(&large, &all).is_none());
        let small = memory.hold(&large, &(5..1005)).unwrap();
        assert!(small == large.slice(5..1005) && !large.as_ptr_range().contains(&small.as_ptr()), "a copy");
        let part = held.slice(..1);
        drop(held);
        assert!(memory.hold(&large, &all).is_none(), "a part keeps the place");
        drop(part);
        assert!(memory.hold(&large, &all).is_some());
    }

    #[test]
    fn readers_of_remote_tiers_and_of_many_parts_are_limited() {
        let memory = ReadMemory::with(0, 1 << 20);
        let remote = memory.reader::<u64>(1, 1, true).unwrap();
        assert!(memory.reader::<u64>(100_000, 1, true).is_err());
        assert!(memory.reader::<u64>(1000, 1 << 30, false).is_ok());
        drop(remote);
        assert!(memory.reader::<u64>(1, 1 << 30, true).is_ok());
    }
}
