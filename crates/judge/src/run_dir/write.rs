//! Writes a file whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use plimsoll_base::redaction::redacted_document;

/// Replaces the file at `path` by `contents` with secrets redacted, through a temporary file in the same directory.
///
/// # Errors
/// Fails if the file cannot be written, for example because the disk is full. The old file is then unchanged.
pub fn write_whole(path: &Path, contents: &str) -> io::Result<()> {
    let contents = redacted_document(contents);
    // Write directly to a device, pipe or link instead of replacing it.
    if fs::symlink_metadata(path).is_ok_and(|existing| !existing.is_file()) {
        return fs::write(path, &*contents);
    }
    let temporary = path.with_extension("tmp");
    let written = fs::File::create(&temporary).and_then(|mut file| {
        file.write_all(contents.as_bytes())?;
        file.sync_data()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(())
}
