//! The pieces of a backup in their order.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::error::BackupError;
use super::header::{Known, from_ranges};
use super::place::{self, Chain, Place};
use plimsoll_catalog::guard::{self, Guard};

/// Number of requests in flight while a backup is read.
const IN_FLIGHT: usize = 32;
/// Bytes of a piece that are read to get its header.
const HEADER_BYTES: u64 = 16 << 10;
/// Maximum number of entries that a writer creates before the first of them is confirmed; pieces are created one after
/// the other. A fence with more objects behind it was created late, at the place of one that was deleted.
pub const MAX_IN_FLIGHT: u64 = 16;
/// Largest index in bytes.
const MAX_INDEX: usize = 256 << 20;

/// Headers of the pieces of a backup, in their order.
#[derive(Debug, Default)]
pub struct History {
    /// Headers from the oldest known piece to the last one. The pieces of old ones may be deleted.
    pub pieces: Vec<Known>,
    /// Number of the first piece whose state was not given up by a deletion.
    pub first_number: u64,
    /// Epochs and numbers of the pieces that are in no index.
    unindexed: BTreeSet<(u64, u64)>,
}

/// Returns the headers in an index.
///
/// # Errors
/// If the index is damaged.
pub fn parse_index(name: &str, object: &[u8]) -> Result<Vec<Known>, BackupError> {
    let wrong = || BackupError::damaged(name, "it is not an index of a backup");
    let text = zstd::bulk::decompress(object, MAX_INDEX).map_err(|_| wrong())?;
    let text = String::from_utf8(text).map_err(|_| wrong())?;
    text.lines().map(|line| Known::parse(line).ok_or_else(wrong)).collect()
}

/// Returns the content of an index of pieces.
///
/// # Errors
/// If there is too little memory.
pub fn encode_index(pieces: &[Known]) -> std::io::Result<Bytes> {
    let text: String = pieces.iter().flat_map(|known| [known.text.as_str(), "\n"]).collect();
    Ok(zstd::bulk::compress(text.as_bytes(), 3)?.into())
}

/// Reads the header of a piece; `None` if it does not exist.
///
/// # Errors
/// If the place fails, or the piece is damaged.
pub async fn read_header(place: &Place, name: &str) -> Result<Option<Known>, BackupError> {
    let mut length = HEADER_BYTES;
    loop {
        let Some(bytes) = place.read_start(name, length).await? else { return Ok(None) };
        match Known::decode(name, &bytes)? {
            Ok(known) => return Ok(Some(known)),
            // The object ends before its header, so a longer read would return the same.
            Err(needed) if (bytes.len() as u64) < length.min(needed) => {
                return Err(BackupError::damaged(name, "it is too short"));
            }
            Err(needed) => length = needed,
        }
    }
}

/// Returns true if a header refers to the one before it.
fn follows(before: &Known, next: &Known) -> bool {
    let epoch = before.header.fence.unwrap_or(before.header.epoch);
    epoch == next.header.epoch && next.header.previous == before.digest()
}

/// Returns true if a piece is the next one.
fn is_next(before: &Known, next: &Known) -> bool {
    before.header.number + 1 == next.header.number && follows(before, next)
}

impl History {
    /// Reads the headers of all pieces.
    ///
    /// # Errors
    /// If the place fails, or the digest of a header differs from the digest in the next piece.
    pub async fn load(place: &Place) -> Result<History, BackupError> {
        let mut all: BTreeMap<(u64, u64), Known> = BTreeMap::new();
        // Indexes first: each one saves the requests for hundreds of headers.
        let indexes = place.list("index", None).await?;
        let read = |(name, ..): (String, u64, i64)| async move {
            let read = place.read(&name).await;
            let parsed = match read {
                Ok(Some(object)) => parse_index(&name, &object),
                // `prune_indexes` may have deleted it since the listing.
                Ok(None) => Ok(Vec::new()),
                Err(error) => Err(error),
            };
            match parsed {
                Err(error @ BackupError::Damaged { .. }) => {
                    plimsoll_catalog::log::warn(&format!("an index of the backup is left out: {error}"));
                    Ok(None)
                }
                parsed => parsed.map(Some),
            }
        };
        let mut is_complete = true;
        let mut indexed = stream::iter(indexes.into_iter().map(read)).buffered(IN_FLIGHT);
        while let Some(found) = indexed.try_next().await? {
            is_complete &= found.is_some();
            let found = found.unwrap_or_default().into_iter();
            all.extend(found.map(|known| ((known.header.epoch, known.header.number), known)));
        }
        drop(indexed);
        let mut unindexed = BTreeSet::new();
        for epoch in place.epochs(Chain::Log).await? {
            // Behind the last index of an epoch. A damaged one may be any, and its pieces have their headers, too.
            let after = all.range((epoch, 0)..=(epoch, u64::MAX)).next_back().map(|((_, number), _)| *number);
            let after = after.filter(|_| is_complete);
            let mut names = place.numbers(Chain::Log, epoch, after).await?;
            names.retain(|number| !all.contains_key(&(epoch, *number)));
            let names = names.into_iter().map(|number| place::piece(epoch, number));
            let read = |name: String| async move { read_header(place, &name).await };
            let mut headers = stream::iter(names.map(read)).buffered(IN_FLIGHT);
            while let Some(found) = headers.try_next().await? {
                // `prune` may have deleted it since the listing.
                let Some(known) = found else { continue };
                let key = (known.header.epoch, known.header.number);
                unindexed.insert(key);
                all.insert(key, known);
            }
        }
        // After the headers: a deletion that ran meanwhile has written it before it deleted pieces.
        let first_number = place.first_number().await?;
        let mut history = History { first_number, unindexed, ..History::default() };
        history.order(all);
        history.check_chain()?;
        Ok(history)
    }

