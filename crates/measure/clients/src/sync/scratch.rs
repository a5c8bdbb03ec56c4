//! Directory for the local files of a synchronization. Plimsoll creates a marker file in it, and later removes only a
//! directory with this marker.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the marker file, which contains the run id.
const MARKER: &str = ".plimsoll-sync";

/// Returns true if a synchronization, or a comparison of clients, creates files with this name: the marker, `source`,
/// `target`, old targets, and `jobs`.
fn is_created_by_sync(name: &str) -> bool {
    matches!(name, MARKER | "source" | "target" | "jobs")
        || name.strip_prefix("target.old-").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the directory below `parent` for the files of a run.
pub fn place(parent: &Path, run: &str) -> PathBuf {
    parent.join(format!("plimsoll-{run}"))
}

/// Creates the directory and its marker.
///
/// # Errors
/// Fails if the directory already exists or cannot be written.
pub fn create(path: &Path, run: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(path)?;
    fs::write(path.join(MARKER), run)
}

/// Removes the files that the run created in the directory, and then the directory if it contains no other files.
/// Returns true if the directory no longer exists. Without the run's marker, removes the directory only if it is
/// empty.
///
/// # Errors
/// Fails if a file or directory cannot be removed.
pub fn remove(path: &Path, run: &str) -> io::Result<bool> {
    match fs::read_to_string(path.join(MARKER)) {
        Ok(id) if id == run => {}
        // A run that is killed before it writes its id leaves an empty marker and no other files.
        Ok(id) if id.is_empty() && fs::read_dir(path)?.count() == 1 => {}
        // A run that is killed before it creates the marker leaves an empty directory.
        _ => return Ok(!path.exists() || fs::remove_dir(path).is_ok()),
    }
    let mut marker = None;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        match name.to_str().filter(|name| is_created_by_sync(name)) {
            Some(MARKER) => marker = Some(entry.path()),
            Some(_) if entry.file_type()?.is_dir() => fs::remove_dir_all(entry.path())?,
            _ => {}
        }
    }
    // The marker is removed last, so that an interrupted removal can be resumed.
    let alone = fs::read_dir(path)?.count() == 1;
    if let Some(marker) = marker.filter(|_| alone) {
        fs::remove_file(marker)?;
    }
    Ok(fs::remove_dir(path).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-scratch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn only_directories_with_the_marker_of_the_run_are_removed() {
        let parent = directory("marker");
        let files = place(&parent, "run-1");
        create(&files, "run-1").unwrap();
        assert!(create(&files, "run-1").is_err(), "an existing directory is not reused");
        fs::create_dir_all(files.join("source/00000")).unwrap();
        fs::create_dir_all(files.join("target.old-0")).unwrap();
        fs::write(files.join("source/00000/1"), "x").unwrap();
        assert!(
            !remove(&files, "run-2").unwrap() && files.join("source/00000/1").exists(),
            "another run has created it"
        );
        fs::write(files.join("thesis.txt"), "x").unwrap();
        assert!(!remove(&files, "run-1").unwrap());
        assert!(files.join("thesis.txt").exists() && !files.join("source").exists());
        fs::remove_file(files.join("thesis.txt")).unwrap();
        assert!(remove(&files, "run-1").unwrap() && !files.exists());
        assert!(remove(&files, "run-1").unwrap(), "a missing directory is not an error");
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_directory_without_a_marker_is_removed_only_if_it_is_empty() {
        let parent = directory("no-marker");
        fs::create_dir(parent.join("empty")).unwrap();
        assert!(remove(&parent.join("empty"), "run-1").unwrap());
        fs::create_dir_all(parent.join("full/source")).unwrap();
        assert!(!remove(&parent.join("full"), "run-1").unwrap() && parent.join("full/source").exists());
        fs::remove_dir_all(parent).unwrap();
    }
}
