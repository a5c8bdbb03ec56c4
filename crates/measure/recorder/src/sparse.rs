//! Sparse histograms, decoded from their serialized form. They are for readers of thousands of seconds, for which
//! a full [`Latencies`](super::histogram::Latencies) each would take a third of a megabyte and the time to clear it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use flate2::{Decompress, FlushDecompress, Status};

/// Largest latency that a histogram distinguishes: one hour, in microseconds.
pub const MAX_US: u64 = 3_600_000_000;

/// Cookie of HdrHistogram's compressed V2 encoding (HdrHistogram wire format; the high half of the low byte is
/// the word size).
pub const COMPRESSED: u32 = 0x1c84_9314;
/// Cookie of HdrHistogram's plain V2 encoding.
const PLAIN: u32 = 0x1c84_9313;
/// Length of the header before the counts, in bytes: cookie, length, offset, digits, lowest, highest, ratio.
const HEADER: usize = 40;
/// Number of the lowest buckets, which are of equal width, for 3 significant digits. Every octave above has
/// half as many.
const LINEAR: usize = 2048;
/// Number of buckets for values up to an hour.
pub const BUCKETS: usize = 24 * LINEAR / 2;

/// The non-empty buckets of a histogram, in order. Counts are cumulative, so that a binary search finds the
/// number of values up to a bucket. A bucket takes six bytes, because there may be millions of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sparse {
    at: Vec<u16>,
    up_to: Vec<u32>,
}

/// Returns the lowest and highest value of a bucket, in microseconds.
pub fn edges_us(bucket: usize) -> (u64, u64) {
    if bucket < LINEAR {
        return (bucket as u64, bucket as u64);
    }
    let octave = bucket / (LINEAR / 2) - 1;
    let low = ((bucket % (LINEAR / 2) + LINEAR / 2) as u64) << octave;
    (low, low + (1 << octave) - 1)
}

/// Returns the number of the bucket that contains a value in microseconds.
pub fn bucket_of(us: u64) -> usize {
    let octave = (u64::BITS - us.leading_zeros()).saturating_sub(11) as usize;
    (octave * LINEAR / 2 + (us >> octave) as usize).min(BUCKETS - 1)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads the next number, in ZigZag LEB128 of at most nine bytes; `None` at the end of the input.
#[inline(always)]
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let (first, rest) = bytes.split_first()?;
    if first & 0x80 == 0 {
        // Most counts fit in one byte.
        *bytes = rest;
        return Some(i64::from(first >> 1) ^ -i64::from(first & 1));
    }
    let mut value = 0u64;
    for place in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if place == 8 {
            value |= u64::from(*byte) << 56;
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

thread_local! {
    /// Decompressor of this thread. A new one for each histogram would take more time than most histograms.
    static INFLATER: RefCell<Decompress> = RefCell::new(Decompress::new(true));
    /// The last histogram that this thread decoded, whose memory is used again.
    static DECODED: RefCell<Sparse> = RefCell::default();
}

/// Maximum length in bytes of a plain histogram with our bounds: at most nine bytes per bucket.
const MOST: usize = HEADER + 9 * BUCKETS;
/// Usual length in bytes of the histogram of a second.
const USUAL: usize = 4096;

/// Decompresses a zlib stream into `out`. Returns `None` if it is damaged, incomplete, or longer than [`MOST`].
fn inflate(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    INFLATER.with_borrow_mut(|inflater| {
        inflater.reset(true);
        loop {
            out.reserve(USUAL.max(out.len()));
            let read = inflater.total_in() as usize;
            match inflater.decompress_vec(bytes.get(read..)?, out, FlushDecompress::Finish).ok()? {
                Status::StreamEnd => return (out.len() <= MOST).then_some(()),
                // There is no more input, or the output is full.
                _ if out.len() < out.capacity() || out.len() > MOST => return None,
                _ => {}
            }
        }
    })
}

/// Decompresses a histogram into `scratch`. Returns `None` if the bytes are not a histogram, are damaged, or have
/// other bounds. The bounds are checked because a decoder would allocate memory for whatever the header states.
pub(super) fn unpack(bytes: &[u8], scratch: &mut Vec<u8>) -> Option<()> {
    if word(bytes, 0)? != COMPRESSED {
        return None;
    }
    inflate(bytes.get(8..)?, scratch)?;
    let counts = u32::try_from(scratch.len().checked_sub(HEADER)?).ok()?;
    let shape = [0, 4, 8, 12, 16, 20].map(|at| word(scratch, at));
    let highest = scratch.get(24..32).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes)?;
    let known = shape == [PLAIN, counts, 0, 3, 0, 1].map(Some) && highest == MAX_US;
    known.then_some(())
}

/// Calls `visit` with each non-empty bucket of a serialized histogram and its count, in order. Returns `None` if the
/// bytes are not a histogram, are damaged, or have other bounds.
pub(super) fn each_bucket(bytes: &[u8], scratch: &mut Vec<u8>, visit: impl FnMut(usize, u64)) -> Option<()> {
    unpack(bytes, scratch)?;
    each_unpacked(scratch.get(HEADER..)?, visit)
}

/// Calls `visit` with each non-empty bucket of the counts of a plain histogram; see [`each_bucket`].
fn each_unpacked(mut counts: &[u8], mut visit: impl FnMut(usize, u64)) -> Option<()> {
    let mut at = 0usize;
    while !counts.is_empty() {
        match varint(&mut counts)? {
            count @ 1.. => {
                if at >= BUCKETS {
                    return None;
                }
                visit(at, count as u64);
                at += 1;
            }
            zeros => at = at.checked_add(usize::try_from(zeros.unsigned_abs().max(1)).ok()?)?,
        }
    }
    Some(())
}

impl Sparse {
    /// Decodes compressed HdrHistogram V2, the output of
    /// [`Latencies::to_bytes`](super::histogram::Latencies::to_bytes). Empty input is an empty histogram.
    /// Returns `None` if the bytes are not a histogram or have other bounds.
    pub fn from_bytes(bytes: &[u8], scratch: &mut Vec<u8>) -> Option<Sparse> {
        if bytes.is_empty() {
            return Some(Sparse::default());
        }
        unpack(bytes, scratch)?;
        let counts = scratch.get(HEADER..)?;
        DECODED.with_borrow_mut(|Sparse { at, up_to }| {
            at.clear();
            up_to.clear();
            let (mut sum, mut beyond) = (0_u32, false);
            each_unpacked(counts, |bucket, n| {
                beyond |= n > u64::from(u32::MAX);
                sum = sum.saturating_add(n as u32);
                at.push(bucket as u16);
                up_to.push(sum);
            })?;
            // The copies have the exact length.
            (!beyond).then(|| Sparse { at: at.clone(), up_to: up_to.clone() })
        })
    }

    /// Iterates over the non-empty buckets: the number of the bucket and its count.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        let before = std::iter::once(0).chain(self.up_to.iter().copied());
        self.at.iter().copied().zip(self.up_to.iter().zip(before).map(|(up_to, before)| up_to - before))
    }

    /// Returns the lowest and the highest non-empty bucket; `None` if there are no values.
    pub fn ends(&self) -> Option<(u16, u16)> {
        Some((*self.at.first()?, *self.at.last()?))
    }

    /// Returns the number of values.
    pub fn len(&self) -> u64 {
        u64::from(self.up_to.last().copied().unwrap_or(0))
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Adds another histogram to this one. Counts saturate.
    pub fn absorb(&mut self, other: Sparse) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            let mut merged: BTreeMap<u16, u32> = self.iter().collect();
            other.iter().for_each(|(bucket, n)| {
                let sum = merged.entry(bucket).or_default();
                *sum = sum.saturating_add(n);
            });
            *self = merged.into_iter().collect();
        }
    }

    /// Returns the number of values in buckets up to and including `bucket`.
    pub fn up_to(&self, bucket: usize) -> u64 {
        let end = self.at.partition_point(|at| usize::from(*at) <= bucket);
        end.checked_sub(1).map_or(0, |last| u64::from(self.up_to[last]))
    }
}

