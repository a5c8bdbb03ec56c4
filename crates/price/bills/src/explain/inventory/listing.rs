//! Listings of `aws s3 ls --recursive`: `2020-11-02 15:48:28        146 tmp/metadata`.

use std::io::BufRead;
use std::path::Path;

use super::{Inventory, Listed};
use crate::explain::ExplainError;
use plimsoll_base::files::read_line;

/// Maximum length of a line in bytes; a key has at most 1,024.
const MAX_LINE: u64 = 8 * 1024;

/// Line of a listing.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Size and key of an object.
    Object(u64, &'a str),
    /// Size in units for people, which is not exact.
    Rounded,
}

/// Parses a line that begins with a date; `None` if it does not.
pub fn parse(line: &str) -> Option<Line<'_>> {
    let line = line.trim_end_matches(['\n', '\r']);
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
    Some(match size.parse() {
        Ok(_) if ["Bytes ", "Byte "].iter().any(|unit| key.starts_with(unit)) => Line::Rounded,
        Ok(bytes) => Line::Object(bytes, key),
        Err(_) => Line::Rounded,
    })
}

/// Reads a listing.
pub fn read(file: &Path, mut from: Box<dyn BufRead>, into: &mut Inventory) -> Result<(), ExplainError> {
    let (mut line, mut name, mut number) = (Vec::new(), Vec::new(), 0);
    loop {
        number += 1;
        let at = |reason: String| ExplainError::at(file, number, reason);
        if !read_line(&mut from, MAX_LINE, &mut line).map_err(|e| at(e.to_string()))? {
            return Err(at("the line is too long for a listing".into()));
        }
        if line.is_empty() {
            return Ok(());
        }
        match parse(&String::from_utf8_lossy(&line)) {
            Some(Line::Object(bytes, key)) => {
                let listed = Listed { bucket: b"", key: key.as_bytes(), bytes, class: b"", tier: b"" };
                into.add(&listed, &mut name);
            }
            Some(Line::Rounded) => {
                return Err(at("the sizes are rounded; list without --human-readable".into()));
            }
            // Folders of a listing without --recursive, and the sums of --summarize.
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_time_a_size_and_a_key() {
        assert_eq!(parse("2020-11-02 15:48:28        146 a b  c\n"), Some(Line::Object(146, "a b  c")));
        assert_eq!(parse("2020-11-02 15:48:28 12345678901 k"), Some(Line::Object(12_345_678_901, "k")));
        assert_eq!(parse("2020-11-02 15:48:28  146 Bytes a"), Some(Line::Rounded));
        assert_eq!(
            (parse("                           PRE x/"), parse("Total Objects: 7"), parse("")),
            (None, None, None)
        );
    }
}
