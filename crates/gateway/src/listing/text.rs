//! Text as `aws s3 ls --recursive` prints it: date, time, size and key.

use std::io::BufRead;
use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{Listed, ListingError, Receive};

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
    file: impl BufRead,
    receive: &mut Receive<'_, E>,
) -> Result<(), E> {
    let name = path.display().to_string();
    for (number, line) in (1..).zip(file.lines()) {
        let line = line.map_err(|problem| ListingError::Read { file: name.clone(), problem })?;
        let fail = |problem| ListingError::Line { file: name.clone(), line: number, problem };
        if let Some(listed) = parse(&line).map_err(fail)? {
            receive(listed)?;
        }
    }
    Ok(())
}
