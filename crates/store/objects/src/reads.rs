//! Reads per day of each object, as a mean that forgets the past exponentially.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use plimsoll_catalog::embedded::record::{crc32c, hash};

/// Seconds in which a rate without reads falls to 1/e.
const FORGET_S: f64 = 3.0 * DAY_S;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
/// Number of parts of the counts, each with a lock.
const SHARDS: usize = 16;
/// Maximum number of objects whose rates are known, about 24 bytes each.
const MAX_OBJECTS: usize = 1 << 20;
/// Rate below which an object is forgotten first, in reads per day.
const LEAST: f32 = 0.01;
/// First bytes of the file.
const MAGIC: &[u8; 8] = b"PLIMREA1";

/// The rate of an object at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rate {
    per_day: f32,
    /// Unix time in seconds.
    at_s: u32,
}

impl Rate {
    fn at(self, now_s: u32) -> f32 {
        // A clock that was set back must not raise a rate.
        let passed = f64::from(now_s.saturating_sub(self.at_s));
        self.per_day * (-passed / FORGET_S).exp() as f32
    }
}

/// Rates of objects by the hashes of their keys.
#[derive(Debug)]
pub struct Reads {
    shards: [Mutex<HashMap<u64, Rate>>; SHARDS],
}

impl Default for Reads {
    fn default() -> Reads {
        Reads { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Reads {
    fn shard(&self, hash: u64) -> std::sync::MutexGuard<'_, HashMap<u64, Rate>> {
        let index = (hash >> 60) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a read of the object with this key of the catalog.
    pub fn count(&self, catalog_key: &[u8], now_s: u32) {
        let hash = hash(catalog_key);
        let mut shard = self.shard(hash);
        // Without a limit, reads of many objects would fill the memory.
        if shard.len() >= MAX_OBJECTS / SHARDS && !shard.contains_key(&hash) {
            shrink(&mut shard, now_s);
        }
        let rate = shard.entry(hash).or_insert(Rate { per_day: 0.0, at_s: now_s });
        // With this weight of a read, a steady rate converges to its number of reads per day.
        let per_day = rate.at(now_s) + (DAY_S / FORGET_S) as f32;
        *rate = Rate { per_day, at_s: now_s };
    }

    /// Returns the reads per day of an object; 0 if none are known.
    pub fn per_day(&self, catalog_key: &[u8], now_s: u32) -> f64 {
        let hash = hash(catalog_key);
        self.shard(hash).get(&hash).map_or(0.0, |rate| f64::from(rate.at(now_s)))
    }

    /// Writes the rates to a file, which replaces an earlier one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        for shard in &self.shards {
            for (hash, rate) in &*shard.lock().unwrap_or_else(PoisonError::into_inner) {
                bytes.extend_from_slice(&hash.to_le_bytes());
                bytes.extend_from_slice(&rate.per_day.to_le_bytes());
                bytes.extend_from_slice(&rate.at_s.to_le_bytes());
            }
        }
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        // Without a sync: after a power loss, `load` takes a broken file for none.
        let new = path.with_extension("new");
        std::fs::write(&new, bytes)?;
        std::fs::rename(new, path)
    }

    /// Reads the rates from a file. A missing or damaged file has none: rates are only a hint.
    pub fn load(path: &Path) -> Reads {
        let reads = Reads::default();
        let Ok(bytes) = std::fs::read(path) else { return reads };
        let Some((content, crc)) = bytes.split_last_chunk() else { return reads };
        let Some(entries) = content.strip_prefix(MAGIC) else { return reads };
        if u32::from_le_bytes(*crc) != crc32c(content) {
            return reads;
        }
        for entry in entries.chunks_exact(16) {
            let [h @ .., r0, r1, r2, r3, a0, a1, a2, a3] = entry else { continue };
            let Ok(hash) = <[u8; 8]>::try_from(h).map(u64::from_le_bytes) else { continue };
            let per_day = f32::from_le_bytes([*r0, *r1, *r2, *r3]);
            let at_s = u32::from_le_bytes([*a0, *a1, *a2, *a3]);
            // A rate that is infinite would never fall, and its object would never be forgotten.
            if per_day.is_finite() && per_day >= 0.0 {
                reads.shard(hash).insert(hash, Rate { per_day, at_s });
            }
        }
        reads
    }
}

/// Removes the objects with low rates; if there are none, those below twice, four times, and so on of the least rate.
fn shrink(shard: &mut HashMap<u64, Rate>, now_s: u32) {
    let (before, mut least) = (shard.len(), LEAST);
    while shard.len() == before && least < f32::MAX / 2.0 {
        shard.retain(|_, rate| rate.at(now_s) >= least);
        least *= 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::directory::TempDir;

    const DAY: u32 = 86_400;

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let reads = Reads::default();
        for hour in 0..24 * 30 {
            reads.count(b"hourly", hour * 3600);
            if hour % 48 == 0 {
                reads.count(b"rarely", hour * 3600);
            }
        }
        let now = 30 * DAY;
        let hourly = reads.per_day(b"hourly", now);
        assert!((23.0..25.0).contains(&hourly), "{hourly}");
        let rarely = reads.per_day(b"rarely", now);
        assert!((0.3..0.7).contains(&rarely), "{rarely}");
        // A rate falls to 1/e in three days, and to almost nothing in a month.
        let later = reads.per_day(b"hourly", now + 3 * DAY) / hourly;
        assert!((later - (-1.0f64).exp()).abs() < 1e-3, "{later}");
        assert!(reads.per_day(b"hourly", now + 30 * DAY) < 0.002);
        assert_eq!(reads.per_day(b"never", now), 0.0);
    }

    #[test]
    fn rates_survive_a_restart_and_damage_is_no_error() {
        let dir = TempDir::new("reads");
        let path = dir.path().join("reads");
        let reads = Reads::default();
        for key in 0..1000u32 {
            (0..=key % 7).for_each(|_| reads.count(&key.to_be_bytes(), 100));
        }
        reads.save(&path).unwrap();
        let loaded = Reads::load(&path);
        for key in 0..1000u32 {
            assert_eq!(loaded.per_day(&key.to_be_bytes(), 500), reads.per_day(&key.to_be_bytes(), 500));
        }
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Reads::load(&path).per_day(&7u32.to_be_bytes(), 500), 0.0);
        assert_eq!(Reads::load(&dir.path().join("none")).per_day(b"x", 0), 0.0);
    }

    #[test]
    fn the_number_of_objects_is_bounded_and_frequent_ones_stay() {
        let mut shard = HashMap::new();
        for hash in 0..10_000u64 {
            shard.insert(hash, Rate { per_day: if hash < 10 { 50.0 } else { 0.3 }, at_s: 0 });
        }
        shrink(&mut shard, 0);
        assert_eq!(shard.len(), 10);
    }
}
