//! Deletes the pieces that no state of the window needs any more.

use std::collections::{BTreeMap, BTreeSet};

use super::error::BackupError;
use super::history::{History, MAX_IN_FLIGHT, parse_index};
use super::place::{self, Chain, Place};
use super::plan::needed;

/// Number of the last pieces that stay, so that a fence that is created late at the place of a deleted piece has more
/// pieces behind it than a writer has in flight.
const STAY: u64 = 64;

/// Deletes the pieces that no state since a time in Unix milliseconds needs. Fences stay for ever: without one, a
/// process that was stopped for long could continue its epoch. Returns the number of deleted objects.
///
/// # Errors
/// If the place fails. What is left is deleted the next time.
pub async fn prune(place: &Place, history: &History, since_ms: u64) -> Result<u64, BackupError> {
    const { assert!(STAY > MAX_IN_FLIGHT, "a fence at the place of a deleted piece could count") };
    let needed = match needed(history, since_ms) {
        // No state is old enough, or none is complete: then all pieces are needed.
        Err(BackupError::TooOld(_) | BackupError::Incomplete | BackupError::Missing) => return Ok(0),
        needed => needed?,
    };
    let (first, needed) = (history.pieces[needed.first].header.number, needed.pieces);
    // Before the deletions: the states before are given up.
    // It never goes back, because pieces before it may be deleted already.
    place.set_first_number(first.max(history.first_number)).await?;
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for known in &history.pieces {
        last.insert(known.header.epoch, known.header.number);
    }
    let stays = |index: usize| {
        let header = &history.pieces[index].header;
        let is_last = last.get(&header.epoch).is_some_and(|last| last - header.number < STAY);
        needed.contains(&index) || header.fence.is_some() || is_last
    };
    // An index also names pieces that are deleted. Without the listing, they would be deleted at every look.
    let mut names: BTreeSet<String> = BTreeSet::new();
    for epoch in place.epochs(Chain::Log).await? {
        let numbers = place.numbers(Chain::Log, epoch, None).await?;
        names.extend(numbers.into_iter().map(|number| place::piece(epoch, number)));
    }
    let mut deleted = 0;
    for (index, known) in history.pieces.iter().enumerate() {
        // Only what an index has: the headers of other pieces would be lost with them.
        let name = known.header.name();
        if !stays(index) && names.contains(&name) && !history.is_unindexed(index) {
            place.delete(&name).await?;
            deleted += 1;
        }
    }
    let stay = (0..history.pieces.len()).filter(|index| stays(*index));
    let stay = stay.map(|index| &history.pieces[index].header).map(|header| (header.epoch, header.number));
    Ok(deleted + prune_indexes(place, &stay.collect()).await?)
}

/// Deletes the indexes without headers of pieces that stay. Behind a gap, the first header of an index says which
/// segments are in use.
async fn prune_indexes(place: &Place, stay: &BTreeSet<(u64, u64)>) -> Result<u64, BackupError> {
    let mut deleted = 0;
    let mut names: Vec<String> =
        place.list("index", None).await?.into_iter().map(|(name, ..)| name).collect();
    // A writer may not have read the newest one yet.
    names.pop();
    for name in names {
        let read = place.read(&name).await;
        let object = match read {
            Ok(Some(object)) => object,
            Ok(None) | Err(BackupError::Damaged { .. }) => continue,
            Err(error) => return Err(error),
        };
        // A damaged one may be the only one with a header that somebody repairs.
        let Ok(known) = parse_index(&name, &object) else { continue };
        // Only as a whole: behind a gap, the first header must be one that names the segments.
        if known.iter().all(|known| !stay.contains(&(known.header.epoch, known.header.number))) {
            place.delete(&name).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}
