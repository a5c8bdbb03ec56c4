//! Reads the bodies that leave pack files: with one request for bodies that are close together.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;

use super::candidate::Candidate;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::pack_file::Slice;
use plimsoll_catalog::Catalog;
use plimsoll_objects::Store;
use plimsoll_objects::row::Body;

/// Bytes between two bodies that are read rather than requested separately.
const GAP: u64 = 64 << 10;
/// Maximum number of bytes of a request.
const MOST: u64 = 4 << 20;

/// Returns the ranges to read from each pack file for these bodies, which are in the order of their offsets in each.
pub fn ranges<'a>(bodies: impl Iterator<Item = &'a Body>) -> BTreeMap<BlobName, Vec<Range<u64>>> {
    // Plans call this function, too, so they count the requests that packing sends.
    let mut found: BTreeMap<BlobName, Vec<Range<u64>>> = BTreeMap::new();
    for body in bodies {
        let Body::Slice(slice) = body else { continue };
        let end = slice.offset + slice.size;
        let ranges = found.entry(slice.pack_file).or_default();
        match ranges.last_mut() {
            // Only a body behind the range extends it, because `Sources::read` goes forward and never back.
            Some(last) if (last.end..=last.end + GAP).contains(&slice.offset) && end - last.start <= MOST => {
                last.end = end;
            }
            _ => ranges.push(slice.offset..end),
        }
    }
    found
}

/// A range that was read from a pack file.
struct Read {
    at: u64,
    bytes: Bytes,
}

/// Reader of the bodies of a job.
pub struct Sources {
    left: BTreeMap<BlobName, VecDeque<Range<u64>>>,
    current: BTreeMap<BlobName, Read>,
}

impl Sources {
    /// Plans the reads.
    pub fn new(candidates: &[Candidate]) -> Sources {
        let left = ranges(candidates.iter().map(|candidate| &candidate.body));
        let left = left.into_iter().map(|(name, ranges)| (name, ranges.into())).collect();
        Sources { left, current: BTreeMap::new() }
    }

    /// Returns the body of a slice; `None` if no planned read contains the slice, the read fails or the body is
    /// damaged.
    pub async fn read<C: Catalog>(&mut self, store: &Store<C>, slice: &Slice) -> Option<Bytes> {
        loop {
            if let Some(read) = self.current.get(&slice.pack_file)
                && let Some(start) = slice.offset.checked_sub(read.at)
            {
                let (start, size) = (usize::try_from(start).ok()?, usize::try_from(slice.size).ok()?);
                if start + size <= read.bytes.len() {
                    // `read_pack_file` verifies nothing. The caller reads a damaged body again, from any place.
                    return Some(read.bytes.slice(start..start + size)).filter(|body| slice.is_intact(body));
                }
            }
            // Removed before its read, so that a range that fails is not requested again for each of its bodies.
            let range = self.left.get_mut(&slice.pack_file)?.pop_front()?;
            let bytes = store.read_pack_file(&slice.pack_file, range.clone()).await?;
            // One range of each pack file is enough, because candidates have the order of keys, as the bodies in it do.
            self.current.insert(slice.pack_file, Read { at: range.start, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_bodies_share_a_request() {
        let slice =
            |pack_file, offset, size| Body::Slice(Slice { pack_file: [pack_file; 16], offset, size, crc: 0 });
        let bodies = [
            slice(1, 100, 1000),
            slice(2, 0, 10),
            slice(1, 1200, 1000),
            Body::Inline,
            slice(1, 2200 + GAP, 10),
            slice(1, 2211 + 2 * GAP, 10),
            slice(2, 20, MOST),
        ];
        let found = ranges(bodies.iter());
        assert_eq!(found[&[1; 16]], [100..2210 + GAP, 2211 + 2 * GAP..2221 + 2 * GAP]);
        assert_eq!(found[&[2; 16]], [0..10, 20..20 + MOST]);
    }
}
