//! The place of the backup, as commands name it.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_cost::tariff::Tariff;
use tokio::runtime::{Builder, Runtime};

use super::Exit;
use super::tariff::tariff;
use crate::config::{BackupRule, Config};
use plimsoll_backup::age::keys::Keys;
use plimsoll_backup::error::BackupError;
use plimsoll_backup::place::Place;
use plimsoll_bodies::tier::{Backend, open};

/// Place of the backup and of the journal.
pub struct BackupPlace {
    /// Objects of the backup.
    pub place: Place,
    /// Its prices; `None` if they are not known.
    pub tariff: Option<Tariff>,
}

/// Opens the place of the backup; `None` if the settings have none. `name` names the settings for messages.
///
/// # Errors
/// Exit code 2 if it is invalid, or in the place of a tier.
pub fn backup_place(
    name: &str,
    config: &Config,
    tiers: &BTreeMap<String, Backend>,
) -> Result<Option<BackupPlace>, Exit> {
    let Some(rule) = &config.backup else { return Ok(None) };
    let url = &rule.place.url;
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
    let tariff = tariff(&config.prices, &rule.place, &backend);
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

/// Creates a runtime for the requests of a command.
///
/// # Errors
/// Exit code 3 if the system refuses it.
pub fn runtime() -> Result<Runtime, Exit> {
    Builder::new_current_thread().enable_all().build().map_err(Exit::store)
}

/// Opens the place of a backup.
///
/// # Errors
/// Exit code 2 if the settings are invalid.
pub fn backend(rule: &BackupRule) -> Result<Backend, Exit> {
    open::open(&rule.place).map_err(|e| Exit::input(format!("backup: {e}")))
}

/// Reads a file of keys. `name` is the setting or the flag that names it.
///
/// # Errors
/// Exit code 2 if the file is invalid.
pub fn keys(name: &str, file: Option<&Path>) -> Result<Option<Keys>, Exit> {
    let load =
        |path: &Path| Keys::load(path).map_err(|e| Exit::input(format!("{name}: {}: {e}", path.display())));
    file.map(load).transpose()
}

/// Returns `place` as a URL; a directory becomes a `file://` URL.
pub fn url_of(place: &str) -> String {
    if place.contains("://") {
        return place.into();
    }
    let path = Path::new(place);
    format!("file://{}", std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display())
}

/// Opens the place of a backup for reading. A URL and a file of keys replace those of the settings, with their
/// credentials.
///
/// # Errors
/// Exit code 2 if the settings are invalid, 3 if there is no such directory.
pub fn place(
    rule: Option<&BackupRule>,
    from: Option<&String>,
    key_file: Option<&Path>,
) -> Result<(Place, String), Exit> {
    let mut table = rule.map(|rule| rule.place.clone()).unwrap_or_default();
    if let Some(from) = from {
        table.url = url_of(from);
    }
    if table.url.is_empty() {
        return Err(Exit::input("--from: name the place of the backup, or use a FILE with [backup]"));
    }
    if let Some(path) = table.url.strip_prefix("file://")
        && !Path::new(path).is_dir()
    {
        return Err(Exit::store(format!("{}: {}", table.url, BackupError::Missing)));
    }
    let opened = open::open(&table).map_err(|e| Exit::input(format!("--from {}: {e}", table.url)))?;
    let of_settings = rule.and_then(|rule| rule.key_file.as_deref());
    let keys = match key_file {
        Some(file) => keys("--key-file", Some(file))?,
        None => keys("backup.key_file", of_settings)?,
    };
    Ok((Place::new(opened).encrypted(keys), table.url))
}
