//! Deletes what no state of the window of a backup needs: pieces of the log, and bodies.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;

use super::bodies::{self, Directories};
use super::error::BackupError;
use super::history::History;
use super::place::Place;
use super::plan::{needed, oldest, salt_of_runs};
use super::prune;
use super::restore::{groups_of, read_pieces};
use super::rows::Rows;
use plimsoll_bodies::location::{BlobHead, Location};
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::{Store, keys};

/// Milliseconds for which a body stays that no blob has: its blob may have become complete after the catalog was read.
const STAY_MS: u64 = 86_400_000;

/// Place in which the bodies that a window needs are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// In the catalog. While it does not know them all, no body is deleted.
    Catalog,
    /// If the catalog does not know them all, also in the log of the window, which is read as a whole.
    Log,
}

/// Deletes the pieces and bodies that no state of the last `keep_ms` milliseconds needs. Returns their number.
///
/// # Errors
/// If the place or the catalog fails. What is left is deleted the next time.
pub async fn prune_all(
    store: &Store<AnyCatalog>,
    place: &Place,
    keep_ms: u64,
    lookup: Lookup,
) -> Result<u64, BackupError> {
    let now_ms = now_ms();
    let since_ms = now_ms.saturating_sub(keep_ms);
    let history = History::load(place).await?;
    // First the pieces: `prune` gives older states up before their bodies are deleted.
    let pieces = prune::prune(place, &history, since_ms).await?;
    let directories = Directories::of(store.blobs.tiers());
    // A state from before a restore may need bodies that this catalog does not know, and so may one from before the
    // catalog deleted what it does not keep any longer.
    let knows_all = history.is_one_log_since(since_ms) && keep_ms <= store.retain_ms;
    if directories.0.is_empty() || !(knows_all || lookup == Lookup::Log) {
        return Ok(pieces);
    }
    let mut used = used_bodies(store, &directories)?;
    if !knows_all {
        used.extend(logged_bodies(place, &history, since_ms, &directories).await?);
    }
    Ok(pieces + bodies::prune(place, &used, now_ms.saturating_sub(STAY_MS)).await?)
}

/// Returns the names of the bodies in directories that the states since a time need, according to the log. `since_ms`
/// is a Unix time in milliseconds.
async fn logged_bodies(
    place: &Place,
    history: &History,
    since_ms: u64,
    directories: &Directories,
) -> Result<BTreeSet<String>, BackupError> {
    let oldest_ms = oldest(history).map_or(0, |known| known.header.least_ms);
    let needed = needed(history, since_ms.max(oldest_ms))?;
    // What the log says before the window counts only as far as the first state still has it.
    let (mut before, mut used, mut salt) = (Rows::default(), BTreeSet::new(), None);
    let name = |place: &Location| Some(directories.names(place)?.0);
    let mut read = std::pin::pin!(read_pieces(place, history, needed.pieces));
    while let Some((index, runs)) = read.try_next().await? {
        let headers = &history.pieces[index].header.runs;
        salt = salt_of_runs(headers, &runs).or(salt);
        let salt = salt.ok_or(BackupError::Incomplete)?;
        for (run, bytes) in headers.iter().zip(&runs) {
            for group in groups_of(run.segment, run.offset, bytes, salt) {
                if index < needed.first {
                    before.add(&group);
                } else {
                    // A state within the window may have it, also if a later group removes it.
                    used.extend(directories.of_group(&group).iter().filter_map(name));
                }
            }
        }
    }
    used.extend(before.blobs.values().flat_map(|head| &head.locations).filter_map(name));
    Ok(used)
}

/// Returns the names of the bodies that the blobs of the catalog have in directories.
fn used_bodies(
    store: &Store<AnyCatalog>,
    directories: &Directories,
) -> Result<BTreeSet<String>, CatalogError> {
    let mut used = BTreeSet::new();
    let mut scan = store.catalog.scan();
    scan.seek(std::ops::Bound::Included(keys::BLOBS))?;
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::BLOBS)
    {
        // Of blobs in all states: an older state may have a discarded one as complete.
        let places = BlobHead::decode(&row.head).into_iter().flat_map(|head| head.locations);
        used.extend(places.filter_map(|place| Some(directories.names(&place)?.0)));
    }
    Ok(used)
}
