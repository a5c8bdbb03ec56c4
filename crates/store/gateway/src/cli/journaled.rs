//! Opens a catalog in a directory, with its journal if it has one.

use std::path::Path;

use tokio::sync::watch;

use super::Exit;
use crate::config::Config;
use plimsoll_backup::journal::start::{self, JournalSettings, Started};
use plimsoll_backup::place::Place;
use plimsoll_backup::ship::BegunShipper;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use plimsoll_catalog::embedded::recovery::Recovery;
use plimsoll_catalog::threads;

/// An open catalog in a directory.
pub struct Embedded {
    /// Catalog in the directory.
    pub catalog: EmbeddedCatalog,
    /// Findings of the start.
    pub recovery: Recovery,
    /// Writer of the backup, if a journal has begun it.
    pub shipper: BegunShipper,
}

/// Opens the catalog in a directory. `name` names the settings for messages.
///
/// # Errors
/// Exit code 3 if another process uses it or leads, or the disk or the place fails.
pub fn open(
    name: &str,
    directory: &Path,
    settings: CatalogSettings,
    config: &Config,
    place: Option<&Place>,
) -> Result<Embedded, Exit> {
    const DEFAULT_LEASE_MS: u64 = 10_000;
    let lease_ms = config.backup.as_ref().and_then(|rule| rule.lease_ms);
    let journal = place.map(|place| JournalSettings {
        place: place.clone(),
        lease_ms: lease_ms.unwrap_or(DEFAULT_LEASE_MS),
        has_groups: config.backup.as_ref().is_some_and(|rule| rule.is_durable),
    });
    let fail = |error: &dyn std::fmt::Display| Exit::store(format!("{name}: {error}"));
    match journal {
        Some(journal) if lease_ms.is_some() => {
            let Started { catalog, recovery, shipper } =
                start::open(directory, settings, &journal).map_err(|e| fail(&e))?;
            return Ok(Embedded { catalog, recovery, shipper });
        }
        Some(journal) if start::has_journal(directory) => {
            start::leave(directory, settings, &journal).map_err(|e| fail(&e))?;
        }
        None if start::has_journal(directory) => {
            return Err(fail(
                &"this catalog has a journal, which may have newer writes; set [backup] as it was, and \
                  durability = \"local\" without lease to end the journal",
            ));
        }
        _ => {}
    }
    let (catalog, recovery) = EmbeddedCatalog::open(directory, settings).map_err(|e| fail(&e))?;
    Ok(Embedded { catalog, recovery, shipper: BegunShipper::default() })
}

/// Ends the server if another gateway leads.
///
/// # Errors
/// If a thread cannot be started.
pub fn end_with_lease(catalog: &AnyCatalog, stop: watch::Sender<bool>) -> std::io::Result<()> {
    if let Some(lease) = catalog.lease().cloned() {
        threads::spawn("lease-end", move || {
            lease.wait_until_over();
            let _ = stop.send(true);
        })?;
    }
    Ok(())
}
