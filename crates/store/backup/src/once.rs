//! A backup of one moment: of a catalog in a directory, whose log the gateway ships only now, or of a copy of a
//! catalog.

use std::sync::Arc;

use super::bodies::Directories;
use super::error::BackupError;
use super::history::History;
use super::last;
use super::place::Place;
use super::restore::find;
use super::ship::Shipper;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::embedded::catalog::EmbeddedCatalog;
use plimsoll_catalog::embedded::{Engine, head_only};
use plimsoll_catalog::{Catalog, Transaction, Work};
use plimsoll_objects::keys;

/// Additions of a backup of one moment to its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shipped {
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bodies in directories.
    pub bodies: u64,
    /// Bytes of these bodies.
    pub body_bytes: u64,
}

/// Ends the following of a log when it is dropped: without that, segments would wait for a follower for ever.
struct Following(Arc<Engine>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.stop_following();
    }
}

/// Ships the log of a catalog that nobody else follows, with the bodies in directories, as far as the place does not
/// have them. The state of now can be restored when this returns.
///
/// # Errors
/// If the place or the disk fails, or the place has the backup of another catalog.
pub async fn ship_log<C: Catalog>(
    place: Place,
    catalog: &C,
    engine: &Arc<Engine>,
    id: &str,
    directories: Directories,
) -> Result<Shipped, BackupError> {
    // Before the first step, so that an error also ends the following.
    let _following = Following(Arc::clone(engine));
    let shipper = Shipper::begin(place.clone(), Arc::clone(engine), id, directories).await?;
    // Only behind a group with a time, the state of everything before can be restored. Groups that were written since
    // the last backup have none: bodies that were deleted since then are missing.
    let work = Box::new(move |t: &mut dyn Transaction| {
        t.put(keys::TIME.to_vec(), head_only(now_ms().to_be_bytes().to_vec()));
        Ok(true)
    });
    ship_state(&place, shipper, catalog, || (), work).await
}

/// Ships a copy of the catalog with an id, whose state has a time in Unix milliseconds, with the bodies in directories.
///
/// # Errors
/// If the place or the disk fails, or the place has the backup of another catalog.
pub async fn ship_once(
    place: Place,
    copy: &EmbeddedCatalog,
    id: &str,
    directories: Directories,
    at_ms: u64,
) -> Result<Shipped, BackupError> {
    let shipper = Shipper::begin(place.clone(), Arc::clone(copy.engine()), id, directories).await?;
    let work = Box::new(move |t: &mut dyn Transaction| {
        last::put(t, at_ms);
        t.put(keys::TIME.to_vec(), head_only(at_ms.to_be_bytes().to_vec()));
        Ok(true)
    });
    // The time is not that of now. Each shipped piece follows the log again, so this comes after them.
    ship_state(&place, shipper, copy, || copy.engine().stop_following_copy(), work).await
}

/// Ships everything that a catalog has, then the group of a transaction with the time of the state. The place has this
/// state when this returns.
async fn ship_state<C: Catalog>(
    place: &Place,
    mut shipper: Shipper,
    catalog: &C,
    before_time: impl FnOnce(),
    time: Work,
) -> Result<Shipped, BackupError> {
    let mut log_bytes = ship_all(&mut shipper).await?;
    before_time();
    catalog.commit(time, 64).await?;
    log_bytes += ship_all(&mut shipper).await?;
    // The next backup to this place then reads one index, not each header.
    shipper.write_index(true).await?;
    // Read again: only a state that the place gives back counts as a backup (decision 0072).
    find(place, &History::load(place).await?, None).await?;
    let (bodies, body_bytes) = (shipper.copied_bodies, shipper.copied_bytes);
    Ok(Shipped { log_bytes, bodies, body_bytes })
}

/// Ships everything that is there. Returns the number of bytes of the log.
async fn ship_all(shipper: &mut Shipper) -> Result<u64, BackupError> {
    let mut bytes = 0;
    loop {
        let step = shipper.step().await?;
        bytes += step.bytes;
        if step.is_up_to_date {
            return Ok(bytes);
        }
    }
}
