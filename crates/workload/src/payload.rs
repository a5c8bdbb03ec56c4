//! Object contents: pseudo-random, incompressible and cut from one shared block, so that no content is generated
//! during the measurement and every byte that is read can be compared.
//!
//! An object is a sequence of segments of at most 1 MiB. Each is a slice of a 2 MiB block at an offset derived from
//! (seed, dataset, index, version, segment). Two objects differ in nearly every byte, and so do two versions of one.
//! Records are kept from run to run, so their offsets derive from their number and version alone ([`Block::record`]).

use bytes::Bytes;

use plimsoll_base::rng::{Stream, mix};

/// Length of a full segment, in bytes.
const SEGMENT: u64 = 1 << 20;
/// Constant that separates the contents of records from those of other objects: "records" in ASCII.
const RECORDS: u64 = 0x0073_6472_6f63_6572;

/// The block from which all contents are cut; the seed determines the offsets.
#[derive(Clone, Debug)]
pub struct Block {
    data: Bytes,
    seed: u64,
}

impl Block {
    /// Generates the block. It is two segments long, so that a whole segment follows any offset within the first. Its
    /// bytes are the same for every seed, so that runs with different seeds can read the same records.
    pub fn new(seed: u64) -> Block {
        let mut data = vec![0; 2 * SEGMENT as usize];
        Stream::new(0, "payload").fill(&mut data);
        Block { data: data.into(), seed }
    }

    /// Returns the content of one version of the record with `number` in its key. The content does not depend on
    /// the seed, the number of records or the first record.
    pub fn record(&self, number: u64, version: u64, size: u64) -> Cut {
        Cut { data: self.data.clone(), key: mix(mix(RECORDS ^ number) ^ version), size }
    }

    /// Returns the content of one version of one object.
    pub fn cut(&self, dataset_id: u64, index: u64, version: u64, size: u64) -> Cut {
        let key = mix(mix(mix(self.seed ^ dataset_id) ^ index) ^ version);
        Cut { data: self.data.clone(), key, size }
    }
}

/// The content of one object.
#[derive(Clone, Debug)]
pub struct Cut {
    data: Bytes,
    key: u64,
    size: u64,
}

impl Cut {
    /// Length of a full segment, in bytes.
    pub const SEGMENT: u64 = SEGMENT;

    fn offset(&self, segment: u64) -> usize {
        (mix(self.key ^ segment.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % SEGMENT) as usize
    }

    /// Returns the length of the content, in bytes.
    pub fn total(&self) -> u64 {
        self.size
    }

    /// Returns segment `index`, or `None` after the end. The first segment of an empty object is empty.
    pub fn segment(&self, index: usize) -> Option<Bytes> {
        let begin = index as u64 * SEGMENT;
        let len = self.size.checked_sub(begin).filter(|rest| *rest > 0 || index == 0)?.min(SEGMENT) as usize;
        let from = self.offset(index as u64);
        Some(self.data.slice(from..from + len))
    }

    /// Returns the bytes from `at` to the end of its segment or to `end`, whichever is first; `None` from `end` on.
    pub fn piece(&self, at: u64, end: u64) -> Option<Bytes> {
        let end = end.min(self.size).min((at / SEGMENT + 1) * SEGMENT);
        (at < end).then(|| {
            let from = self.offset(at / SEGMENT) + (at % SEGMENT) as usize;
            self.data.slice(from..from + (end - at) as usize)
        })
    }

    /// Compares `piece` with the content at `at`.
    ///
    /// # Errors
    /// Returns the offset of the first byte that differs, or of the first byte after the end of the content.
    pub fn compare(&self, at: u64, piece: &[u8]) -> Result<(), u64> {
        let (mut at, mut rest) = (at, piece);
        while !rest.is_empty() {
            let (segment, within) = (at / SEGMENT, at % SEGMENT);
            let room = (SEGMENT - within).min(self.size.saturating_sub(at)) as usize;
            if room == 0 {
                return Err(at);
            }
            let (head, tail) = rest.split_at(rest.len().min(room));
            let from = self.offset(segment) + within as usize;
            let expected = &self.data[from..from + head.len()];
            if head != expected {
                let wrong = head.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
                return Err(at + wrong as u64);
            }
            at += head.len() as u64;
            rest = tail;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(cut: &Cut) -> Vec<u8> {
        (0..).map_while(|i| cut.segment(i)).flatten().collect()
    }

    #[test]
    fn uploaded_content_compares_equal_in_pieces_of_any_length() {
        let block = Block::new(42);
        for size in [0, 1, 1024, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 7] {
            let cut = block.cut(1, 2, 3, size);
            let content = bytes(&cut);
            assert_eq!(content.len() as u64, size);
            for step in [1_000_003, 65_536, 4_001] {
                let mut at = 0;
                for piece in content.chunks(step) {
                    assert_eq!(cut.compare(at, piece), Ok(()), "size {size}, step {step}");
                    at += piece.len() as u64;
                }
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_found_at_its_offset() {
        let cut = Block::new(42).cut(1, 2, 3, 2 * SEGMENT);
        let mut content = bytes(&cut);
        content[1_500_000] ^= 1;
        assert_eq!(cut.compare(0, &content), Err(1_500_000));
        assert_eq!(cut.compare(2 * SEGMENT, b"x"), Err(2 * SEGMENT), "after the end");
    }

    #[test]
    fn versions_keys_and_seeds_differ() {
        let block = Block::new(42);
        let base = bytes(&block.cut(1, 2, 3, 1024));
        for other in [
            block.cut(1, 2, 4, 1024),
            block.cut(1, 3, 3, 1024),
            block.cut(2, 2, 3, 1024),
            Block::new(43).cut(1, 2, 3, 1024),
        ] {
            let equal = bytes(&other).iter().zip(&base).filter(|(a, b)| a == b).count();
            assert!(equal < 40, "{equal} of 1024 bytes agree; 4 are expected by chance");
        }
    }

    #[test]
    fn a_records_content_depends_on_its_number_and_version_alone() {
        let of =
            |seed: u64, number: u64, version: u64| bytes(&Block::new(seed).record(number, version, 1000));
        assert_eq!(of(1, 7, 0), of(2, 7, 0));
        assert_ne!(of(1, 7, 0), of(1, 8, 0));
        assert_ne!(of(1, 7, 0), of(1, 7, 1));
    }

    #[test]
    fn content_does_not_compress() {
        let content = bytes(&Block::new(42).cut(1, 2, 3, SEGMENT));
        let mut cells = [0u64; 256];
        content.iter().for_each(|b| cells[*b as usize] += 1);
        let expected = SEGMENT as f64 / 256.0;
        let chi: f64 = cells.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
        assert!(chi < 350.0, "chi-square over byte values is {chi} with 255 degrees of freedom");
    }
}
