//! From a key to a path below the store's directory and back. Most keys are paths as they are; what a path cannot hold is written with
//! `%`, so that no key leaves the directory and no two keys meet.

use std::path::{Path, PathBuf};

/// Where the objects' temporary files and unfinished uploads are; no key leads there.
pub const HIDDEN: &str = ".plimsoll-";

/// A component that is empty, as between two slashes.
const EMPTY: &str = "%-";

/// Appends a component of a key as a component of a path.
fn component(key: &str) -> String {
    if key.is_empty() {
        return EMPTY.into();
    }
    let mut out = String::with_capacity(key.len());
    for (at, c) in key.char_indices() {
        match c {
            '%' => out.push_str("%25"),
            '\0' => out.push_str("%00"),
            // Neither `.` nor `..` nor one of our own hidden files.
            '.' if at == 0 => out.push_str("%2E"),
            c => out.push(c),
        }
    }
    out
}

/// The component of a key behind a component of a path; `None` for names that no key leads to.
fn key_component(name: &str) -> Option<String> {
    if name == EMPTY {
        return Some(String::new());
    }
    if name.starts_with('.') {
        return None;
    }
    crate::net::encode::decode(name, false)
}

/// The path of a key.
pub fn of_key(root: &Path, key: &str) -> PathBuf {
    let mut out = root.to_path_buf();
    key.split('/').for_each(|part| out.push(component(part)));
    out
}

/// One object found in a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its key.
    pub key: String,
    /// Its path.
    pub path: PathBuf,
    /// Bytes in it.
    pub size: u64,
}

/// Objects in key order that begin with `prefix` and come after `after`, `most` of them at most.
///
/// # Errors
/// When a directory cannot be read.
pub fn walk(root: &Path, prefix: &str, after: &str, most: usize) -> std::io::Result<Vec<Found>> {
    let mut out = Vec::new();
    walk_in(root, "", prefix, after, most, &mut out)?;
    Ok(out)
}

fn walk_in(
    directory: &Path,
    base: &str,
    prefix: &str,
    after: &str,
    most: usize,
    out: &mut Vec<Found>,
) -> std::io::Result<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().and_then(key_component) else { continue };
        // Symbolic links are neither followed nor listed: what they lead to may not be ours.
        let kind = entry.file_type()?;
        let key = format!("{base}{name}{}", if kind.is_dir() { "/" } else { "" });
        let may_match = if kind.is_dir() {
            (key.starts_with(prefix) || prefix.starts_with(&key))
                && (key.as_str() > after || after.starts_with(&key))
        } else {
            kind.is_file() && key.starts_with(prefix) && key.as_str() > after
        };
        if may_match {
            entries.push((key, entry));
        }
    }
    // A directory sorts as its name with the slash, which is where its objects' keys lie.
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, entry) in entries {
        if out.len() >= most {
            return Ok(());
        }
        if key.ends_with('/') && entry.file_type()?.is_dir() {
            walk_in(&entry.path(), &key, prefix, after, most, out)?;
        } else {
            match entry.metadata() {
                Ok(data) => out.push(Found { key, path: entry.path(), size: data.len() }),
                // Deleted since the directory was read.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// Removes the temporary files of puts below `prefix` that a process left when it was killed, and its uploads that were killed before
/// they had a key. Those of other processes may still be written.
pub fn remove_temporary(root: &Path, prefix: &str, process: u32) {
    let Some((directories, _)) = prefix.rsplit_once('/') else { return };
    remove_named_below(&of_key(root, directories), &format!("{HIDDEN}{process}-"));
    let uploads = root.join(format!("{HIDDEN}uploads"));
    for entry in std::fs::read_dir(&uploads).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.contains(&format!("-{process}-")) && !entry.path().join("key").exists() {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
    let _ = std::fs::remove_dir(uploads);
}

/// Removes plain files whose names begin so.
fn remove_named_below(directory: &Path, begin: &str) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => remove_named_below(&entry.path(), begin),
            Ok(kind) if kind.is_file() && entry.file_name().to_string_lossy().starts_with(begin) => {
                let _ = std::fs::remove_file(entry.path());
            }
            _ => {}
        }
    }
}

/// Removes directories below `prefix` that hold nothing, and those above it that then hold nothing either; the store's own stays.
pub fn remove_empty(root: &Path, prefix: &str) {
    let Some((directories, _)) = prefix.rsplit_once('/') else { return };
    let top = of_key(root, directories);
    remove_empty_below(&top);
    let mut at = Some(top.as_path());
    while let Some(directory) = at.filter(|d| *d != root && d.starts_with(root)) {
        if std::fs::remove_dir(directory).is_err() {
            return;
        }
        at = directory.parent();
    }
}

fn remove_empty_below(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_empty_below(&entry.path());
        // Fails where there is still something in it, which is the point.
        let _ = std::fs::remove_dir(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A put that was killed left its temporary file for ever.
    #[test]
    fn temporary_files_of_a_killed_process_are_removed_and_no_others() {
        let root = std::env::temp_dir().join(format!("plimsoll-temporary-{}", std::process::id()));
        let run = root.join("plimsoll/run/d");
        std::fs::create_dir_all(&run).unwrap();
        std::fs::create_dir_all(root.join(".plimsoll-uploads/1f-7-0")).unwrap();
        let (ours, other) = (run.join(".plimsoll-7-1"), run.join(".plimsoll-77-1"));
        let elsewhere = root.join(".plimsoll-7-2");
        [&ours, &other, &elsewhere].iter().for_each(|file| std::fs::write(file, "x").unwrap());
        remove_temporary(&root, "plimsoll/run/", 7);
        assert!(!ours.exists() && other.exists() && elsewhere.exists());
        assert!(!root.join(".plimsoll-uploads").exists());
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn no_key_leaves_the_directory_and_none_meets_another() {
        let root = Path::new("/store");
        let keys = [
            "a",
            "a/b",
            "../../etc/passwd",
            "/abs",
            "a//b",
            "a/./b",
            ".",
            "..",
            "%2E",
            ".plimsoll-x",
            "%-",
            "a%",
            "",
            "ü/日本",
        ];
        let mut paths = std::collections::HashSet::new();
        for key in keys {
            let path = of_key(root, key);
            let inside = path.strip_prefix(root).unwrap();
            assert!(
                inside.components().all(|c| matches!(c, std::path::Component::Normal(_))),
                "{key} -> {}",
                path.display()
            );
            let back: Option<Vec<String>> =
                inside.iter().map(|c| key_component(c.to_str().unwrap())).collect();
            assert_eq!(back.unwrap().join("/"), key);
            assert!(paths.insert(path));
        }
    }
}
