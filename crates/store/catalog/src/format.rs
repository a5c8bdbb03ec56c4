//! The format of a stored catalog. A program refuses a newer format: it would report damage, or lose rows of unknown
//! kinds.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use super::CatalogError;

/// Format that this program writes. It changes if an older program could not use the catalog any more.
pub const FORMAT: u32 = 1;

/// Name of the file with the format in the directory of a catalog.
pub const FILE: &str = "FORMAT";

/// Name of the file in the directory of a catalog that was moved.
pub const MOVED: &str = "MOVED";

/// Text before the number in the comment of the table in a database.
const COMMENT: &str = "catalog of plimsoll-gateway, format ";

/// Returns an error for a catalog of a newer format.
fn check(found: u32) -> Result<(), CatalogError> {
    if found <= FORMAT {
        return Ok(());
    }
    Err(CatalogError::Io(format!(
        "the catalog has format {found}, and this version knows formats up to {FORMAT}; use the newer version of \
         plimsoll-gateway"
    )))
}

/// Checks the format of a catalog in a directory, and records it if it is unknown.
///
/// # Errors
/// If the catalog was moved, the format is newer, or the file does not contain the number of a format.
pub fn of_directory(root: &Path) -> Result<(), CatalogError> {
    let (path, moved) = (root.join(FILE), root.join(MOVED));
    // The new place is in use. A start with the old catalog would acknowledge writes that the new one does not have.
    match fs::read_to_string(&moved) {
        Ok(to) => {
            return Err(CatalogError::Io(format!(
                "this catalog was moved to {}; use the settings with that place. To use this one again, without \
                 everything that was written since then, delete {}",
                to.trim(),
                moved.display()
            )));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        // Taken for no mark, it would start the old catalog beside the new one.
        Err(error) => return Err(CatalogError::Io(format!("{}: {error}", moved.display()))),
    }
    match fs::read(&path) {
        Ok(bytes) => {
            let unknown = |_| {
                CatalogError::Io(format!(
                    "{}: this is not the number of a format; if this version of plimsoll-gateway has used the catalog, \
                     remove the file",
                    path.display()
                ))
            };
            check(String::from_utf8_lossy(&bytes).trim().parse().map_err(unknown)?)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A full disk must not prevent the start.
            let _ = write(root, &path);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn write(root: &Path, path: &Path) -> io::Result<()> {
    write_text(root, path, &FORMAT.to_string())
}

fn write_text(root: &Path, path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    // Before the rename: after a power loss, a file without its text would refuse each start of this catalog.
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name is durable only now. A move ends with its copy in use, and a power loss must not bring back the old
    // catalog.
    File::open(root)?.sync_all()
}

/// Marks a catalog in a directory as moved, durably: no start uses it any more.
///
/// # Errors
/// If the disk fails.
pub fn mark_moved(root: &Path, to: &str) -> io::Result<()> {
    let path = root.join(MOVED);
    write_text(root, &path, to).inspect_err(|_| {
        // The caller gives up its copy. With the mark, each start would be refused in favour of a place without one.
        let _ = fs::remove_file(&path);
    })
}

/// Removes the mark again.
///
/// # Errors
/// If the disk fails.
pub fn unmark_moved(root: &Path) -> io::Result<()> {
    fs::remove_file(root.join(MOVED))?;
    // Else a power loss could bring the mark back, and the next start would refuse the catalog that is in use.
    File::open(root)?.sync_all()
}

/// Returns the comment of the table in a database.
pub fn comment() -> String {
    format!("{COMMENT}{FORMAT}")
}

/// Checks the comment of the table in a database. Returns true if it has no format yet.
///
/// # Errors
/// If the format is newer.
pub fn of_comment(text: Option<&str>) -> Result<bool, CatalogError> {
    let number =
        text.and_then(|text| text.strip_prefix(COMMENT)).and_then(|number| number.trim().parse().ok());
    match number {
        // A start that was killed between the creation of the table and its comment has left none.
        None => Ok(true),
        Some(found) => check(found).map(|()| false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::directory::TempDir;

    #[test]
    fn a_newer_format_is_refused_and_an_unknown_one_recorded() {
        let dir = TempDir::new("format");
        of_directory(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(FILE)).unwrap(), "1\n");
        of_directory(dir.path()).unwrap();
        let wrong: [(&[u8], _); 4] = [
            (b"2\n", "the catalog has format 2"),
            (b"x", "remove the file"),
            (b"\xff", "remove the file"),
            (b"", "remove the file"),
        ];
        for (text, problem) in wrong {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert!(of_directory(dir.path()).unwrap_err().to_string().contains(problem), "{text:?}");
        }
        fs::write(dir.path().join(FILE), "1\n").unwrap();
        // A mark that cannot be read is not the absence of one.
        for text in ["/new\n".as_bytes(), b"\xff"] {
            fs::write(dir.path().join(MOVED), text).unwrap();
            assert!(of_directory(dir.path()).unwrap_err().to_string().contains("MOVED"), "{text:?}");
        }
    }

    #[test]
    fn a_comment_has_the_format() {
        assert!(of_comment(None).unwrap() && of_comment(Some("mine")).unwrap());
        assert!(!of_comment(Some(&comment())).unwrap());
        assert!(of_comment(Some(&format!("{COMMENT}{}", FORMAT + 1))).is_err());
    }
}
