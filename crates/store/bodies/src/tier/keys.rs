//! Keys of the numbers of the tiers in the catalog.

/// Prefix of the keys of tiers.
pub const TIERS: &[u8] = b"t";

/// Returns the key of a tier.
pub fn tier(name: &str) -> Vec<u8> {
    [TIERS, name.as_bytes()].concat()
}
