//! Results of other tools, one file for each. Files are recognised by their content.

mod elbencho;
mod go_ycsb;
mod k6;
pub mod published;
mod warp;

use std::path::Path;

use super::facts::{Facts, Measurement};
use plimsoll_base::files::read_text;

/// Largest result file in bytes. Logs of operations are read line by line, and have no limit.
const MAX_FILE: u64 = 64 << 20;

/// Reason why a file cannot be audited.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Read(String, String),
    /// The file is none of the known results.
    #[error(
        "{0}: not a result that Plimsoll knows: a run directory, a log or JSON of warp, the CSV of elbencho (--csvfile), \
         the JSON summary of k6, or the output of go-ycsb"
    )]
    Unknown(String),
    /// The file looks like a result of a tool, but is not valid.
    #[error("{file}: {problem}")]
    Invalid {
        /// Name of the file.
        file: String,
        /// Description of the error.
        problem: String,
    },
}

/// Reads the result of another tool.
///
/// # Errors
/// A [`ToolError`] if the file cannot be read or is none of the known results.
pub fn read(path: &Path) -> Result<Facts, ToolError> {
    let file = path.display().to_string();
    let name = path.file_name().map_or(file.clone(), |name| name.to_string_lossy().into_owned());
    if name.ends_with(".zst") || is_operation_log(path) {
        return warp::log(path).map(|facts| named(facts, &file));
    }
    let text = read_text(path, MAX_FILE).map_err(|e| ToolError::Read(file.clone(), e.to_string()))?;
    let invalid = |problem: String| ToolError::Invalid { file: file.clone(), problem };
    let first = text.trim_start().chars().next();
    let header = text.lines().next().unwrap_or_default();
    let facts = match first {
        Some('{') => {
            let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| invalid(e.to_string()))?;
            match () {
                () if value.get("metrics").is_some() => k6::facts(&value).map_err(invalid)?,
                () if value.get("by_op_type").is_some() => warp::summary(&value),
                () if value.get("operations").is_some_and(serde_json::Value::is_array) => {
                    warp::analysis(&value)
                }
                () => return Err(ToolError::Unknown(file)),
            }
        }
        _ if text.contains("Run finished, takes ") => go_ycsb::facts(&text).map_err(invalid)?,
        _ if header.contains("ISO date") && header.contains("operation") => {
            elbencho::facts(&text).map_err(invalid)?
        }
        _ => return Err(ToolError::Unknown(file)),
    };
    if facts.measurements.is_empty() {
        return Err(invalid("there are no figures of operations".into()));
    }
    impossible(&facts).map_or_else(|| Ok(named(facts, &file)), |problem| Err(invalid(problem)))
}

/// Returns the first figure that cannot be true; `None` if there is none.
fn impossible(facts: &Facts) -> Option<String> {
    facts.measurements.iter().find_map(|one| {
        let figures = one.values.iter().chain(&one.measured_s);
        let wrong = figures.copied().find(|value| !value.is_finite() || *value < 0.0);
        let too_many = one.failed.zip(one.operations).filter(|(failed, all)| failed > all);
        match (wrong, too_many) {
            (Some(value), _) => Some(format!("{}: the figure {value} is impossible", one.name)),
            (None, Some((failed, all))) => Some(format!("{}: {failed} of {all} operations failed", one.name)),
            (None, None) => None,
        }
    })
}

fn named(facts: Facts, file: &str) -> Facts {
    let stores = facts.stores.max(1);
    Facts { subject: file.to_string(), stores, ..facts }
}

/// Returns true if the first line is the header of an operation log of warp.
fn is_operation_log(path: &Path) -> bool {
    use std::io::{BufRead, BufReader, Read};
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut line = Vec::new();
    let _ = BufReader::new(file.take(4096)).read_until(b'\n', &mut line);
    let line = String::from_utf8_lossy(&line);
    line.contains('\t') && line.split('\t').any(|name| name.trim() == "op") && line.contains("start")
}

/// Facts that no result of another tool has.
fn undisclosed(more: &[&str]) -> Vec<String> {
    more.iter().chain(&["machine of the client", "store"]).map(ToString::to_string).collect()
}

/// Returns true if a name of an operation denotes a read.
fn is_read(operation: &str) -> bool {
    let name = operation.to_ascii_lowercase();
    name.contains("read") || name.contains("get") || name == "scan"
}

/// Returns a measurement of an operation in a closed loop.
fn closed(name: &str) -> Measurement {
    Measurement {
        name: name.to_string(),
        reads: is_read(name),
        figure: "rate".into(),
        open_loop: Some(false),
        ..Measurement::default()
    }
}
