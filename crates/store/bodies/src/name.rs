//! Names of blobs and of catalogs.

use plimsoll_base::rng::mix;

use plimsoll_catalog::ambient::{entropy, wall_now};

/// Name of a blob, and of the backends' objects: a UUID, version 7 (RFC 9562).
pub type BlobName = [u8; 16];

/// Id of a catalog: a UUID, version 7 (RFC 9562).
pub type CatalogId = [u8; 16];

/// Returns a new name: a UUID, version 7 (RFC 9562), so names sort by time.
pub fn new_name() -> BlobName {
    named_at(wall_now().as_millisecond() as u64)
}

/// Returns a new name with a time in Unix milliseconds.
pub fn named_at(ms: u64) -> BlobName {
    let (a, b) = (mix(entropy()), mix(entropy() ^ 1));
    let mut name = [0; 16];
    name[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
    name[6..8].copy_from_slice(&a.to_be_bytes()[..2]);
    name[8..].copy_from_slice(&b.to_be_bytes());
    name[6] = name[6] & 0x0f | 0x70;
    name[8] = name[8] & 0x3f | 0x80;
    name
}
