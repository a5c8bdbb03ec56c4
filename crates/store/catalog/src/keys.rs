//! Keys that the engines know: they write, or look for, these rows themselves. `objects/keys.rs` has all keys.

/// Key of the time of the last group of the log, in Unix milliseconds.
pub const TIME: &[u8] = b"h";
/// Prefix of the keys of buckets.
pub const BUCKETS: &[u8] = b"b";
