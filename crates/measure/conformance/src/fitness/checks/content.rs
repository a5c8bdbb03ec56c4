//! Content and sources of copies for several checks.

use super::super::scene::Scene;
use plimsoll_base::net::encode::encode_into;

/// Smallest size in bytes of a part that is not the last one.
pub const MIN_PART: usize = 5 << 20;

/// Returns content whose bytes depend on their position.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 31) ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Returns the value of `x-amz-copy-source` for a key.
pub fn copy_source(scene: &Scene<'_>, key: &str) -> String {
    let mut source = format!("/{}/", scene.client.bucket());
    encode_into(&mut source, key.as_bytes(), true);
    source
}
