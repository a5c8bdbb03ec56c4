//! The local files of a synchronisation: a directory that Plimsoll creates, marks and, by the mark alone, removes again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the mark: a file that holds the run's id.
const MARK: &str = ".plimsoll-sync";

/// Files and directories that a synchronisation makes in its directory: the mark, `source`, `target` and emptied targets.
fn is_ours(name: &str) -> bool {
    matches!(name, MARK | "source" | "target")
        || name.strip_prefix("target.old-").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// The place of a run's files below `parent`.
pub fn place(parent: &Path, run: &str) -> PathBuf {
    parent.join(format!("plimsoll-{run}"))
}

/// Creates the directory and marks it.
///
/// # Errors
/// When it exists already, or cannot be written.
pub fn create(path: &Path, run: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(path)?;
    fs::write(path.join(MARK), run)
}

/// Removes what the run made in the directory, and the directory if nothing else is in it; returns whether it is gone. A directory
/// without the run's mark stays as it is, unless it is empty.
///
/// # Errors
/// When something cannot be removed.
pub fn remove(path: &Path, run: &str) -> io::Result<bool> {
    match fs::read_to_string(path.join(MARK)) {
        Ok(mark) if mark == run => {}
        // A kill before the mark was written leaves nothing else.
        Ok(mark) if mark.is_empty() && fs::read_dir(path)?.count() == 1 => {}
        // A kill between creation and mark leaves it empty.
        _ => return Ok(!path.exists() || fs::remove_dir(path).is_ok()),
    }
    let mut marked = None;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        match name.to_str().filter(|name| is_ours(name)) {
            Some(MARK) => marked = Some(entry.path()),
            Some(_) if entry.file_type()?.is_dir() => fs::remove_dir_all(entry.path())?,
            _ => {}
        }
    }
    // The mark goes last, so that an interrupted removal can be taken up again.
    let alone = fs::read_dir(path)?.count() == 1;
    if let Some(mark) = marked.filter(|_| alone) {
        fs::remove_file(mark)?;
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
    fn only_what_carries_the_mark_is_removed() {
        let parent = directory("mark");
        let files = place(&parent, "run-1");
        create(&files, "run-1").unwrap();
        assert!(create(&files, "run-1").is_err(), "it is created exclusively");
        fs::create_dir_all(files.join("source/00000")).unwrap();
        fs::create_dir_all(files.join("target.old-0")).unwrap();
        fs::write(files.join("source/00000/1"), "x").unwrap();
        assert!(!remove(&files, "run-2").unwrap() && files.join("source/00000/1").exists(), "another run's");
        fs::write(files.join("thesis.txt"), "x").unwrap();
        assert!(!remove(&files, "run-1").unwrap());
        assert!(files.join("thesis.txt").exists() && !files.join("source").exists());
        fs::remove_file(files.join("thesis.txt")).unwrap();
        assert!(remove(&files, "run-1").unwrap() && !files.exists());
        assert!(remove(&files, "run-1").unwrap(), "what is gone is gone");
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_directory_without_a_mark_is_removed_only_if_it_is_empty() {
        let parent = directory("unmarked");
        fs::create_dir(parent.join("empty")).unwrap();
        assert!(remove(&parent.join("empty"), "run-1").unwrap());
        fs::create_dir_all(parent.join("full/source")).unwrap();
        assert!(!remove(&parent.join("full"), "run-1").unwrap() && parent.join("full/source").exists());
        fs::remove_dir_all(parent).unwrap();
    }
}
