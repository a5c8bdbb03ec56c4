//! Restores the bodies in tiers that are directories.

use std::path::Path;

use crate::config::Config;
use plimsoll_backup::bodies::{self, Directories, copy_out};
use plimsoll_backup::error::BackupError;
use plimsoll_backup::place::Place;
use plimsoll_bodies::location::{BlobHead, State};
use plimsoll_bodies::tier::{Tier, TierTable, open};
use plimsoll_catalog::embedded::catalog::EmbeddedCatalog;
use plimsoll_catalog::log::note;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::keys;
use plimsoll_objects::owner;
use plimsoll_objects::owner::claim::take_free;

/// Copies the bodies of tiers that are directories, unless the directories have them. Returns their number, and that of
/// those that are missing.
///
/// # Errors
/// If the backup or the catalog fails.
pub async fn copy_bodies(
    place: &Place,
    catalog: &EmbeddedCatalog,
    config: &Config,
) -> Result<(u64, u64), BackupError> {
    let directories = directories(catalog, config)?;
    for name in bodies::tiers(place).await?.iter().filter(|name| !config.tiers.contains_key(*name)) {
        note(&format!(
            "tier {name} is not in the settings; its bodies, which the backup has, were not restored"
        ));
    }
    let (mut copied, mut missing) = (0, 0);
    let mut scan = catalog.scan();
    scan.seek(std::ops::Bound::Included(keys::BLOBS))?;
    while let Some((key, row)) = scan.next()?
        && key.starts_with(keys::BLOBS)
    {
        let head = BlobHead::decode(&row.head).filter(|head| head.state == State::Complete);
        let places = head.into_iter().flat_map(|head| head.locations);
        for location in places {
            let root = directories.directory(location.tier).map(Path::to_path_buf);
            let Some(((name, path), root)) = directories.names(&location).zip(root) else { continue };
            match copy_out(place, &name, &root, &path).await {
                Ok(true) => copied += 1,
                Ok(false) => missing += 1,
                // One body that cannot be written must not cost the catalog.
                Err(error) => {
                    note(&format!("{}: {error}", path.display()));
                    missing += 1;
                }
            }
        }
    }
    Ok((copied, missing))
}

/// Records the restored catalog as the owner of tiers in directories that have no record, because they were lost, too:
/// a start refuses a tier with blobs and without a record. A directory that cannot be written is reported by the start.
pub async fn own_directories(catalog: &EmbeddedCatalog, config: &Config) {
    let Ok(Some(identity)) = owner::read(catalog) else { return };
    for (name, table) in &config.tiers {
        let is_there = table.url.strip_prefix("file://").is_some_and(|path| Path::new(path).is_dir());
        if !is_there {
            continue;
        }
        if let Ok(backend) = open::open(table) {
            let _ = take_free(&Tier::new(name, backend), &identity).await;
        }
    }
}

/// Returns the tiers of the settings that are directories, by the numbers that the catalog has for them.
fn directories(catalog: &EmbeddedCatalog, config: &Config) -> Result<Directories, CatalogError> {
    let mut found = Directories::default();
    for (name, table) in &config.tiers {
        let Some(row) = catalog.get(&keys::tier(name))? else { continue };
        let Some(number) = row.head.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)) else { continue };
        let is_directory = |table: &&TierTable| table.url.starts_with("file://");
        let opened = Some(table).filter(is_directory).and_then(|table| open::open(table).ok());
        let directory = opened.and_then(|backend| backend.directory);
        found.0.extend(directory.map(|directory| (number, (name.clone(), directory))));
    }
    Ok(found)
}
