//! Filters that tell which keys a table cannot contain: blocked Bloom filters, in which all bits of a key lie in one
//! cache line (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007).

/// Bits per key. With [`PROBES`] bits set per key, about 1.5% of the absent keys pass.
const BITS_PER_KEY: usize = 10;
/// Bits set per key.
const PROBES: u32 = 6;
/// Words of 64 bits in a block of one cache line.
const WORDS: usize = 8;

/// A filter over the hashes of keys.
#[derive(Debug, Default)]
pub struct Bloom {
    words: Vec<u64>,
}

impl Bloom {
    /// Creates an empty filter for a number of keys.
    pub fn new(keys: usize) -> Bloom {
        // At least one block, because `from_bytes` refuses a filter without blocks.
        let blocks = (keys * BITS_PER_KEY).div_ceil(64 * WORDS).max(1);
        Bloom { words: vec![0; blocks * WORDS] }
    }

    /// Returns the filter with these little-endian words; `None` if the length is impossible.
    pub fn from_bytes(bytes: &[u8]) -> Option<Bloom> {
        let words: Vec<u64> =
            bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)).collect();
        (!words.is_empty() && words.len().is_multiple_of(WORDS) && bytes.len() == words.len() * 8)
            .then_some(Bloom { words })
    }

    /// Returns the words of the filter, which [`Bloom::from_bytes`] reads in little-endian order.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the index of the first word of the block of a hash.
    fn block(&self, hash: u64) -> usize {
        let blocks = (self.words.len() / WORDS) as u64;
        ((u128::from(hash) * u128::from(blocks)) >> 64) as usize * WORDS
    }

    /// Returns the bits of a hash within its block.
    fn bits(hash: u64) -> impl Iterator<Item = usize> {
        // The upper half selects the block, so the bits come from the lower half.
        let (start, step) = (hash as u32, (hash >> 16) as u32 | 1);
        // The step is odd, so the bits of a hash are different.
        (0..PROBES).map(move |i| (start.wrapping_add(step.wrapping_mul(i)) % 512) as usize)
    }

    /// Adds a hash.
    pub fn insert(&mut self, hash: u64) {
        let block = self.block(hash);
        for bit in Bloom::bits(hash) {
            self.words[block + bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Returns false if the hash was not added.
    pub fn may_contain(&self, hash: u64) -> bool {
        let block = self.block(hash);
        Bloom::bits(hash).all(|bit| self.words[block + bit / 64] & (1 << (bit % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::rng::mix;

    #[test]
    fn added_keys_pass_and_few_others_do() {
        let mut bloom = Bloom::new(100_000);
        (0..100_000).for_each(|i| bloom.insert(mix(i)));
        let bytes: Vec<u8> = bloom.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let bloom = Bloom::from_bytes(&bytes).unwrap();
        assert!((0..100_000).all(|i| bloom.may_contain(mix(i))));
        let wrong = (100_000..200_000).filter(|i| bloom.may_contain(mix(*i))).count();
        assert!(wrong < 3_000, "{wrong} of 100,000");
        assert!(Bloom::from_bytes(&[0; 65]).is_none() && Bloom::from_bytes(&[]).is_none());
    }
}
