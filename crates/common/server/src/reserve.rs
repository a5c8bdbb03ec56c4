//! Accounting of the memory that clients make the server use: stored objects and parts, and incoming bodies.
//!
//! The owner of client data also owns a [`Reservation`] of its size, and dropping the data drops the reservation, so
//! the total cannot drift. A request that would exceed the limit gets 503 SlowDown, so that the operating system does
//! not kill the process for lack of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::error::{ApiError, ErrorCode};

/// Upper estimate, in bytes, of the memory of an object, upload, part or bucket without its content, key and headers.
pub const OVERHEAD: u64 = 512;

/// A memory limit in bytes and the number of bytes reserved.
#[derive(Debug)]
pub struct Memory {
    limit: u64,
    used: AtomicU64,
}

impl Memory {
    /// Creates a limit of `limit` bytes with nothing reserved.
    pub fn new(limit: u64) -> Arc<Memory> {
        Arc::new(Memory { limit, used: AtomicU64::new(0) })
    }

    /// Reserves `bytes` until the returned reservation is dropped.
    ///
    /// # Errors
    /// Returns `SlowDown` if the limit would be exceeded.
    pub fn reserve(self: &Arc<Memory>, bytes: u64) -> Result<Reservation, ApiError> {
        self.try_reserve(bytes).ok_or_else(|| self.exhausted())
    }

    /// Reserves `bytes` until the returned reservation is dropped; `None` if the limit would be exceeded.
    pub fn try_reserve(self: &Arc<Memory>, bytes: u64) -> Option<Reservation> {
        let mut reservation = Reservation { memory: Arc::clone(self), bytes: 0 };
        reservation.try_grow(bytes).then_some(reservation)
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Checks that `bytes` could be reserved now, without reserving them.
    ///
    /// # Errors
    /// Returns `SlowDown` if the limit would be exceeded.
    pub fn check(&self, bytes: u64) -> Result<(), ApiError> {
        let used = self.used.load(Ordering::Relaxed);
        if used.saturating_add(bytes) > self.limit { Err(self.exhausted()) } else { Ok(()) }
    }

    /// Returns the number of bytes reserved.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn exhausted(&self) -> ApiError {
        let text = format!(
            "The request would exceed the memory limit of {} bytes; send fewer at a time, or delete objects kept in memory",
            self.limit
        );
        ApiError::with(ErrorCode::SlowDown, text)
    }
}

/// Bytes reserved from a [`Memory`] and released on drop.
#[derive(Debug)]
pub struct Reservation {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Reservation {
    /// Adds `more` bytes to the reservation.
    ///
    /// # Errors
    /// Returns `SlowDown` if the limit would be exceeded; the reservation is then unchanged.
    pub fn grow(&mut self, more: u64) -> Result<(), ApiError> {
        if self.try_grow(more) { Ok(()) } else { Err(self.memory.exhausted()) }
    }

    fn try_grow(&mut self, more: u64) -> bool {
        let before = self.memory.used.fetch_add(more, Ordering::Relaxed);
        let fits = before.saturating_add(more) <= self.memory.limit;
        if fits {
            self.bytes += more;
        } else {
            self.memory.used.fetch_sub(more, Ordering::Relaxed);
        }
        fits
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Growable byte buffer whose capacity counts against a memory limit.
pub struct Buffer {
    data: Vec<u8>,
    reservation: Reservation,
}

struct Held<B> {
    data: B,
    _reservation: Reservation,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Held<B> {
    fn as_ref(&self) -> &[u8] {
        self.data.as_ref()
    }
}

/// Returns bytes that keep a reservation until their last copy is dropped.
pub fn held<B: AsRef<[u8]> + Send + 'static>(data: B, reservation: Reservation) -> Bytes {
    Bytes::from_owner(Held { data, _reservation: reservation })
}

impl Buffer {
    /// Creates an empty buffer with room for `capacity` bytes.
    ///
    /// # Errors
    /// Returns `SlowDown` if the limit would be exceeded.
    pub fn new(memory: &Arc<Memory>, capacity: usize) -> Result<Buffer, ApiError> {
        let mut buffer = Buffer { data: Vec::new(), reservation: memory.reserve(0)? };
        buffer.extend_capacity(capacity)?;
        Ok(buffer)
    }

    /// Creates a buffer from bytes whose memory is already reserved.
    pub fn of(data: Vec<u8>, reservation: Reservation) -> Buffer {
        Buffer { data, reservation }
    }

    fn extend_capacity(&mut self, more: usize) -> Result<(), ApiError> {
        self.reservation.grow(more as u64)?;
        let additional = self.data.capacity() + more - self.data.len();
        self.data.try_reserve_exact(additional).map_err(|_| self.reservation.memory.exhausted())
    }

    /// Returns the number of bytes in the buffer.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Returns true if the buffer contains no bytes.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Appends `piece`. A full buffer grows its capacity by half, but beyond `most` bytes only if `piece` needs it.
    ///
    /// # Errors
    /// Returns `SlowDown` if the limit would be exceeded.
    pub fn push(&mut self, piece: &[u8], most: usize) -> Result<(), ApiError> {
        let needed = self.data.len() + piece.len();
        let capacity = self.data.capacity();
        if needed > capacity {
            let target = (capacity + capacity / 2).min(most).max(needed);
            self.extend_capacity(target - capacity)?;
        }
        self.data.extend_from_slice(piece);
        Ok(())
    }

    /// Converts the buffer into shared bytes; dropping the last copy releases the reservation.
    pub fn freeze(self) -> Bytes {
        if self.data.is_empty() {
            return Bytes::new();
        }
        held(self.data, self.reservation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_last_slice_releases_the_reservation() {
        let memory = Memory::new(100);
        let mut buffer = Buffer::new(&memory, 10).unwrap();
        buffer.push(&[7; 40], 64).unwrap();
        assert!((40..=64).contains(&memory.used()), "{}", memory.used());
        let bytes = buffer.freeze();
        let slice = bytes.slice(1..3);
        drop(bytes);
        assert!(memory.used() >= 40, "a slice keeps the whole buffer reserved");
        assert_eq!(memory.reserve(100).unwrap_err().code, ErrorCode::SlowDown);
        drop(slice);
        assert_eq!(memory.used(), 0);
        assert!(memory.reserve(100).is_ok());
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_buffer_stops_at_the_limit() {
        let memory = Memory::new(1000);
        let mut buffer = Buffer::new(&memory, 0).unwrap();
        let error =
            std::iter::repeat_with(|| buffer.push(&[0; 64], usize::MAX)).take(100).find_map(Result::err);
        assert_eq!(error.unwrap().code, ErrorCode::SlowDown);
        assert!(buffer.len() >= 500 && memory.used() <= 1000, "{} {}", buffer.len(), memory.used());
        assert!(Buffer::new(&memory, usize::MAX / 2).is_err());
        assert_eq!(memory.check(1000).unwrap_err().code, ErrorCode::SlowDown);
        drop(buffer);
        assert_eq!(memory.check(1000), Ok(()));
    }
}