/// Builds a histogram from buckets in ascending order.
impl FromIterator<(u16, u32)> for Sparse {
    fn from_iter<I: IntoIterator<Item = (u16, u32)>>(buckets: I) -> Sparse {
        let mut sum = 0_u32;
        let (mut at, mut up_to): (Vec<u16>, Vec<u32>) = buckets
            .into_iter()
            .map(|(bucket, n)| {
                sum = sum.saturating_add(n);
                (bucket, sum)
            })
            .unzip();
        at.shrink_to_fit();
        up_to.shrink_to_fit();
        Sparse { at, up_to }
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::Latencies;
    use super::*;
    use plimsoll_base::rng::Stream;

    #[test]
    fn sparse_and_full_histograms_are_equal() {
        let draws = Stream::new(9, "sparse");
        let mut scratch = Vec::new();
        for (n, mean_ns) in [(1, 1e3), (300, 2e5), (20_000, 5e7), (500, 4e11)] {
            let mut latencies = Latencies::default();
            (0..n).for_each(|i| latencies.record((draws.exponential(i) * mean_ns) as u64));
            let sparse = Sparse::from_bytes(&latencies.to_bytes(), &mut scratch).unwrap();
            let full: Vec<(u64, u64)> = latencies
                .histogram()
                .unwrap()
                .iter_recorded()
                .map(|v| (v.value_iterated_to(), v.count_at_value()))
                .collect();
            let found: Vec<(u64, u64)> =
                sparse.iter().map(|(b, n)| (edges_us(usize::from(b)).1, u64::from(n))).collect();
            assert_eq!(found, full);
            assert_eq!(sparse.len(), latencies.len());
        }
    }

    #[test]
    fn buckets_and_values_agree() {
        for us in (0..5000).chain((0..31).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1])).chain([MAX_US])
        {
            let (low, high) = edges_us(bucket_of(us));
            assert!((low..=high).contains(&us), "{us} is not in {low}..={high}");
        }
    }

    #[test]
    fn invalid_histograms_are_refused() {
        let mut scratch = Vec::new();
        let mut latencies = Latencies::default();
        latencies.record(5_000_000);
        let bytes = latencies.to_bytes();
        assert_eq!(Sparse::from_bytes(&[], &mut scratch), Some(Sparse::default()));
        assert_eq!(Sparse::from_bytes(b"neither this nor that", &mut scratch), None);
        assert_eq!(Sparse::from_bytes(&bytes[..bytes.len() / 2], &mut scratch), None, "truncated");
        let mut foreign = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap();
        foreign.record(77).unwrap();
        let mut other = Vec::new();
        use hdrhistogram::serialization::Serializer;
        hdrhistogram::serialization::V2DeflateSerializer::new().serialize(&foreign, &mut other).unwrap();
        assert_eq!(Sparse::from_bytes(&other, &mut scratch), None, "two significant digits");
    }
}
