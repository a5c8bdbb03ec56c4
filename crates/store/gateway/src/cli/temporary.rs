//! Directories that exist only during a command, for copies of a catalog. Nobody else may read them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use plimsoll_base::net::encode::hex;

use plimsoll_bodies::name::new_name;
use plimsoll_catalog::embedded::catalog::{DirectoryLock, lock};

/// Start of the names of the directories.
const PREFIX: &str = "plimsoll-temporary-";

/// A directory that is removed when it is not needed any more.
pub struct Temporary {
    path: PathBuf,
    /// Says that a process uses the directory, also to processes that cannot see it.
    _lock: DirectoryLock,
}

impl Temporary {
    /// Creates a directory in `parent`, and removes those of processes that were killed.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(parent: &Path) -> io::Result<Temporary> {
        remove_abandoned(parent);
        let path = parent.join(format!("{PREFIX}{}", hex(&new_name())));
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = lock(&path).map_err(io::Error::other)?;
        Ok(Temporary { path, _lock: lock })
    }

    /// Returns the path of something in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories of processes that do not live any more. Those of other users stay.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_one = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_one && lock(&entry.path()).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::directory::TempDir;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_private_and_goes_with_its_command_or_the_next_one() {
        let dir = TempDir::new("temporary");
        let killed = dir.path().join(format!("{PREFIX}00"));
        fs::create_dir_all(killed.join("catalog")).unwrap();
        fs::create_dir(dir.path().join("other")).unwrap();
        let own = Temporary::create(dir.path()).unwrap();
        assert!(!killed.exists() && dir.path().join("other").exists());
        assert_eq!(fs::metadata(&own.path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(own.path("file"), "1").unwrap();
        let path = own.path.clone();
        drop(Temporary::create(dir.path()).unwrap());
        assert!(path.exists(), "this process lives");
        drop(own);
        assert!(!path.exists());
    }
}
