//! Counter-based random numbers, so that every draw is reproducible. No other module generates random numbers.
//!
//! A [`Stream`] is a function from a counter to a number. Draw `i` of a stream depends only on the seed, the label
//! of the stream and `i`, not on previous draws or on the thread. A schedule is therefore the same for any number of
//! workers.

use rustix::rand::{GetRandomFlags, getrandom};

/// Applies one step of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014,
/// with Stafford's variant 13): a bijection of 64-bit words whose output on a counter passes BigCrush.
#[inline]
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns 64 random bits from the operating system, for names and keys that must be unique. Schedules never use them.
///
/// # Panics
/// If the operating system provides no random bits. A run id that is not unique could delete another run's objects.
pub fn entropy() -> u64 {
    let mut bytes = [0u8; 8];
    let filled = rustix::io::retry_on_intr(|| getrandom(&mut bytes[..], GetRandomFlags::empty()));
    assert_eq!(filled, Ok(8), "the operating system provides no random bits");
    u64::from_le_bytes(bytes)
}

/// Returns a 64-bit hash of a name (FNV-1a, then [`mix`]), from which streams and dataset identities are derived.
pub fn hash_name(name: &str) -> u64 {
    let fnv = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    mix(fnv)
}

/// A reproducible sequence of numbers, addressed by a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// Returns the stream called `label` for `seed`. Streams with different labels are independent.
    pub fn new(seed: u64, label: &str) -> Stream {
        Stream { key: mix(seed ^ hash_name(label)) }
    }

    /// Returns draw `i`, uniform over all 64-bit words.
    #[inline]
    pub fn at(self, i: u64) -> u64 {
        mix(self.key.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ self.key.rotate_left(32))
    }

    /// Fills `out` with the draws from 0 on, in little-endian order. A last part of less than 8 bytes stays as it is.
    pub fn fill(self, out: &mut [u8]) {
        for (i, word) in out.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&self.at(i as u64).to_le_bytes());
        }
    }

    /// Returns draw `i`, uniform over `[0, 1)` with 53 bits of precision.
    #[inline]
    pub fn unit(self, i: u64) -> f64 {
        (self.at(i) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns draw `i`, uniform over `0..n`; 0 if `n` is 0. The bias is below `n / 2^64` (Lemire 2019, without the
    /// rejection step, so that each counter value gives exactly one draw).
    #[inline]
    pub fn below(self, i: u64, n: u64) -> u64 {
        ((u128::from(self.at(i)) * u128::from(n)) >> 64) as u64
    }

    /// Returns draw `i` from the exponential distribution with mean 1 (by inversion).
    #[inline]
    pub fn exponential(self, i: u64) -> f64 {
        -(1.0 - self.unit(i)).ln()
    }

    /// Returns draw `i` from the standard normal distribution (Box and Muller 1958, cosine branch).
    pub fn normal(self, i: u64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit(2 * i)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit(2 * i + 1)).cos()
    }
}

/// Computes the cumulative distribution function of the standard normal distribution (Abramowitz and Stegun 7.1.26;
/// error below 2e-7).
pub fn normal_cdf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs() / std::f64::consts::SQRT_2);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let tail = poly * (-x * x / 2.0).exp() / 2.0;
    if x >= 0.0 { 1.0 - tail } else { tail }
}

/// Returns the value below which a share (0 to 1) of a standard normal distribution lies, from -8 to 8, by bisection.
pub fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_cdf(middle) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::chi_square;

    #[test]
    fn splitmix_matches_its_published_vector() {
        // First outputs of the reference implementation (splitmix64.c, Vigna) with seed 1234567.
        let golden = 0x9e37_79b9_7f4a_7c15_u64;
        let outputs: Vec<u64> =
            (0..3).map(|i| mix(1_234_567_u64.wrapping_add(golden.wrapping_mul(i)))).collect();
        assert_eq!(outputs, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn draws_are_uniform() {
        let stream = Stream::new(42, "keys");
        let mut cells = [0u64; 100];
        (0..100_000).for_each(|i| cells[stream.below(i, 100) as usize] += 1);
        chi_square::assert_fits(&cells, &[0.01; 100]);
    }

    #[test]
    fn exponential_and_normal_draws_have_the_expected_moments() {
        let stream = Stream::new(7, "moments");
        let n = 200_000;
        let mean = (0..n).map(|i| stream.exponential(i)).sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        let (sum, square) = (0..n).fold((0.0, 0.0), |(s, q), i| {
            let x = stream.normal(i);
            (s + x, q + x * x)
        });
        assert!((sum / n as f64).abs() < 0.01 && (square / n as f64 - 1.0).abs() < 0.01);
    }

    #[test]
    fn normal_quantiles_are_those_of_published_tables() {
        for (share, value) in [(0.5, 0.0), (0.975, 1.959_964), (0.01, -2.326_348), (0.999, 3.090_232)] {
            assert!((normal_quantile(share) - value).abs() < 1e-4, "{share}: {}", normal_quantile(share));
        }
        assert!(normal_quantile(0.0) < -7.9 && normal_quantile(1.0) > 7.9);
    }

    #[test]
    fn different_labels_and_seeds_give_different_streams() {
        let draws = [Stream::new(1, "a").at(0), Stream::new(1, "b").at(0), Stream::new(2, "a").at(0)];
        assert!(draws[0] != draws[1] && draws[0] != draws[2]);
    }
}
