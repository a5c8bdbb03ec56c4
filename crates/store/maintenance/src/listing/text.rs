//! Text as `aws s3 ls --recursive` prints it: date, time, size and key.

use std::io::BufRead;
use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use plimsoll_base::files::read_line;

use super::{Listed, ListingError, MAX_LINE, Receive};

/// Parses a line; `None` if it is empty or a summary. The times of the listing are local; they are read as UTC, which
/// is exact enough for rules in days.
fn parse(line: &str) -> Result<Option<Listed>, String> {
    let line = line.trim_start();
    if line.is_empty() || line.starts_with("Total ") || line.starts_with("PRE ") {
        return Ok(None);
    }
    let wrong = || format!("'{line}' is not of the form DATE TIME SIZE KEY");
    let (date, rest) = line.split_once(' ').ok_or_else(wrong)?;
    let (time, rest) = rest.trim_start().split_once(' ').ok_or_else(wrong)?;
    let (size, key) = rest.trim_start().split_once(' ').ok_or_else(wrong)?;
    let at: DateTime = format!("{date}T{time}").parse().map_err(|_| wrong())?;
    let modified = at.to_zoned(TimeZone::UTC).map_err(|_| wrong())?.timestamp();
    let size = size.parse().map_err(|_| wrong())?;
    let modified_ms = modified.as_millisecond();
    Ok(Some(Listed { bucket: String::new(), key: key.to_string(), size, modified_ms }))
}

/// Reads a listing.
///
/// # Errors
/// If a line is malformed, or the receiver fails.
pub fn read<E: From<ListingError>>(
    path: &Path,
    mut file: impl BufRead,
    receive: &mut Receive<'_, E>,
) -> Result<(), E> {
    let name = path.display().to_string();
    let mut line = Vec::new();
    for number in 1.. {
        let whole = read_line(&mut file, MAX_LINE as u64, &mut line);
        let fail = |problem| ListingError::Line { file: name.clone(), line: number, problem };
        if !whole.map_err(|problem| ListingError::Read { file: name.clone(), problem })? {
            return Err(fail(format!("the line is longer than {} KiB", MAX_LINE / 1024)).into());
        }
        if line.is_empty() {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|_| fail("the line is not UTF-8 text".into()))?;
        if let Some(listed) = parse(text.trim_end_matches(['\n', '\r'])).map_err(fail)? {
            receive(listed)?;
        }
    }
    Ok(())
}
