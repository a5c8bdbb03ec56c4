//! The object that marks the place of a backup.

use std::path::Path;

/// Name of the object with the format and the id of the catalog.
pub const MARKER: &str = "plimsoll-backup.json";

/// Returns true if a directory is the place of a backup.
pub fn is_backup(directory: &Path) -> bool {
    directory.join(MARKER).exists()
}
