//! Objects of a listing.

use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::InventoryError;

/// An object of a listing, or a delete marker.
#[derive(Debug, Clone, Copy)]
pub struct Listed<'a> {
    /// File that has the object.
    pub file: &'a Path,
    /// Number of its line, or of its row in a file without lines, from 1.
    pub row: u64,
    /// Bucket; empty if the listing has none.
    pub bucket: &'a [u8],
    /// Key of the object, decoded.
    pub key: &'a [u8],
    /// Size in bytes; `None` for delete markers and rows without a size.
    pub bytes: Option<u64>,
    /// Time of the last modification.
    pub modified: Modified<'a>,
    /// Storage class as in the API; empty for the default class.
    pub class: &'a [u8],
    /// Access tier within Intelligent-Tiering; empty if the listing has none.
    pub tier: &'a [u8],
}

/// Time of the last modification. Only some users need it, so texts are parsed when it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modified<'a> {
    /// The listing has none.
    Unknown,
    /// Text, in UTC unless it names an offset.
    Text(&'a [u8]),
    /// Time in Unix milliseconds.
    Ms(i64),
}

/// Receiver of the objects of a listing.
pub type Receive<'a, E> = dyn FnMut(&Listed<'_>) -> Result<(), E> + 'a;

impl Listed<'_> {
    /// Returns the time of the last modification in Unix milliseconds.
    ///
    /// # Errors
    /// If the row has no time, or its time is malformed.
    pub fn modified_ms(&self) -> Result<i64, InventoryError> {
        let fail = |reason: String| InventoryError::row(self.file, self.row, reason);
        match self.modified {
            Modified::Ms(ms) => Ok(ms),
            Modified::Unknown => {
                Err(fail("the time of the last modification is missing (column LastModified)".into()))
            }
            Modified::Text(text) => {
                let text = String::from_utf8_lossy(text);
                milliseconds(&text)
                    .ok_or_else(|| fail(format!("{text} is no time, such as 2026-01-02T03:04:05Z")))
            }
        }
    }
}

fn milliseconds(text: &str) -> Option<i64> {
    let in_utc = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp());
    text.parse::<jiff::Timestamp>().ok().or_else(in_utc).map(|at| at.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_an_offset_is_in_utc() {
        let same = ["2026-01-02T03:04:05Z", "2026-01-02 03:04:05", "2026-01-02T04:04:05.000+01:00"];
        assert_eq!(same.map(milliseconds), [Some(1_767_323_045_000); 3]);
        assert_eq!(milliseconds("yesterday"), None);
    }
}
