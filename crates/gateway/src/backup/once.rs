//! A backup of one moment, of a catalog whose log is not followed: a copy of a catalog in a database.

use std::sync::Arc;

use super::bodies::Directories;
use super::error::BackupError;
use super::history::History;
use super::last;
use super::place::Place;
use super::prune::prune;
use super::ship::Shipper;
use crate::catalog::embedded::catalog::EmbeddedCatalog;
use crate::catalog::embedded::head_only;
use crate::catalog::{Catalog, Transaction};
use crate::object::keys;

/// Settings of a backup of one moment.
pub struct OnceSettings {
    /// Id of the catalog.
    pub catalog: String,
    /// Time of the copy in Unix milliseconds.
    pub at_ms: u64,
    /// Tiers whose bodies are copied, too.
    pub directories: Directories,
    /// Unix time in milliseconds since which states are kept; `None` to keep all.
    pub keep_since_ms: Option<u64>,
}

/// Ships a copy of a catalog. Its state has the time of the settings. Returns the number of bytes of its log.
///
/// # Errors
/// If the place or the disk fails, or the place has the backup of another catalog.
pub async fn ship_once(
    place: Place,
    copy: &EmbeddedCatalog,
    settings: OnceSettings,
) -> Result<u64, BackupError> {
    let OnceSettings { catalog, at_ms, directories, keep_since_ms } = settings;
    let engine = Arc::clone(copy.engine());
    let mut shipper = Shipper::begin(place.clone(), engine, &catalog, directories).await?;
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
    if let Some(since_ms) = keep_since_ms {
        let history = History::load(&place).await?;
        prune(&place, &history, since_ms).await?;
    }
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
