//! Latency histograms: 3 significant digits, whole microseconds, 1 us to 1 h (docs/method.md, "Percentiles").

use std::cell::RefCell;

use flate2::{Compress, Compression, FlushCompress, Status};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use super::sparse::{COMPRESSED, MAX_US, unpack};

/// Highest values for which histograms have space, in microseconds, so that one of short latencies takes 40 KiB instead
/// of 192 KiB. The last one is the end of the range.
const ROOMS_US: [u64; 3] = [(1 << 14) - 1, (1 << 20) - 1, MAX_US];

/// Creates an empty histogram with space for values up to `us`, at most an hour. All histograms have the same
/// precision, and two with the same values have the same space.
pub fn with_room(us: u64) -> Histogram<u64> {
    let room = ROOMS_US.into_iter().find(|room| us <= *room).unwrap_or(MAX_US);
    // The crate accepts these constant bounds.
    Histogram::new_with_bounds(1, room, 3)
        .unwrap_or_else(|_| unreachable!("1 us to 1 h with 3 digits are valid bounds"))
}

/// Serializes histograms into memory that it keeps.
struct Packer {
    serializer: V2Serializer,
    plain: Vec<u8>,
    compress: Compress,
}

thread_local! {
    static PACKER: RefCell<Packer> = RefCell::new(Packer {
        serializer: V2Serializer::new(),
        plain: Vec::new(),
        compress: Compress::new(Compression::default(), true),
    });
}

/// Position of the highest value of the range in a serialized histogram.
const HIGHEST: std::ops::Range<usize> = 24..32;

impl Packer {
    /// Returns a histogram as compressed HdrHistogram V2, with the range of one up to an hour; `None` if the format
    /// cannot represent it.
    fn pack(&mut self, histogram: &Histogram<u64>) -> Option<Vec<u8>> {
        self.plain.clear();
        self.serializer.serialize(histogram, &mut self.plain).ok()?;
        self.plain.get_mut(HIGHEST)?.copy_from_slice(&MAX_US.to_be_bytes());
        self.compress.reset();
        // zlib adds at most 11 bytes, and 5 for each 16 KiB.
        let mut body = Vec::with_capacity(self.plain.len() + self.plain.len() / 1024 + 64);
        let status = self.compress.compress_vec(&self.plain, &mut body, FlushCompress::Finish).ok()?;
        let length = u32::try_from(body.len()).ok().filter(|_| status == Status::StreamEnd)?;
        Some([&COMPRESSED.to_be_bytes(), &length.to_be_bytes(), body.as_slice()].concat())
    }
}

/// Converts nanoseconds to whole microseconds, rounded to nearest and clamped to 1 us to 1 h.
#[inline]
pub fn micros(ns: u64) -> u64 {
    ((ns + 500) / 1_000).clamp(1, MAX_US)
}

