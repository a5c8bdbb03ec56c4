//! Counts of the bodies in each pack file that objects refer to. They change in the transactions that change the
//! objects.

use bytes::Bytes;

use super::garbage::discard_blob;
use super::keys;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::pack_file::Slice;
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::codec::{Reader, put_number};
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{CatalogError, Transaction, intact, unless_in_doubt};

/// Bodies of a pack file that objects refer to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    /// True while rows are still being changed to refer to the pack file.
    pub open: bool,
    /// Size of the pack file in bytes.
    pub size: u64,
    /// Number of bodies in the pack file when it was written.
    pub records: u64,
    /// Number of bodies that objects refer to.
    pub live: u64,
    /// Size of these bodies in bytes.
    pub live_bytes: u64,
    /// Size of all bodies in bytes.
    pub bytes: u64,
    /// Number of bodies of versions that have left their buckets, and are kept.
    pub retained: u64,
    /// Time in Unix milliseconds until which objects referred to bodies that have left since; `None` in rows of older
    /// versions, which did not store it.
    pub used_until_ms: Option<u64>,
}

impl Live {
    /// Encodes the counts.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![u8::from(self.open)];
        for number in [self.size, self.records, self.live, self.live_bytes, self.bytes, self.retained] {
            put_number(&mut out, number);
        }
        if let Some(at_ms) = self.used_until_ms {
            put_number(&mut out, at_ms);
        }
        out.into()
    }

    /// Decodes counts; `None` if they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Live> {
        let mut reader = Reader(bytes);
        Some(Live {
            open: reader.byte()? != 0,
            size: reader.number()?,
            records: reader.number()?,
            live: reader.number()?,
            live_bytes: reader.number()?,
            bytes: reader.number()?,
            // Older rows have no such number.
            retained: if reader.0.is_empty() { 0 } else { reader.number()? },
            used_until_ms: if reader.0.is_empty() { None } else { Some(reader.number()?) },
        })
    }

    /// Records that a body is not used after a time in Unix milliseconds.
    fn used_until(&mut self, at_ms: u64) {
        self.used_until_ms = Some(self.used_until_ms.unwrap_or(0).max(at_ms));
    }

    /// Returns the share of the bytes that objects refer to.
    pub fn share(&self) -> f64 {
        self.live_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// Returns the counts of a pack file; `None` if the pack file is not in the catalog, or its counts are in doubt. Wrong
/// counts could lead to the deletion of a pack file that objects still refer to.
pub fn load(t: &mut dyn Transaction, pack_file: &BlobName) -> Result<Option<Live>, CatalogError> {
    let row = unless_in_doubt(t.get(&keys::pack_file(pack_file)))?;
    row.map(|row| intact(Live::decode(&row.head))).transpose()
}

/// Stores the counts of a pack file. A pack file that no object refers to, and that is complete, is garbage from
/// `at_ms` on, in Unix milliseconds.
pub fn store(
    t: &mut dyn Transaction,
    pack_file: &BlobName,
    live: Live,
    at_ms: u64,
) -> Result<(), CatalogError> {
    // While the pack file is open, the rows that will refer to it may not be written yet.
    if live.live + live.retained > 0 || live.open {
        t.put(keys::pack_file(pack_file), head_only(live.encode()));
        return Ok(());
    }
    t.delete(keys::pack_file(pack_file));
    // A body may have left for another pack file after the last version was deleted that is kept here. A catalog that
    // is restored from a backup of the time before still reads it here.
    let used_until_ms = live.used_until_ms.unwrap_or_else(shared_now_ms);
    discard_blob(t, pack_file, at_ms.max(used_until_ms))
}

/// Records that an object does not refer to a slice any more. If it was the last one, the pack file is garbage from
/// `at_ms` on, in Unix milliseconds.
pub fn release(t: &mut dyn Transaction, slice: &Slice, at_ms: u64) -> Result<(), CatalogError> {
    let Some(mut live) = load(t, &slice.pack_file)? else { return Ok(()) };
    live.live = live.live.saturating_sub(1);
    live.live_bytes = live.live_bytes.saturating_sub(slice.size);
    live.used_until(at_ms);
    store(t, &slice.pack_file, live, at_ms)
}

/// Records that the version that refers to a slice has left its bucket, and is kept.
///
/// # Errors
/// If the catalog cannot be read.
pub fn retain(t: &mut dyn Transaction, slice: &Slice) -> Result<(), CatalogError> {
    let Some(mut live) = load(t, &slice.pack_file)? else { return Ok(()) };
    live.live = live.live.saturating_sub(1);
    live.live_bytes = live.live_bytes.saturating_sub(slice.size);
    live.retained += 1;
    // The count of kept bodies is not zero, so the time has no effect.
    store(t, &slice.pack_file, live, shared_now_ms())
}

/// Records that a version that has left its bucket is back.
///
/// # Errors
/// If the catalog cannot be read.
pub fn revive(t: &mut dyn Transaction, slice: &Slice) -> Result<(), CatalogError> {
    let Some(mut live) = load(t, &slice.pack_file)? else { return Ok(()) };
    live.retained = live.retained.saturating_sub(1);
    live.live += 1;
    live.live_bytes += slice.size;
    // The count of live bodies is not zero, so the time has no effect.
    store(t, &slice.pack_file, live, shared_now_ms())
}

/// Records that a version that has left its bucket is not kept any longer. If it was the last one that refers to the
/// pack file, the pack file is garbage from `at_ms` on, in Unix milliseconds.
///
/// # Errors
/// If the catalog cannot be read.
pub fn let_go(t: &mut dyn Transaction, slice: &Slice, at_ms: u64) -> Result<(), CatalogError> {
    let Some(mut live) = load(t, &slice.pack_file)? else { return Ok(()) };
    live.retained = live.retained.saturating_sub(1);
    store(t, &slice.pack_file, live, at_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_a_round_trip() {
        let used_until_ms = Some(1 << 40);
        let live = Live {
            open: true,
            size: 1 << 40,
            records: 4,
            live: 3,
            live_bytes: 2,
            bytes: 8,
            retained: 5,
            used_until_ms,
        };
        assert_eq!(Live::decode(&live.encode()), Some(live));
        assert_eq!((live.share(), Live::decode(&[])), (0.25, None));
        // Rows of older versions end before the last numbers.
        let older = Live { used_until_ms: None, ..live };
        assert_eq!(Live::decode(&older.encode()), Some(older));
        let oldest = older.encode();
        assert_eq!(Live::decode(&oldest[..oldest.len() - 1]), Some(Live { retained: 0, ..older }));
    }
}
