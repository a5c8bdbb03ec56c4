//! Bodies in tiers that are directories: they are lost with the disk of the catalog, so the backup has them, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use plimsoll_base::net::encode::hex;

use super::error::BackupError;
use super::place::Place;
use plimsoll_bodies::location::{BlobHead, Location, State};
use plimsoll_bodies::name::new_name;
use plimsoll_bodies::tier::Tiers;
use plimsoll_catalog::disk::real::create_directory;
use plimsoll_catalog::embedded::reader::ReadGroup;
use plimsoll_objects::keys;

/// Prefix of the names of bodies.
const BODIES: &str = "blobs";

/// Returns the name of the body at a path of a tier.
pub fn name(tier: &str, path: &str) -> String {
    // The name as listings have it.
    object_store::path::Path::from(format!("{BODIES}/{tier}/{path}")).to_string()
}

/// The tiers that are directories, by number: name and path.
#[derive(Debug, Clone, Default)]
pub struct Directories(pub BTreeMap<u16, (String, PathBuf)>);

impl Directories {
    /// Returns the tiers that are directories.
    pub fn of(tiers: &Tiers) -> Directories {
        let named = tiers
            .iter()
            .filter_map(|(number, tier)| Some((number, (tier.name.clone(), tier.directory.clone()?))));
        Directories(named.collect())
    }

    /// Returns the name of a body in the backup and its path in the directory; `None` if its tier is no directory.
    pub fn names(&self, location: &Location) -> Option<(String, PathBuf)> {
        let (tier, directory) = self.0.get(&location.tier)?;
        let path = location.path();
        Some((name(tier, path.as_ref()), directory.join(path.as_ref())))
    }

    /// Returns the directory of a tier; `None` if it is no directory.
    pub fn directory(&self, tier: u16) -> Option<&Path> {
        self.0.get(&tier).map(|(_, directory)| directory.as_path())
    }

    /// Returns the places in directories that the complete blobs of a group have.
    pub fn of_group(&self, group: &ReadGroup) -> Vec<Location> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (record, ..) in group.records() {
            let Some(record) = record.filter(|record| record.key.starts_with(keys::BLOBS)) else { continue };
            let head = record.head.and_then(|head| BlobHead::decode(&head));
            let head = head.filter(|head| head.state == State::Complete);
            let places = head.into_iter().flat_map(|head| head.locations);
            found.extend(places.filter(|place| self.0.contains_key(&place.tier)));
        }
        found
    }
}

/// Returns the names of the bodies that a backup has, with their sizes.
///
/// # Errors
/// If the place fails.
pub async fn stored(place: &Place) -> Result<BTreeMap<String, u64>, BackupError> {
    let found = place.list(BODIES, None).await?;
    Ok(found.into_iter().map(|(name, size, _)| (name, size)).collect())
}

/// Returns the names of the tiers whose bodies a backup has.
///
/// # Errors
/// If the place fails.
pub async fn tiers(place: &Place) -> Result<Vec<String>, BackupError> {
    place.directories(BODIES).await
}

/// Copies a file into the backup. Returns its size; `None` if there is no such file.
///
/// # Errors
/// If the place fails, or the file cannot be read.
pub async fn copy_in(place: &Place, name: &str, path: &Path) -> Result<Option<u64>, BackupError> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    // On the same file system, a backup then needs no second copy of the bytes (decision 0072).
    if let Some(to) = place.file(name)
        && link(&file, path, &to)?
    {
        return Ok(Some(file.metadata()?.len()));
    }
    place.upload(name, file).await.map(Some)
}

/// Makes a file a copy of another one on the same file system that shares its blocks: a reflink or, on a file system
/// without them, a hard link. The files of bodies never change. Returns false if the file system has neither.
fn link(file: &File, from: &Path, to: &Path) -> std::io::Result<bool> {
    let parent = to.parent().unwrap_or(Path::new("."));
    create_directory(parent)?;
    // Listings of the place leave such names out.
    let unfinished = to.with_file_name(format!("{}#1", to.file_name().unwrap_or_default().to_string_lossy()));
    // Under another name until it is complete: a listed body counts as stored.
    let copy = File::create(&unfinished)?;
    if rustix::fs::ioctl_ficlone(&copy, file).is_ok() {
        // Before the name: after a power loss, a file without its bytes would count as stored.
        copy.sync_all()?;
        std::fs::rename(&unfinished, to)?;
    } else {
        std::fs::remove_file(&unfinished)?;
        match std::fs::hard_link(from, to) {
            // Bytes under a name never change, so this is the same body.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Another file system, or one without links.
            Err(_) => return Ok(false),
            Ok(()) => {}
        }
    }
    // The piece that refers to the body must not outlive its name.
    File::open(parent)?.sync_all()?;
    Ok(true)
}

/// Copies a body of the backup into the directory `root` of its tier, unless the directory has it. Returns false if
/// neither has it.
///
/// # Errors
/// If the place fails, or the file cannot be written.
pub async fn copy_out(place: &Place, name: &str, root: &Path, path: &Path) -> Result<bool, BackupError> {
    // Bytes under a name never change, so the file is neither compared nor replaced.
    if path.exists() {
        return Ok(true);
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    create_directory(parent)?;
    // A random name, which no object of the tier has.
    let unfinished = root.join(format!(".plimsoll-restore-{}", hex(&new_name())));
    let is_there = place.download(name, &unfinished).await;
    if !matches!(is_there, Ok(true)) {
        // The error of the copy is the one to report.
        let _ = std::fs::remove_file(&unfinished);
        return is_there;
    }
    // `download` has synced the bytes, so the name never refers to a part of them.
    std::fs::rename(&unfinished, path)?;
    std::fs::File::open(parent)?.sync_all()?;
    Ok(true)
}

/// Deletes the bodies that were copied before a Unix time in milliseconds and that no blob has any more, given the
/// names that are in use. Returns their number.
///
/// # Errors
/// If the place fails.
pub async fn prune(place: &Place, used: &BTreeSet<String>, before_ms: u64) -> Result<u64, BackupError> {
    let mut deleted = 0;
    for (name, _, written_ms) in place.list(BODIES, None).await? {
        let is_old = u64::try_from(written_ms).is_ok_and(|written_ms| written_ms < before_ms);
        if is_old && !used.contains(&name) {
            place.delete(&name).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}