/// A histogram with exact minimum, maximum and mean. It allocates memory when the first value is recorded.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    histogram: Option<Box<Histogram<u64>>>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Latencies {
    /// Records one latency in nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let us = micros(ns);
        let histogram = match &mut self.histogram {
            Some(own) if us <= own.high() => own,
            other => grow(other, us),
        };
        histogram.saturating_record(us);
        self.min_ns = if histogram.len() == 1 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
    }

    /// Adds another histogram to this one, exactly.
    pub fn merge(&mut self, other: &Latencies) {
        let Some(added) = &other.histogram else { return };
        self.min_ns = if self.is_empty() { other.min_ns } else { self.min_ns.min(other.min_ns) };
        let own = match &mut self.histogram {
            Some(own) if added.max() <= own.high() => own,
            other => grow(other, added.max().min(MAX_US)),
        };
        // There is space for all values, so adding cannot fail.
        let result = own.add(added.as_ref());
        debug_assert!(result.is_ok());
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Returns these latencies without those of `part`, which must be among them. Minimum and maximum then have the
    /// resolution of the buckets.
    pub fn without(&self, part: &Latencies) -> Latencies {
        let (Some(whole), Some(removed)) = (&self.histogram, &part.histogram) else { return self.clone() };
        let mut rest = whole.clone();
        if rest.subtract(removed.as_ref()).is_err() {
            return self.clone();
        }
        let (min_ns, max_ns) = (rest.min() * 1_000, (rest.max() * 1_000).min(self.max_ns));
        Latencies { sum_ns: self.sum_ns.saturating_sub(part.sum_ns), min_ns, max_ns, histogram: Some(rest) }
    }

    /// Replaces minimum, maximum and mean by exact values in milliseconds. `None` leaves a value unchanged.
    pub fn sharpen(&mut self, min_ms: Option<f64>, max_ms: Option<f64>, mean_ms: Option<f64>) {
        let ns = |ms: f64| (ms * 1e6).round() as u64;
        if let Some(min) = min_ms {
            self.min_ns = ns(min);
        }
        if let Some(max) = max_ms {
            self.max_ns = ns(max);
        }
        if let Some(mean) = mean_ms {
            self.sum_ns = (mean * 1e6 * self.len() as f64).round() as u128;
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> u64 {
        self.histogram.as_ref().map_or(0, |h| h.len())
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the exact mean in nanoseconds; `None` if there are no values.
    pub fn mean_ns(&self) -> Option<f64> {
        let n = self.len();
        (n > 0).then(|| self.sum_ns as f64 / n as f64)
    }

    /// Returns the exact minimum in nanoseconds; `None` if there are no values.
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// Returns the exact maximum in nanoseconds; `None` if there are no values.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// Returns the histogram; `None` if there are no values.
    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        self.histogram.as_deref()
    }

    /// Returns the value of rank `ceil(q * n)` in nanoseconds: the highest value of its bucket, or the exact
    /// maximum if that is smaller.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let histogram = self.histogram.as_ref().filter(|h| !h.is_empty())?;
        Some((histogram.value_at_quantile(q) * 1_000).min(self.max_ns))
    }

    /// Returns the upper edge, in microseconds, of the bucket that contains the value of rank `ceil(q * n)`.
    pub fn bucket_us(&self, q: f64) -> Option<u64> {
        self.histogram.as_ref().filter(|h| !h.is_empty()).map(|h| h.value_at_quantile(q))
    }

    /// Encodes the histogram as compressed HdrHistogram V2; empty if there are no values.
    pub fn to_bytes(&self) -> Vec<u8> {
        let packed =
            self.histogram.as_ref().and_then(|own| PACKER.with_borrow_mut(|packer| packer.pack(own)));
        packed.unwrap_or_default()
    }

    /// Returns the latencies in a histogram. Minimum, maximum and mean have the resolution of the buckets.
    pub(super) fn of(histogram: Histogram<u64>) -> Latencies {
        if histogram.is_empty() {
            return Latencies::default();
        }
        let sum_ns = (histogram.mean() * histogram.len() as f64 * 1_000.0) as u128;
        let (min_ns, max_ns) = (histogram.min() * 1_000, histogram.max() * 1_000);
        Latencies { histogram: Some(Box::new(histogram)), sum_ns, min_ns, max_ns }
    }

    /// Decodes the output of [`Latencies::to_bytes`]; `None` if the bytes are invalid. Minimum, maximum and
    /// mean then have the resolution of the buckets.
    pub fn from_bytes(bytes: &[u8]) -> Option<Latencies> {
        if bytes.is_empty() {
            return Some(Latencies::default());
        }
        let mut plain = Vec::new();
        unpack(bytes, &mut plain)?;
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut plain.as_slice()).ok()?;
        let mut histogram = with_room(read.max());
        histogram.add(&read).ok()?;
        Some(Latencies::of(histogram))
    }
}

