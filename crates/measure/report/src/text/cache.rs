//! The cache that a sweep of working sets shows, in words.

use plimsoll_base::units::{format_bytes, format_ms};

use plimsoll_judge::summary::result::{CacheFigures, CacheFinding};

/// Returns the conclusion of a sweep of working sets in a sentence.
pub fn sentence(found: &CacheFigures) -> String {
    let ms = |value: Option<f64>| value.map_or("-".into(), |ms| format!("{} ms", format_ms(ms)));
    let size = |bytes: f64| format_bytes(bytes as u64);
    match (found.finding, found.bytes, found.low_bytes, found.high_bytes) {
        (CacheFinding::Found, Some(bytes), Some(low), Some(high)) => format!(
            "{}: your figures up to {} are those of a cache (95%: {} to {}): hits {}, misses {}",
            found.operation,
            size(bytes),
            size(low),
            size(high),
            ms(found.hit_ms),
            ms(found.miss_ms)
        ),
        (CacheFinding::None, ..) => {
            format!("{}: no cache found: {} (p50 {})", found.operation, found.reason, ms(found.hit_ms))
        }
        _ => format!("{}: the search for a cache is inconclusive: {}", found.operation, found.reason),
    }
}
