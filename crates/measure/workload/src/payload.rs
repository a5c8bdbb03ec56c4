//! Object contents, a function of seed, object and version, so that every byte that is read can be compared.
//!
//! By default, contents are pseudo-random, incompressible and cut from one shared block, so that none are generated
//! during the measurement. Storage that looks for equal pieces at any offset finds many. For such storage, contents are
//! generated ([`Cut::generated`]): each block of 4 KiB begins with different random bytes and ends with zeros.
//!
//! An object is a sequence of segments of at most 1 MiB. Each is a slice of a 2 MiB block at an offset derived from
//! (seed, dataset, index, version, segment). Two objects differ in nearly every byte, and so do two versions of one.
//! Records are kept from run to run, so their offsets derive from their number and version alone ([`Block::record`]).

use bytes::Bytes;

use plimsoll_base::rng::{Stream, mix};

/// Length of a full segment, in bytes.
const SEGMENT: u64 = 1 << 20;
/// Length of a block of generated content, in bytes: the smallest unit of common file systems that compress or
/// deduplicate.
const UNIT: u64 = 4096;
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
        self.keyed(mix(mix(RECORDS ^ number) ^ version), size)
    }

    /// Returns the content of one version of one object.
    pub fn cut(&self, dataset_id: u64, index: u64, version: u64, size: u64) -> Cut {
        self.keyed(mix(mix(mix(self.seed ^ dataset_id) ^ index) ^ version), size)
    }

    fn keyed(&self, key: u64, size: u64) -> Cut {
        Cut { source: Source::Shared(self.data.clone()), key, size }
    }
}

/// The origin of the bytes of a content.
#[derive(Clone, Debug)]
enum Source {
    /// Slices of the shared block.
    Shared(Bytes),
    /// Blocks that are generated, of which compression can remove this share.
    Generated { compressible: f64 },
}

/// The content of one object.
#[derive(Clone, Debug)]
pub struct Cut {
    source: Source,
    key: u64,
    size: u64,
}

impl Cut {
    /// Length of a full segment, in bytes.
    pub const SEGMENT: u64 = SEGMENT;

    /// Returns a content of the same length that is generated and shares no block with another one. Compression can
    /// remove the share `compressible` of it.
    pub fn generated(self, compressible: f64) -> Cut {
        Cut { source: Source::Generated { compressible }, ..self }
    }

    /// Returns true if reading the content generates it.
    pub fn is_generated(&self) -> bool {
        matches!(self.source, Source::Generated { .. })
    }

    fn offset(&self, segment: u64) -> usize {
        (mix(self.key ^ segment.wrapping_mul(0x9e37_79b9_7f4a_7c15)) % SEGMENT) as usize
    }

    /// Returns the length of the content, in bytes.
    pub fn total(&self) -> u64 {
        self.size
    }

    /// Returns the whole content.
    pub fn whole(&self) -> Bytes {
        let first = self.piece(0, self.size).unwrap_or_default();
        if first.len() as u64 == self.size {
            return first;
        }
        let mut out = Vec::with_capacity(self.size as usize);
        out.extend_from_slice(&first);
        while let Some(piece) = self.piece(out.len() as u64, self.size) {
            out.extend_from_slice(&piece);
        }
        out.into()
    }

    /// Returns the bytes from `at` to the end of its segment or to `end`, whichever is first; `None` from `end` on.
    pub fn piece(&self, at: u64, end: u64) -> Option<Bytes> {
        let end = end.min(self.size).min((at / SEGMENT + 1) * SEGMENT);
        (at < end).then(|| self.bytes(at, end))
    }

    /// Returns the bytes `at..end`, which are in one segment.
    fn bytes(&self, at: u64, end: u64) -> Bytes {
        match &self.source {
            Source::Shared(data) => {
                let from = self.offset(at / SEGMENT) + (at % SEGMENT) as usize;
                data.slice(from..from + (end - at) as usize)
            }
            Source::Generated { compressible } => {
                let mut out = Vec::with_capacity((end - at) as usize);
                let (mut at, mut unit) = (at, [0; UNIT as usize]);
                while at < end {
                    let len = self.generate(at / UNIT, *compressible, &mut unit);
                    let within = (at % UNIT) as usize;
                    let to = len.min(within + (end - at) as usize);
                    out.extend_from_slice(&unit[within..to]);
                    at += (to - within) as u64;
                }
                out.into()
            }
        }
    }

