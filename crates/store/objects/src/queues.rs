//! Queues in the catalog: bytes that wait for their deletion, and moves that have begun.

use std::ops::Bound;

use serde::Serialize;

use crate::keys;
use plimsoll_bodies::location::Location;
use plimsoll_catalog::{Catalog, CatalogError};

/// Maximum number of unfinished moves that are counted.
pub const MAX_MOVES: u64 = 10_000;

/// Queues in the catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Queues {
    /// Milliseconds since the first bytes should have been deleted; 0 if none are due.
    pub deletion_overdue_ms: u64,
    /// Number of unfinished moves, at most [`MAX_MOVES`].
    pub moves: u64,
    /// Age of the oldest unfinished move in milliseconds; 0 if there is none.
    pub oldest_move_ms: u64,
}

/// Reads the queues. Garbage is kept for `retain_ms` milliseconds.
///
/// # Errors
/// If the catalog cannot be read.
pub fn queues(catalog: &impl Catalog, now_ms: u64, retain_ms: u64) -> Result<Queues, CatalogError> {
    let mut queues = Queues::default();
    let mut scan = catalog.scan();
    // Keys begin with the time, so the first entry is the oldest one.
    scan.seek(Bound::Included(keys::GARBAGE))?;
    if let Some((at_ms, _)) = scan
        .next()?
        .and_then(|(key, _)| key.starts_with(keys::GARBAGE).then(|| keys::parse_garbage(&key)).flatten())
    {
        queues.deletion_overdue_ms = now_ms.saturating_sub(at_ms.saturating_add(retain_ms));
    }
    scan.seek(Bound::Included(keys::INTENTS))?;
    while let Some((key, _)) = scan.next()?
        && let Some(place) = key.strip_prefix(keys::INTENTS)
        && queues.moves < MAX_MOVES
    {
        queues.moves += 1;
        let begun_ms = Location::decode(place).and_then(|place| place.written_ms()).unwrap_or(now_ms);
        queues.oldest_move_ms = queues.oldest_move_ms.max(now_ms.saturating_sub(begun_ms));
    }
    Ok(queues)
}
