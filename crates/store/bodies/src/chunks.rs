//! Checksums of the chunks of a blob, computed from pieces as they arrive.

use bytes::{Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, Digest};

/// Number of bytes that one checksum covers.
pub const CHUNK: usize = 128 * 1024;
/// Number of bytes written to a local backend, and read, at a time.
pub(super) const PART: usize = 8 * CHUNK;

/// CRC-32C of every [`CHUNK`] bytes of a stream.
pub struct ChunkCrcs {
    digest: Digest,
    /// Bytes of the current chunk.
    filled: usize,
    crcs: Vec<u32>,
}

impl Default for ChunkCrcs {
    fn default() -> ChunkCrcs {
        ChunkCrcs { digest: Digest::new(CrcAlgorithm::Crc32Iscsi), filled: 0, crcs: Vec::new() }
    }
}

impl ChunkCrcs {
    /// Adds the next bytes of the stream.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK - self.filled));
            self.digest.update(now);
            self.filled += now.len();
            if self.filled == CHUNK {
                self.end_chunk();
            }
            bytes = rest;
        }
    }

    fn end_chunk(&mut self) {
        self.crcs.push(self.digest.finalize() as u32);
        self.digest.reset();
        self.filled = 0;
    }

    /// Returns the checksums. The last chunk may be shorter.
    pub fn finish(mut self) -> Vec<u32> {
        if self.filled > 0 {
            self.end_chunk();
        }
        self.crcs
    }
}

/// Length in bytes from which a piece is kept as it is instead of copied together with others.
const LARGE: usize = 32 * 1024;

/// Pieces of a part that is being collected. Large pieces are not copied.
#[derive(Default)]
pub struct Pieces {
    pieces: Vec<Bytes>,
    small: BytesMut,
    length: usize,
}

impl Pieces {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        if piece.len() < LARGE {
            self.small.extend_from_slice(&piece);
            if self.small.len() >= LARGE {
                self.pieces.push(self.small.split().freeze());
            }
            return;
        }
        self.end_small();
        self.pieces.push(piece);
    }

    fn end_small(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push(self.small.split().freeze());
        }
    }

    /// Takes the pieces, each of which has at most `most` bytes.
    pub fn take(&mut self, most: usize) -> impl Iterator<Item = Bytes> {
        self.end_small();
        self.length = 0;
        std::mem::take(&mut self.pieces).into_iter().flat_map(move |piece| {
            (0..piece.len()).step_by(most).map(move |at| piece.slice(at..piece.len().min(at + most)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_catalog::embedded::record::crc32c;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_have_the_bytes_and_checksums_of_the_whole(sizes in prop::collection::vec(0..70_000usize, 0..12)) {
            let whole: Vec<u8> = (0..sizes.iter().sum()).map(|at: usize| (at * 31 % 251) as u8).collect();
            let (mut rest, mut crcs, mut pieces) = (Bytes::from(whole.clone()), ChunkCrcs::default(), Pieces::default());
            for size in sizes {
                let piece = rest.split_to(size);
                crcs.update(&piece);
                pieces.push(piece);
            }
            prop_assert_eq!(pieces.len(), whole.len());
            let taken: Vec<Bytes> = pieces.take(LARGE).collect();
            prop_assert!(taken.iter().all(|piece| (1..=LARGE).contains(&piece.len())));
            prop_assert_eq!(taken.concat(), whole.clone());
            prop_assert_eq!((pieces.len(), pieces.take(LARGE).count()), (0, 0));
            prop_assert_eq!(crcs.finish(), whole.chunks(CHUNK).map(crc32c).collect::<Vec<_>>());
        }
    }
}