/// Replaces a histogram, if there is one, by one with space for values up to `us`, and returns it.
#[cold]
fn grow(own: &mut Option<Box<Histogram<u64>>>, us: u64) -> &mut Box<Histogram<u64>> {
    let mut larger = with_room(us);
    if let Some(own) = own {
        let result = larger.add(own.as_ref());
        debug_assert!(result.is_ok());
    }
    own.insert(Box::new(larger))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::V2DeflateSerializer;
    use plimsoll_base::rng::Stream;
    use proptest::prelude::*;

    #[test]
    fn rounding_is_to_the_nearest_microsecond() {
        assert_eq!(
            [micros(0), micros(499), micros(1_499), micros(1_500), micros(u64::MAX / 2)],
            [1, 1, 1, 2, MAX_US]
        );
    }

    #[test]
    fn minimum_maximum_and_mean_are_exact() {
        let mut latencies = Latencies::default();
        [1_234_567, 89, 5_000_001].into_iter().for_each(|ns| latencies.record(ns));
        assert_eq!((latencies.min_ns(), latencies.max_ns()), (Some(89), Some(5_000_001)));
        assert_eq!(latencies.mean_ns(), Some(6_234_657.0 / 3.0));
        assert_eq!(Latencies::default().quantile_ns(0.5), None);
    }

    #[test]
    fn encoding_preserves_every_bucket() {
        let mut latencies = Latencies::default();
        let stream = Stream::new(3, "h");
        (0..10_000).for_each(|i| latencies.record((stream.exponential(i) * 5e6) as u64));
        let back = Latencies::from_bytes(&latencies.to_bytes()).unwrap();
        assert_eq!(back.histogram(), latencies.histogram());
        assert!(Latencies::from_bytes(b"garbage").is_none());
    }

    #[test]
    fn the_encoding_is_that_of_the_library_for_the_whole_range() {
        for values in
            [&[1_000][..], &[5_000_000, 16_383_499], &[16_383_500, 1], &[u64::MAX / 2, 2_000_000_000, 7]]
        {
            let mut latencies = Latencies::default();
            let mut whole: Histogram<u64> = Histogram::new_with_bounds(1, MAX_US, 3).unwrap();
            for ns in values {
                latencies.record(*ns);
                whole.record(micros(*ns)).unwrap();
            }
            let mut expected = Vec::new();
            V2DeflateSerializer::new().serialize(&whole, &mut expected).unwrap();
            assert_eq!(latencies.to_bytes(), expected, "{values:?}");
            assert_eq!(latencies.histogram(), Some(&whole));
        }
    }

    #[test]
    fn the_space_of_a_histogram_depends_on_its_values_only() {
        let room = |values: &[u64]| {
            let mut latencies = Latencies::default();
            values.iter().for_each(|ns| latencies.record(*ns));
            latencies
        };
        let (short, long) = (room(&[1_000_000]), room(&[9_000_000_000]));
        assert_eq!([&short, &long].map(|l| l.histogram().unwrap().high()), [ROOMS_US[0], MAX_US]);
        let mut merged = short.clone();
        merged.merge(&long);
        let mut other = long.clone();
        other.merge(&short);
        assert_eq!([&merged, &other].map(|l| l.histogram().unwrap().high()), [MAX_US; 2]);
        assert_eq!(merged.histogram(), other.histogram());
        assert_eq!(merged.without(&long).to_bytes(), short.to_bytes());
    }

    proptest! {
        /// Merged histograms equal the histogram of all values, and their quantiles are within one bucket of
        /// the exact ones.
        #[test]
        fn merging_loses_nothing(values in prop::collection::vec(1u64..20_000_000_000, 1..400), cut in 0usize..400) {
            let cut = cut.min(values.len());
            let fill = |values: &[u64]| {
                let mut out = Latencies::default();
                values.iter().for_each(|v| out.record(*v));
                out
            };
            let mut merged = fill(&values[..cut]);
            merged.merge(&fill(&values[cut..]));
            let whole = fill(&values);
            prop_assert_eq!(merged.histogram(), whole.histogram());
            prop_assert_eq!((merged.min_ns(), merged.max_ns(), merged.mean_ns()), (whole.min_ns(), whole.max_ns(), whole.mean_ns()));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for q in [0.5, 0.9, 0.99] {
                let exact = sorted[((q * sorted.len() as f64).ceil() as usize).max(1) - 1];
                let found = merged.quantile_ns(q).unwrap();
                let error = (found as f64 - exact as f64).abs();
                prop_assert!(error <= exact as f64 * 0.001 + 1_000.0, "q {} exact {} found {}", q, exact, found);
            }
        }
    }
}
