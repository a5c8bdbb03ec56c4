//! Import of warp's operation log: tab-separated values with a header, compressed with Zstandard (`.csv.zst`) or
//! plain (`.csv`).

use std::path::Path;

use super::{Disagreements, ImportedRequest, Log, stages};
use plimsoll_experiment::logs::LogError;
use plimsoll_experiment::logs::lines::Lines;
use plimsoll_experiment::logs::warp::kind;

/// Positions of the columns that the import uses.
struct Columns {
    op: usize,
    bytes: usize,
    error: usize,
    start: usize,
    first_byte: Option<usize>,
    end: usize,
    duration: Option<usize>,
    endpoint: Option<usize>,
}

impl Columns {
    fn find(header: &str) -> Option<Columns> {
        let names: Vec<&str> = header.trim_end().split('\t').collect();
        let place = |name: &str| names.iter().position(|n| *n == name);
        Some(Columns {
            op: place("op")?,
            bytes: place("bytes")?,
            error: place("error")?,
            start: place("start")?,
            first_byte: place("first_byte"),
            end: place("end")?,
            duration: place("duration_ns"),
            endpoint: place("endpoint"),
        })
    }
}

/// Maximum number of distinct errors, unsupported operations and endpoints. Further errors and operations are counted
/// together; further endpoints are ignored.
const MAX_NAMES: usize = 500;

/// Parses a timestamp as nanoseconds since 1970; `None` if it is empty, invalid or zero.
fn instant(text: &str) -> Option<i128> {
    let at: jiff::Timestamp = text.trim_matches('"').parse().ok()?;
    Some(at.as_nanosecond()).filter(|ns| *ns > 0)
}

/// A row of the log, with times in nanoseconds since 1970.
struct OperationRow {
    record: ImportedRequest,
    start: i128,
    first_byte: i128,
    end: i128,
}

/// Parses one line. Returns `None` for an operation that Plimsoll does not support, and counts it in `log`.
fn row(
    line: &str,
    columns: &Columns,
    log: &mut Log,
    disagree: &mut Disagreements,
) -> Result<Option<OperationRow>, String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let field = |place: usize| fields.get(place).copied().unwrap_or("").trim_matches('"');
    let Some(kind) = kind(field(columns.op)) else {
        leave_out(log, field(columns.op));
        return Ok(None);
    };
    let time = |place: usize, name: &str| {
        instant(field(place)).ok_or_else(|| format!("{name} '{}' is not a timestamp", field(place)))
    };
    let (start, end) = (time(columns.start, "start")?, time(columns.end, "end")?);
    if end < start {
        return Err(format!("end {} is before start {}", field(columns.end), field(columns.start)));
    }
    let bytes = field(columns.bytes);
    let bytes = bytes.parse().map_err(|_| format!("bytes '{bytes}' is not a number of bytes"))?;
    if let Some(duration) = columns.duration.map(field).and_then(|d| d.parse::<f64>().ok()) {
        disagree.add(duration / 1e6, (end - start) as f64 / 1e6);
    }
    let error = error_of(log, field(columns.error));
    let first_byte = columns.first_byte.and_then(|place| instant(field(place))).unwrap_or(0);
    let record = ImportedRequest {
        phase: 0,
        kind,
        error,
        start_ns: 0,
        first_byte_ns: 0,
        end_ns: 0,
        bytes,
        retries: 0,
    };
    Ok(Some(OperationRow { record, start, first_byte, end }))
}