    /// Reads the headers of the pieces that were created since the last reading.
    ///
    /// # Errors
    /// As [`History::load`].
    pub async fn refresh(&mut self, place: &Place) -> Result<(), BackupError> {
        if !self.read_new(place).await? {
            *self = History::load(place).await?;
        }
        Ok(())
    }

    /// Adds the pieces behind the last one. Returns false if they do not follow it, as when some were deleted.
    async fn read_new(&mut self, place: &Place) -> Result<bool, BackupError> {
        let Some(mut last) = self.pieces.last().cloned() else { return Ok(false) };
        loop {
            let (number, epoch) = (last.header.number, last.header.epoch);
            // A fence that was created late has pieces behind it.
            if last.header.fence.is_some()
                && !place.numbers(Chain::Log, epoch, Some(number)).await?.is_empty()
            {
                return Ok(false);
            }
            let epoch = last.header.fence.unwrap_or(epoch);
            let names = place.numbers(Chain::Log, epoch, Some(number)).await?;
            let names = names.into_iter().map(|number| place::piece(epoch, number));
            let read = |name: String| async move { read_header(place, &name).await };
            let mut headers = stream::iter(names.map(read)).buffered(IN_FLIGHT);
            let mut is_end = true;
            while let Some(found) = headers.try_next().await? {
                // A piece was deleted, or is another one: `load` looks at all headers again.
                let Some(known) = found.filter(|known| is_next(&last, known)) else { return Ok(false) };
                self.pieces.push(known.clone());
                (last, is_end) = (known, false);
                if last.header.fence.is_some() {
                    break;
                }
            }
            if is_end {
                return Ok(true);
            }
        }
    }

    /// Takes the pieces in their order, without those behind the fence of their epoch, which were never part of the
    /// backup.
    fn order(&mut self, all: BTreeMap<(u64, u64), Known>) {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        all.keys().for_each(|(epoch, number)| {
            last.insert(*epoch, *number);
        });
        let mut fenced: Option<u64> = None;
        for ((epoch, number), known) in all {
            // The pieces behind a late fence are part of the backup, so only the fence is left out.
            let is_late = last.get(&epoch).is_some_and(|last| *last > number + MAX_IN_FLIGHT);
            if fenced == Some(epoch)
                || known.header.fence.is_some() && is_late && guard::is_made(Guard::Fence)
            {
                continue;
            }
            fenced = known.header.fence.map(|_| epoch);
            self.pieces.push(known);
        }
    }

    /// Checks that each header refers to the one before it.
    fn check_chain(&self) -> Result<(), BackupError> {
        for pair in self.pieces.windows(2) {
            let (before, next) = (&pair[0], &pair[1]);
            // Behind a deleted piece, there is no header to compare with; `lost_before` looks at such gaps.
            let is_next = before.header.number + 1 == next.header.number;
            if is_next && !follows(before, next) && guard::is_made(Guard::Chain) {
                let name = next.header.name();
                return Err(BackupError::damaged(name, "it does not follow the piece before it"));
            }
        }
        Ok(())
    }

    /// Returns the first piece that is lost, of those that the state behind a piece needs: the piece behind it does not
    /// say which segments were in use, which is so behind pieces that were deleted in order.
    pub fn lost_before(&self, index: usize) -> Option<String> {
        let pairs = self.pieces[self.first_of(index)..=index].windows(2);
        // A fence says nothing about segments; the piece behind it does.
        let lost = pairs.filter(|pair| {
            let next = &pair[1].header;
            pair[0].header.number + 1 != next.number && next.live.is_none() && next.fence.is_none()
        });
        lost.map(|pair| place::piece(pair[0].header.epoch, pair[0].header.number + 1)).next()
    }

    /// Returns true if the states since a time in Unix milliseconds belong to one log.
    pub fn is_one_log_since(&self, since_ms: u64) -> bool {
        let since = self.pieces.iter().position(|known| known.header.until_ms >= since_ms);
        let since = since.unwrap_or(self.pieces.len());
        self.pieces.iter().skip(since).skip(1).all(|known| !known.header.is_first)
    }

    /// Returns true if no index has the header of a piece.
    pub fn is_unindexed(&self, index: usize) -> bool {
        let header = &self.pieces[index].header;
        self.unindexed.contains(&(header.epoch, header.number))
    }

    /// Returns the headers that no index has.
    pub fn unindexed(&self) -> Vec<Known> {
        let indexes = (0..self.pieces.len()).filter(|index| self.is_unindexed(*index));
        indexes.map(|index| self.pieces[index].clone()).collect()
    }

    /// Returns the index of the first piece of the log to which a piece belongs.
    pub fn first_of(&self, index: usize) -> usize {
        self.pieces[..=index].iter().rposition(|known| known.header.is_first).unwrap_or(0)
    }

    /// Returns the segments that the states in a piece need; `None` if no header says which ones were in use.
    pub fn live(&self, index: usize) -> Option<Vec<u32>> {
        let pieces = &self.pieces[self.first_of(index)..=index];
        let from = pieces.iter().rposition(|known| known.header.live.is_some())?;
        let named = pieces[from].header.live.as_deref().and_then(from_ranges)?;
        // The list was made before the piece, which may begin further segments (`step` in ship.rs).
        let begun = pieces[from..].iter().flat_map(|known| &known.header.runs).map(|run| run.segment);
        let all: BTreeSet<u32> = named.into_iter().chain(begun).collect();
        Some(all.into_iter().collect())
    }
}