    /// Writes block `number` of generated content to `out`, and returns its length.
    fn generate(&self, number: u64, compressible: f64, out: &mut [u8; UNIT as usize]) -> usize {
        let len = self.size.saturating_sub(number * UNIT).min(UNIT) as usize;
        let random = (len as f64 * (1.0 - compressible)).ceil() as usize;
        Stream::new(mix(self.key ^ number), "block").fill(&mut out[..random.next_multiple_of(8)]);
        out[random..len].fill(0);
        len
    }

    /// Compares `piece` with the content at `at`.
    ///
    /// # Errors
    /// Returns the offset of the first byte that differs, or of the first byte after the end of the content.
    pub fn compare(&self, at: u64, piece: &[u8]) -> Result<(), u64> {
        let (mut at, mut rest) = (at, piece);
        let mut unit = None;
        while !rest.is_empty() {
            let expected = match &self.source {
                Source::Shared(data) => {
                    let (segment, within) = (at / SEGMENT, at % SEGMENT);
                    let room = (SEGMENT - within).min(self.size.saturating_sub(at)) as usize;
                    let from = self.offset(segment) + within as usize;
                    &data[from..from + room.min(rest.len())]
                }
                Source::Generated { compressible } => {
                    let unit = unit.get_or_insert([0; UNIT as usize]);
                    let len = self.generate(at / UNIT, *compressible, unit);
                    let within = ((at % UNIT) as usize).min(len);
                    &unit[within..len.min(within + rest.len())]
                }
            };
            if expected.is_empty() {
                return Err(at);
            }
            let (head, tail) = rest.split_at(expected.len());
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

    #[test]
    fn uploaded_content_compares_equal_in_pieces_of_any_length() {
        let block = Block::new(42);
        for size in [0, 1, 1024, 4097, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 7] {
            let shared = block.cut(1, 2, 3, size);
            for cut in [shared.clone().generated(0.0), shared.clone().generated(0.7), shared] {
                let content = cut.whole();
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
    }

    #[test]
    fn a_wrong_byte_is_found_at_its_offset() {
        let shared = Block::new(42).cut(1, 2, 3, 2 * SEGMENT);
        for cut in [shared.clone().generated(0.5), shared] {
            let mut content = cut.whole().to_vec();
            content[1_500_000] ^= 1;
            assert_eq!(cut.compare(0, &content), Err(1_500_000));
            assert_eq!(cut.compare(2 * SEGMENT, b"x"), Err(2 * SEGMENT), "after the end");
            assert_eq!(cut.compare(2 * SEGMENT + 5000, b"x"), Err(2 * SEGMENT + 5000), "after the end");
        }
    }

    #[test]
    fn versions_keys_and_seeds_differ() {
        let block = Block::new(42);
        let base = block.cut(1, 2, 3, 1024).whole();
        for other in [
            block.cut(1, 2, 4, 1024),
            block.cut(1, 3, 3, 1024),
            block.cut(2, 2, 3, 1024),
            Block::new(43).cut(1, 2, 3, 1024),
        ] {
            let equal = other.whole().iter().zip(&base).filter(|(a, b)| a == b).count();
            assert!(equal < 40, "{equal} of 1024 bytes agree; 4 are expected by chance");
        }
    }

    #[test]
    fn a_records_content_depends_on_its_number_and_version_alone() {
        let of =
            |seed: u64, number: u64, version: u64| Block::new(seed).record(number, version, 1000).whole();
        assert_eq!(of(1, 7, 0), of(2, 7, 0));
        assert_ne!(of(1, 7, 0), of(1, 8, 0));
        assert_ne!(of(1, 7, 0), of(1, 7, 1));
    }

    #[test]
    fn content_does_not_compress() {
        let content = Block::new(42).cut(1, 2, 3, SEGMENT).whole();
        let mut cells = [0u64; 256];
        content.iter().for_each(|b| cells[*b as usize] += 1);
        let expected = SEGMENT as f64 / 256.0;
        let chi: f64 = cells.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
        assert!(chi < 350.0, "chi-square over byte values is {chi} with 255 degrees of freedom");
    }
}
