//! A snapshot of the catalog of a running gateway: links to its immutable files, and a copy of the file that it writes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::manifest::Manifest;
use super::segment::{self, id_of};
use super::segment_list::SegmentList;
use super::{document, synced, table};
use crate::disk::real::RealDisk;
use crate::{CatalogError, format};

/// Number of the next snapshot of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Number of attempts, in case the gateway replaces files in the meantime.
const ATTEMPTS: u32 = 20;

/// Start of the names of snapshots. The id of the process and a number within the process follow: a console may plan
/// while a command makes a backup.
const PREFIX: &str = "snapshot-";

/// Removes the snapshots of processes that were killed.
fn remove_abandoned(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|numbers| numbers.split_once('.'));
        let process = process.and_then(|(process, _)| Pid::from_raw(process.parse().ok()?));
        // Only a process that does not exist: another error may mean that another user has started it.
        if process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH)) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the manifest and the list of segments.
fn state(root: &Path) -> Result<(Option<Manifest>, Option<SegmentList>), CatalogError> {
    let disk = RealDisk::new(root)?;
    // A start repairs damage, also that of a snapshot.
    let (manifest, _) = document::or_damage(Manifest::load(&disk))?;
    let (list, _) = document::or_damage(SegmentList::load(&disk))?;
    Ok((manifest.flatten(), list.flatten()))
}

/// A directory with a snapshot, which is removed when this is dropped.
pub struct Snapshot(PathBuf);

impl Snapshot {
    /// Takes a snapshot of the catalog in a directory. The directory of the snapshot is in it, because links cannot
    /// leave a file system, and the directory may be the root of one.
    ///
    /// # Errors
    /// If files cannot be read, linked or copied.
    pub fn take(root: &Path) -> Result<Snapshot, CatalogError> {
        remove_abandoned(root)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let snapshot = Snapshot(root.join(format!("{PREFIX}{}.{number}", std::process::id())));
        for _ in 0..ATTEMPTS {
            snapshot.clear()?;
            let before = state(root)?;
            match snapshot.link(root) {
                // The gateway has removed or renamed the file since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                linked => linked?,
            }
            // Unchanged lists show that no file in use was replaced or removed between the links.
            if state(root)? == before {
                return Ok(snapshot);
            }
        }
        Err(CatalogError::Io("the catalog changes too fast for a snapshot; try again".into()))
    }

    /// Returns the directory of the snapshot.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn link(&self, root: &Path) -> io::Result<()> {
        format::of_directory(root).map_err(io::Error::other)?;
        fs::create_dir_all(&self.0)?;
        match fs::copy(root.join(format::FILE), self.0.join(format::FILE)) {
            // A catalog on a full disk may have no record of its format: see format.rs.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for directory in [table::DIRECTORY, segment::DIRECTORY] {
            let (from, to) = (root.join(directory), self.0.join(directory));
            fs::create_dir_all(&to)?;
            let mut names = Vec::new();
            for entry in fs::read_dir(from)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            let last = names.iter().filter_map(|name| id_of(name)).max();
            // The mark may be newer than the copy of the last segment. The other files are about to be renamed.
            names.retain(|name| name != synced::NAME && !name.ends_with(".new"));
            for name in names {
                let (from, to) = (root.join(directory).join(&name), to.join(&name));
                // The gateway appends to the last segment, and replaces the manifest as a whole.
                if directory == segment::DIRECTORY && id_of(&name) == last {
                    fs::copy(from, to)?;
                } else {
                    fs::hard_link(from, to)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // A later snapshot removes the rest after the end of this process.
        let _ = self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;
    use crate::blocking::block_on;
    use crate::embedded::catalog::EmbeddedCatalog;
    use crate::embedded::head_only;
    use plimsoll_testing::directory::TempDir;

    fn put(catalog: &EmbeddedCatalog, key: &'static str) {
        let work = Box::new(move |t: &mut dyn crate::Transaction| {
            t.put(key.into(), head_only(vec![1]));
            Ok(true)
        });
        block_on(catalog.commit(work, 64)).unwrap();
    }

    #[test]
    fn the_snapshot_of_a_killed_process_is_removed_and_others_stay() {
        let dir = TempDir::new("snapshot");
        let root = dir.path().join("catalog");
        let (catalog, _) = EmbeddedCatalog::open(&root, Default::default()).unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let names = [format!("snapshot-{}.7", ended.id()), "snapshot-x".into(), "other".into()];
        let others = names.map(|name| root.join(name));
        others.iter().for_each(|path| fs::create_dir_all(path.join("log")).unwrap());
        let running = Snapshot::take(&root).unwrap();
        assert_eq!(others.each_ref().map(|path| path.exists()), [false, true, true]);
        assert!(running.path().exists());
        remove_abandoned(&root).unwrap();
        assert!(running.path().exists(), "this process still runs");
        catalog.close().unwrap();
    }

    #[test]
    fn a_snapshot_has_what_was_committed_before_it_and_leaves_the_catalog_alone() {
        let dir = TempDir::new("snapshot");
        let root = dir.path().join("catalog");
        let (catalog, _) = EmbeddedCatalog::open(&root, Default::default()).unwrap();
        put(&catalog, "a");
        let snapshot = Snapshot::take(&root).unwrap();
        put(&catalog, "b");
        let (copy, recovery) = EmbeddedCatalog::open(snapshot.path(), Default::default()).unwrap();
        assert!(recovery.damage.is_empty());
        assert!(copy.get(b"a").unwrap().is_some() && copy.get(b"b").unwrap().is_none());
        put(&copy, "c");
        copy.close().unwrap();
        put(&catalog, "d");
        catalog.close().unwrap();
        drop(catalog);
        let (catalog, recovery) = EmbeddedCatalog::open(&root, Default::default()).unwrap();
        assert!(recovery.damage.is_empty());
        let found = [b"a", b"b", b"c", b"d"].map(|key| catalog.get(key).unwrap().is_some());
        assert_eq!(found, [true, true, false, true]);
        let path = snapshot.path().to_path_buf();
        drop(snapshot);
        assert!(!path.exists());
    }
}