/// Reads an operation log of warp.
///
/// # Errors
/// Returns an [`LogError`] if the file cannot be read, is not an operation log of warp, or contains no supported
/// operation.
pub fn read(file: &Path) -> Result<Log, LogError> {
    let mut lines = Lines::open(file, "warp's operation log")?;
    let columns = Columns::find(lines.read()?.unwrap_or_default()).ok_or_else(|| {
        LogError::at(
            file,
            1,
            "the header does not contain op, bytes, error, start and end; is the file warp's operation log?",
        )
    })?;
    let (mut log, mut disagree) = (Log::default(), Disagreements::default());
    let mut rows: Vec<OperationRow> = Vec::new();
    let mut endpoints: Vec<String> = Vec::new();
    while let Some(line) = lines.read()? {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let endpoint = columns.endpoint.and_then(|place| line.split('\t').nth(place));
        if let Some(endpoint) = endpoint.map(|e| e.trim_matches('"'))
            && endpoints.len() < MAX_NAMES
            && endpoints.iter().all(|known| known != endpoint)
        {
            endpoints.push(endpoint.to_string());
        }
        let read = row(line, &columns, &mut log, &mut disagree);
        rows.extend(read.map_err(|reason| LogError::at(file, lines.number, reason))?);
    }
    let Some(origin) = rows.iter().map(|r| r.start).min() else {
        return Err(LogError::Empty(file.display().to_string()));
    };
    let since = |at: i128| if at > 0 { (at - origin).max(0) as u64 } else { 0 };
    log.records = rows
        .into_iter()
        .map(|row| ImportedRequest {
            start_ns: since(row.start),
            first_byte_ns: since(row.first_byte),
            end_ns: since(row.end),
            ..row.record
        })
        .collect();
    log.records.sort_by_key(|r| r.start_ns);
    log.phases = stages::assign(&mut log.records, "warp");
    log.notes.extend(stages::note(&log.records, &log.phases));
    log.notes.extend(disagree.note("duration_ns", "start", "end"));
    log.origin_unix_s = origin as f64 / 1e9;
    log.store = if endpoints.is_empty() { "as logged by warp".into() } else { endpoints.join(", ") };
    let name = file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    log.origin = format!(
        "warp log {name}; warp runs a closed loop (its rate limit also delays the start), so coordinated omission cannot be undone"
    );
    Ok(log)
}

fn leave_out(log: &mut Log, name: &str) {
    let known = log.left_out.iter().any(|(known, _)| known == name);
    let name = if known || log.left_out.len() < MAX_NAMES { name } else { "(others)" };
    match log.left_out.iter_mut().find(|(known, _)| known == name) {
        Some((_, n)) => *n += 1,
        None => log.left_out.push((name.to_string(), 1)),
    }
}

/// Returns the index of an error's class in the log; `None` if there is no error. The class is the message up to its
/// details, which differ from request to request.
fn error_of(log: &mut Log, message: &str) -> Option<u16> {
    if message.is_empty() {
        return None;
    }
    let class: String = message.split([':', '\n']).next().unwrap_or(message).chars().take(60).collect();
    let known = log.errors.iter().position(|e| *e == class);
    let place = known.or((log.errors.len() > MAX_NAMES).then_some(MAX_NAMES)).unwrap_or_else(|| {
        let full = log.errors.len() == MAX_NAMES;
        log.errors.push(if full { "other errors".into() } else { class });
        log.errors.len() - 1
    });
    Some(place as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::OperationKind;

    const HEADER: &str = "idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n";

    fn read_text(name: &str, text: &str) -> Result<Log, LogError> {
        let file = std::env::temp_dir().join(format!("plimsoll-warp-{}-{name}.csv", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let log = read(&file);
        std::fs::remove_file(&file).unwrap();
        log
    }

    #[test]
    fn rows_become_records_and_unknown_operations_are_counted() {
        let row = |op: &str, error: &str, start: &str, first: &str, end: &str| {
            format!(
                "0\t1\t{op}\tc\t1\t1000\thttp://h:9000\tf\t{error}\t2026-11-21T10:00:{start}Z\t{first}\t2026-11-21T10:00:{end}Z\t5\n"
            )
        };
        let text = [
            HEADER.to_string(),
            row("GET", "", "01.5", "2026-11-21T10:00:01.6Z", "02.0"),
            row("PUT", "connection refused: 1.2.3.4", "01.0", "", "01.25"),
            row("LOCK", "", "01.0", "", "01.25"),
        ]
        .concat();
        let log = read_text("rows", &text).unwrap();
        assert_eq!((log.records.len(), log.left_out.clone()), (2, vec![("LOCK".to_string(), 1)]));
        let get = log.records[1];
        assert_eq!(
            (get.kind, get.start_ns, get.first_byte_ns, get.end_ns),
            (OperationKind::Get, 500_000_000, 600_000_000, 1_000_000_000)
        );
        assert_eq!(
            (log.records[0].error, log.errors[0].as_str(), log.store.as_str()),
            (Some(0), "connection refused", "http://h:9000")
        );
    }

    #[test]
    fn invalid_logs_are_rejected_with_the_line() {
        assert!(
            read_text("none", "a,b,c\n").unwrap_err().to_string().contains(":1: the header does not contain")
        );
        let bad = format!("{HEADER}0\t1\tGET\tc\t1\t5\th\tf\t\tnoon\t\tnoon\t5\n");
        assert!(
            read_text("time", &bad).unwrap_err().to_string().contains(":2: start 'noon' is not a timestamp")
        );
        assert!(read_text("empty", HEADER).unwrap_err().to_string().contains("no operation"));
    }
}
