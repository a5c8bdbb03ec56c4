//! Directories that exist only during a command, for copies of a catalog. Nobody else may read them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use plimsoll_base::net::encode::hex;

use crate::body::blob::new_name;

/// Start of the names of the directories. The id of the process follows.
const PREFIX: &str = "plimsoll-temporary-";

/// A directory that is removed when it is not needed any more.
pub struct Temporary(PathBuf);

impl Temporary {
    /// Creates a directory in `parent`, and removes those of processes that were killed.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(parent: &Path) -> io::Result<Temporary> {
        remove_abandoned(parent);
        let name = format!("{PREFIX}{}-{}", std::process::id(), hex(&new_name()));
        let path = parent.join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Temporary(path))
    }

    /// Returns the path of something in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the directories of processes that do not live any more. Those of other users stay.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        if id.is_some_and(|id: u32| !Path::new("/proc").join(id.to_string()).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_private_and_goes_with_its_command_or_the_next_one() {
        let dir = TempDir::new("temporary");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let killed = dir.path().join(format!("{PREFIX}{}-00", ended.id()));
        fs::create_dir_all(killed.join("catalog")).unwrap();
        fs::create_dir(dir.path().join("other")).unwrap();
        let own = Temporary::create(dir.path()).unwrap();
        assert!(!killed.exists() && dir.path().join("other").exists());
        assert_eq!(fs::metadata(&own.0).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(own.path("file"), "1").unwrap();
        let path = own.0.clone();
        drop(Temporary::create(dir.path()).unwrap());
        assert!(path.exists(), "this process lives");
        drop(own);
        assert!(!path.exists());
    }
}
