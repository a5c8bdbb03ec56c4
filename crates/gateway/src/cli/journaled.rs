//! Opens a catalog in a directory, with its journal if it has one.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_cost::tariff::Tariff;
use tokio::sync::watch;

use super::Exit;
use super::place::StoreArguments;
use super::restore::{backend, keys};
use crate::backup::place::Place;
use crate::backup::ship::BegunShipper;
use crate::catalog::any::AnyCatalog;
use crate::catalog::embedded::catalog::{CatalogSettings, EmbeddedCatalog};
use crate::catalog::embedded::recovery::Recovery;
use crate::config::Config;
use crate::journal::start::{self, JournalSettings, Started};
use crate::threads;
use crate::tier::Backend;

/// Place of the backup and of the journal.
pub struct BackupPlace {
    /// Objects of the backup.
    pub place: Place,
    /// Its prices; `None` if they are not known.
    pub tariff: Option<Tariff>,
}

/// Opens the place of the backup; `None` if the settings have none.
///
/// # Errors
/// Exit code 2 if it is invalid, or in the place of a tier.
pub fn backup_place(
    arguments: &StoreArguments,
    config: &Config,
    tiers: &BTreeMap<String, Backend>,
) -> Result<Option<BackupPlace>, Exit> {
    let Some(rule) = &config.backup else { return Ok(None) };
    let (name, url) = (arguments.name(), &rule.place.url);
    let backend = backend(rule)?;
    apart(&backend, tiers, &format!("{name}: backup.to: {url}"))?;
    for (tier, other) in tiers {
        if rule.lease_ms.is_some() && other.directory.is_some() {
            return Err(Exit::input(format!(
                "{name}: backup.durability = \"tier\" or backup.lease: tier {tier} is a directory, whose bytes are lost \
                 with the machine; use a tier in an object store"
            )));
        }
    }
    let tariff = arguments.tariff(&config.prices, &rule.place, &backend);
    let place = Place::new(backend).encrypted(keys("backup.key_file", rule.key_file.as_deref())?);
    Ok(Some(BackupPlace { place, tariff }))
}

/// Checks that a place is not in that of a tier, and the other way round. `what` names it for messages.
///
/// # Errors
/// Exit code 2 if it is.
pub fn apart(place: &Backend, tiers: &BTreeMap<String, Backend>, what: &str) -> Result<(), Exit> {
    let is_within = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a.starts_with(b);
    for (tier, other) in tiers {
        if is_within(&place.root, &other.root) || is_within(&other.root, &place.root) {
            return Err(Exit::input(format!(
                "{what} is in the place of tier {tier}; use another bucket or prefix"
            )));
        }
    }
    Ok(())
}

/// An open catalog in a directory.
pub struct Embedded {
    /// Catalog in the directory.
    pub catalog: EmbeddedCatalog,
    /// Findings of the start.
    pub recovery: Recovery,
    /// Writer of the backup, if a journal has begun it.
    pub shipper: BegunShipper,
}

/// Opens the catalog in a directory.
///
/// # Errors
/// Exit code 3 if another process uses it or leads, or the disk or the place fails.
pub fn open(
    arguments: &StoreArguments,
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
    let failed = |error| arguments.fail(&error);
    match journal {
        Some(journal) if lease_ms.is_some() => {
            let Started { catalog, recovery, shipper } =
                start::open(directory, settings, &journal).map_err(|e| arguments.fail(&e))?;
            return Ok(Embedded { catalog, recovery, shipper });
        }
        Some(journal) if start::has_journal(directory) => {
            start::leave(directory, settings, &journal).map_err(|e| arguments.fail(&e))?;
        }
        None if start::has_journal(directory) => {
            return Err(arguments.fail(
                &"this catalog has a journal, which may have newer writes; set [backup] as it was, and \
                  durability = \"local\" without lease to end the journal",
            ));
        }
        _ => {}
    }
    let (catalog, recovery) = EmbeddedCatalog::open(directory, settings).map_err(failed)?;
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
