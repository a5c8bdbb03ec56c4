//! Writes a file whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use plimsoll_base::files::create;
use plimsoll_base::redaction::redacted_document;

/// Replaces the file at `path` by `contents` with secrets redacted, through a temporary file in the same directory. A
/// link is replaced, not followed: a run directory may come from anybody.
///
/// # Errors
/// Fails if the file cannot be written, for example because the disk is full. The old file is then unchanged.
pub fn write_whole(path: &Path, contents: &str) -> io::Result<()> {
    let contents = redacted_document(contents);
    let temporary = path.with_extension("tmp");
    let written = create(&temporary).and_then(|mut file| {
        file.write_all(contents.as_bytes())?;
        file.sync_data()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(())
}

/// Writes `contents` with secrets redacted to a path that the user named. Writes directly to a device, a pipe or the
/// target of a link.
///
/// # Errors
/// The errors of [`write_whole`].
pub fn write_output(path: &Path, contents: &str) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|existing| !existing.is_file()) {
        return fs::write(path, &*redacted_document(contents));
    }
    write_whole(path, contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: `report RUN` overwrote the file that a link `report.html` in the run directory named.
    #[test]
    fn a_link_in_a_run_directory_is_replaced_and_one_that_the_user_named_is_followed() {
        let dir = std::env::temp_dir().join(format!("plimsoll-write-links-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let (other, link) = (dir.join("other"), dir.join("report.html"));
        fs::write(&other, "untouched").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        write_output(&link, "written").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "written");
        write_whole(&link, "report").unwrap();
        assert_eq!(
            (fs::read_to_string(&other).unwrap(), fs::read_to_string(&link).unwrap()),
            ("written".into(), "report".into())
        );
        std::os::unix::fs::symlink(&other, dir.join("report.tmp")).unwrap();
        assert!(write_whole(&link, "again").is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "written");
        fs::remove_dir_all(dir).unwrap();
    }
}
