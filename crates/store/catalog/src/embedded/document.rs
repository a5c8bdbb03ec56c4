//! Small JSON files that end with their checksum and are replaced as a whole.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::crc32c;
use crate::CatalogError;
use crate::disk::{Disk, read, replace};

/// Length of the last line of a file in bytes: a line break and the CRC-32C of the document.
const TRAILER: usize = 9;

fn trailer(document: &[u8]) -> String {
    format!("\n{:08x}", crc32c(document))
}

/// Reads a document; `None` if there is no such file.
///
/// # Errors
/// [`CatalogError::Damaged`] if the file is not as it was written, or the error of the disk.
pub fn load<T: DeserializeOwned>(
    disk: &dyn Disk,
    directory: &str,
    name: &str,
) -> Result<Option<T>, CatalogError> {
    let damaged = |problem: &str| CatalogError::Damaged {
        file: format!("{directory}/{name}"),
        offset: 0,
        problem: problem.into(),
    };
    let bytes = match read(disk, directory, name) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(damaged("the file is too short"));
        }
        bytes => bytes?,
    };
    let end = bytes.len().checked_sub(TRAILER).ok_or_else(|| damaged("the file is too short"))?;
    if bytes[end..] != *trailer(&bytes[..end]).as_bytes() {
        return Err(damaged("the checksum is wrong"));
    }
    serde_json::from_slice(&bytes[..end]).map(Some).map_err(|e| damaged(&e.to_string()))
}

/// Returns what was loaded or, if it is damaged, a description of the damage.
///
/// # Errors
/// Any other error.
pub fn or_damage<T>(loaded: Result<T, CatalogError>) -> Result<(Option<T>, Option<String>), CatalogError> {
    match loaded {
        Ok(loaded) => Ok((Some(loaded), None)),
        Err(CatalogError::Damaged { file, offset, problem }) => {
            Ok((None, Some(format!("{file} at offset {offset}: {problem}"))))
        }
        // A start that took an error of the disk for damage would replace an intact index.
        Err(error) => Err(error),
    }
}

/// Replaces a document durably.
///
/// # Errors
/// If the disk fails.
pub fn store(
    disk: &dyn Disk,
    directory: &str,
    name: &str,
    document: &impl Serialize,
) -> Result<(), CatalogError> {
    let mut bytes = serde_json::to_vec(document).map_err(|e| CatalogError::Io(e.to_string()))?;
    let trailer = trailer(&bytes);
    bytes.extend_from_slice(trailer.as_bytes());
    Ok(replace(disk, directory, name, &bytes)?)
}
