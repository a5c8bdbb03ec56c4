//! Files of a listing: files that the user names, files of directories, and files of a manifest.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_base::files::expanded;

use crate::InventoryError;
use crate::listing_file::ListingFile;
use crate::manifest;
use crate::names::without_mark;

/// Files that contain no objects.
const EXTRAS: [&str; 2] = ["manifest.checksum", "symlink.txt"];

/// Returns true if a file of a directory has objects: others are of S3, of the file manager, or copies of an editor.
fn is_wanted(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    !EXTRAS.contains(&&*name) && !name.starts_with('.') && !name.ends_with('~')
}

/// Returns the files of directories, each once. Links to directories may form circles, and are left out.
fn walk(paths: &[PathBuf]) -> Result<Vec<PathBuf>, InventoryError> {
    let (mut out, mut known) = (Vec::new(), BTreeSet::new());
    let mut left: Vec<PathBuf> = paths.iter().rev().cloned().collect();
    while let Some(path) = left.pop() {
        let is_named = paths.contains(&path);
        let found = std::fs::metadata(&path).map_err(|e| InventoryError::file(&path, e))?;
        if found.is_dir() {
            if is_named || !path.is_symlink() {
                let entries = std::fs::read_dir(&path).map_err(|e| InventoryError::file(&path, e))?;
                let paths = entries.map(|entry| entry.map(|entry| entry.path()));
                let mut inside: Vec<PathBuf> =
                    paths.collect::<Result<_, _>>().map_err(|e| InventoryError::file(&path, e))?;
                inside.retain(|path| is_wanted(path));
                inside.sort_by(|a, b| b.cmp(a));
                left.append(&mut inside);
            }
            continue;
        }
        // A file is opened several times, and a pipe would lose its start.
        if !found.is_file() {
            return Err(InventoryError::file(
                &path,
                "this is no regular file; write a stream to a file first",
            ));
        }
        if known.insert((found.dev(), found.ino())) {
            out.push(path);
        }
    }
    Ok(out)
}

/// Returns true if a file is a manifest: by its name, or, if the user named it, by its first byte.
fn is_manifest(path: &Path, is_named: bool) -> Result<bool, InventoryError> {
    if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("manifest.json")) {
        return Ok(true);
    }
    if !is_named {
        return Ok(false);
    }
    let mut opened = expanded(path).map_err(|e| InventoryError::file(path, e))?;
    let head = opened.fill_buf().map_err(|e| InventoryError::file(path, e))?;
    Ok(without_mark(head).trim_ascii_start().starts_with(b"{"))
}

/// Returns the files with objects of a list of files and directories. In a directory with a manifest, these are the
/// files of the manifest: S3 stores those of all days in one place.
///
/// # Errors
/// If a directory or manifest cannot be read, a file of the manifest is missing, or there is more than one manifest.
pub fn of(paths: &[PathBuf]) -> Result<Vec<ListingFile>, InventoryError> {
    let mut manifest = None;
    let mut others = Vec::new();
    for path in walk(paths)? {
        let is_named = paths.contains(&path);
        if !is_manifest(&path, is_named)? {
            others.push((path, is_named));
        } else if manifest.is_some() {
            let reason = "there is more than one manifest.json, so objects would count twice; name the files of one \
                          inventory";
            return Err(InventoryError::file(&path, reason));
        } else {
            manifest = Some(manifest::read(&path)?);
        }
    }
    let has_manifest = manifest.is_some();
    let mut out = manifest.unwrap_or_default();
    let known: Vec<_> = out.iter().filter_map(|source| source.path.canonicalize().ok()).collect();
    for (path, is_named) in others {
        let is_new = path.canonicalize().is_ok_and(|path| !known.contains(&path));
        if !has_manifest || is_named && is_new {
            out.push(ListingFile { path, columns: None });
        }
    }
    Ok(out)
}
