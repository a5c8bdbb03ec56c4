//! Listings of `aws s3 ls --recursive`: `2020-11-02 15:48:28        146 tmp/metadata`.

use std::io::BufRead;
use std::path::Path;

use plimsoll_base::files::read_line;

use crate::{InventoryError, Listed, Modified, Receive};

/// Maximum length of a line in bytes; a key has at most 1,024.
const MAX_LINE: usize = 64 * 1024;

/// Line of a listing.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    /// Time, size and key of an object.
    Object(&'a str, u64, &'a str),
    /// Size in units for people, which is not exact.
    Rounded,
    /// Number of objects, which `--summarize` adds at the end.
    Count(u64),
    /// Folder of a listing without `--recursive`.
    Folder(&'a str),
    /// Sum of the sizes, or nothing.
    Other,
}

/// Parses a line; `None` if it is not that of a listing.
fn parse(line: &str) -> Option<Line<'_>> {
    let line = line.trim_end_matches(['\n', '\r']);
    let trimmed = line.trim_start();
    if let Some(count) = trimmed.strip_prefix("Total Objects:") {
        return Some(count.trim().parse().map_or(Line::Other, Line::Count));
    }
    if let Some(folder) = trimmed.strip_prefix("PRE ") {
        return Some(Line::Folder(folder));
    }
    if trimmed.is_empty() || trimmed.starts_with("Total Size:") {
        return Some(Line::Other);
    }
    let (time, rest) = line.split_at_checked(19)?;
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b' ',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    if !time.bytes().enumerate().all(shape) {
        return None;
    }
    let rest = rest.strip_prefix(' ')?.trim_start();
    let (size, key) = rest.split_once(' ')?;
    match size.parse() {
        Ok(_) if ["Bytes ", "Byte "].iter().any(|unit| key.starts_with(unit)) => Some(Line::Rounded),
        Ok(bytes) => Some(Line::Object(time, bytes, key)),
        Err(_) if size.parse::<f64>().is_ok() => Some(Line::Rounded),
        Err(_) => None,
    }
}

/// Returns true if a file whose first line is this one is a listing.
pub fn is_first(line: &[u8]) -> bool {
    // Keys may have any bytes.
    let line = String::from_utf8_lossy(line);
    !line.trim().is_empty() && parse(&line).is_some()
}

/// Reads a listing. Its times are local; they are taken as UTC, which is exact enough for rules in days.
///
/// # Errors
/// If a line is malformed, or the receiver fails.
pub fn read<E: From<InventoryError>>(
    file: &Path,
    mut from: impl BufRead,
    receive: &mut Receive<'_, E>,
) -> Result<(), E> {
    let (mut line, mut objects) = (Vec::new(), 0u64);
    for row in 1.. {
        let at = |reason: String| InventoryError::row(file, row, reason);
        if !read_line(&mut from, MAX_LINE as u64, &mut line).map_err(|e| at(e.to_string()))? {
            return Err(at(format!("the line is longer than {} KiB", MAX_LINE / 1024)).into());
        }
        if line.is_empty() {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        match parse(&text) {
            Some(Line::Object(time, bytes, key)) => {
                objects += 1;
                receive(&Listed {
                    file,
                    row,
                    bucket: b"",
                    key: key.as_bytes(),
                    bytes: Some(bytes),
                    modified: Modified::Text(time.as_bytes()),
                    class: b"",
                    tier: b"",
                })?;
            }
            Some(Line::Count(count)) if count != objects => {
                return Err(at(format!("the listing has {objects} of {count} objects")).into());
            }
            Some(Line::Folder(folder)) => {
                return Err(
                    at(format!("the objects of folder {folder} are missing; list with --recursive")).into()
                );
            }
            Some(Line::Rounded) => {
                return Err(at("the sizes are rounded; list without --human-readable".into()).into());
            }
            // Another listing may follow.
            Some(Line::Count(_)) => objects = 0,
            Some(Line::Other) => {}
            None => {
                return Err(at(format!("'{}' is not of the form DATE TIME SIZE KEY", text.trim_end())).into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_time_a_size_and_a_key() {
        let time = "2020-11-02 15:48:28";
        let object = |bytes, key| Some(Line::Object(time, bytes, key));
        assert_eq!(parse("2020-11-02 15:48:28        146 a b  c\n"), object(146, "a b  c"));
        assert_eq!(parse("2020-11-02 15:48:28 12345678901 k"), object(12_345_678_901, "k"));
        assert_eq!(parse("2020-11-02 15:48:28  146 Bytes a"), Some(Line::Rounded));
        assert_eq!(parse("2020-11-02 15:48:28   11.1 MiB a"), Some(Line::Rounded));
        assert_eq!(parse("                           PRE x/"), Some(Line::Folder("x/")));
        assert_eq!(parse("Total Objects: 7"), Some(Line::Count(7)));
        assert_eq!((parse(""), parse("   Total Size: 9")), (Some(Line::Other), Some(Line::Other)));
        assert_eq!((parse("2020-11-02 15:48:28 bucket"), parse("2020-11-02 many key")), (None, None));
    }
}
