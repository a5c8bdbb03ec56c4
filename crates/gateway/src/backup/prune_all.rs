//! Deletes what no state of the window of a backup needs: pieces of the log, and bodies.

use std::collections::BTreeSet;

use super::bodies::{self, Directories};
use super::error::BackupError;
use super::history::History;
use super::place::Place;
use super::prune;
use super::service::directories;
use crate::ambient::now_ms;
use crate::body::location::BlobHead;
use crate::catalog::any::AnyCatalog;
use crate::catalog::{Catalog, CatalogError};
use crate::object::{Store, keys};

/// Milliseconds for which a body stays that no blob has yet: it is copied before the catalog says that it is complete.
const STAY_MS: u64 = 86_400_000;

/// Deletes the pieces and bodies that no state of the last `keep_ms` milliseconds needs. Returns their number.
///
/// # Errors
/// If the place or the catalog fails. What is left is deleted the next time.
pub async fn prune_all(store: &Store<AnyCatalog>, place: &Place, keep_ms: u64) -> Result<u64, BackupError> {
    let now_ms = now_ms();
    let history = History::load(place).await?;
    let pieces = prune::prune(place, &history, now_ms.saturating_sub(keep_ms)).await?;
    let directories = directories(store);
    let mut bodies = 0;
    // A state from before a restore may need bodies that this catalog does not know.
    let is_one_log = history.is_one_log_since(now_ms.saturating_sub(keep_ms));
    if !directories.0.is_empty() && is_one_log {
        let used = used_bodies(store, &directories)?;
        bodies = bodies::prune(place, &used, now_ms.saturating_sub(STAY_MS)).await?;
    }
    Ok(pieces + bodies)
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
        let places = BlobHead::decode(&row.head).into_iter().flat_map(|head| head.locations);
        used.extend(places.filter_map(|place| Some(directories.names(&place)?.0)));
    }
    Ok(used)
}
