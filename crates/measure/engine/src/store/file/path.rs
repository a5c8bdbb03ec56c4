//! Conversion between keys and paths below the store's directory. Most keys are used as paths unchanged. Parts
//! that a path cannot contain are percent-encoded, so that no key escapes from the directory and no two keys
//! share a path.

use std::path::{Path, PathBuf};

/// Name prefix of temporary files and of the directory of unfinished uploads. No key maps to such a name.
pub const HIDDEN: &str = ".plimsoll-";

/// Encoding of an empty component, such as the one between two slashes.
const EMPTY: &str = "%-";

/// Encodes a component of a key as a path component.
fn component(key: &str) -> String {
    if key.is_empty() {
        return EMPTY.into();
    }
    let mut out = String::with_capacity(key.len());
    for (at, c) in key.char_indices() {
        match c {
            '%' => out.push_str("%25"),
            '\0' => out.push_str("%00"),
            // Prevents `.`, `..` and the names of Plimsoll's hidden files.
            '.' if at == 0 => out.push_str("%2E"),
            c => out.push(c),
        }
    }
    out
}

/// Decodes a path component to a component of a key; returns `None` for names that no key maps to.
fn key_component(name: &str) -> Option<String> {
    if name == EMPTY {
        return Some(String::new());
    }
    if name.starts_with('.') {
        return None;
    }
    plimsoll_base::net::encode::decode(name, false)
}

/// Returns the path of a key below `root`.
pub fn of_key(root: &Path, key: &str) -> PathBuf {
    let mut out = root.to_path_buf();
    key.split('/').for_each(|part| out.push(component(part)));
    out
}

/// An object found by [`walk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Key of the object.
    pub key: String,
    /// Path of the object's file.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
}

/// Returns at most `most` objects in key order whose keys begin with `prefix` and follow `after`.
///
/// # Errors
/// Fails if a directory cannot be read.
pub fn walk(root: &Path, prefix: &str, after: &str, most: usize) -> std::io::Result<Vec<FoundFile>> {
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
    out: &mut Vec<FoundFile>,
) -> std::io::Result<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().and_then(key_component) else { continue };
        // Symbolic links are neither followed nor listed: their targets may not belong to the store.
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
    // A directory is sorted by its name with a trailing slash, like the keys of the objects in it.
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, entry) in entries {
        if out.len() >= most {
            return Ok(());
        }
        if key.ends_with('/') && entry.file_type()?.is_dir() {
            walk_in(&entry.path(), &key, prefix, after, most, out)?;
        } else {
            match entry.metadata() {
                Ok(data) => out.push(FoundFile { key, path: entry.path(), size: data.len() }),
                // The file was deleted after the directory was read.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// Removes temporary files below `prefix` that a killed process left behind, and its upload directories that do
/// not have a key file yet. Files of other processes stay, because they may still be in use.
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

/// Removes regular files below `directory` whose names begin with `begin`.
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

/// Removes empty directories below `prefix`, and then the parent directories that have become empty. The
/// store's own directory stays.
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
        // Fails if the directory is not empty, as intended.
        let _ = std::fs::remove_dir(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: the temporary file of a killed put was never removed.
    #[test]
    fn only_temporary_files_of_the_killed_process_are_removed() {
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
    fn keys_map_to_distinct_paths_inside_the_directory() {
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
            let decoded: Option<Vec<String>> =
                inside.iter().map(|c| key_component(c.to_str().unwrap())).collect();
            assert_eq!(decoded.unwrap().join("/"), key);
            assert!(paths.insert(path));
        }
    }
}
