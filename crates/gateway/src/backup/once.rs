//! A backup of one moment, of a catalog whose log is not followed: a copy of a catalog in a database.

use std::sync::Arc;

use super::bodies::Directories;
use super::error::BackupError;
use super::last;
use super::place::Place;
use super::ship::Shipper;
use crate::catalog::embedded::catalog::EmbeddedCatalog;
use crate::catalog::embedded::head_only;
use crate::catalog::{Catalog, Transaction};
use crate::object::keys;

/// Ships a copy of the catalog with an id, whose state has a time in Unix milliseconds. Bodies in tiers that are
/// directories are not copied. Returns the number of bytes of its log.
///
/// # Errors
/// If the place or the disk fails, or the place has the backup of another catalog.
pub async fn ship_once(
    place: Place,
    copy: &EmbeddedCatalog,
    catalog: &str,
    at_ms: u64,
) -> Result<u64, BackupError> {
    let engine = Arc::clone(copy.engine());
    let mut shipper = Shipper::begin(place, engine, catalog, Directories::default()).await?;
    let mut bytes = ship_all(&mut shipper).await?;
    // Only behind a group with a time, the state of everything before can be restored. The time is not that of now.
    copy.engine().stop_following();
    let work = Box::new(move |t: &mut dyn Transaction| {
        last::put(t, at_ms);
        t.put(keys::TIME.to_vec(), head_only(at_ms.to_be_bytes().to_vec()));
        Ok(true)
    });
    copy.commit(work, 64).await?;
    bytes += ship_all(&mut shipper).await?;
    shipper.write_index(true).await?;
    Ok(bytes)
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
