//! warp's operation log: tab-separated values with a header, compressed with Zstandard (`.csv.zst`) or plain (`.csv`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use ruzstd::decoding::StreamingDecoder;

use super::{ImportError, Log, Record};
use crate::workload::OperationKind;

/// The operation behind warp's name for it.
fn kind(name: &str) -> Option<OperationKind> {
    match name {
        "GET" => Some(OperationKind::Get),
        "PUT" => Some(OperationKind::Put),
        "STAT" | "HEAD" => Some(OperationKind::Head),
        "LIST" => Some(OperationKind::List),
        "DELETE" => Some(OperationKind::Delete),
        _ => None,
    }
}

/// Where the columns are that matter.
struct Columns {
    op: usize,
    bytes: usize,
    error: usize,
    start: usize,
    first_byte: Option<usize>,
    end: usize,
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
            endpoint: place("endpoint"),
        })
    }
}

fn decompressed(file: &Path) -> Result<Box<dyn BufRead>, ImportError> {
    let unreadable = |reason: String| ImportError::unreadable(file, reason);
    let opened = File::open(file).map_err(|e| unreadable(e.to_string()))?;
    let mut head = [0u8; 4];
    let mut reader = BufReader::new(opened);
    let n = reader.read(&mut head).map_err(|e| unreadable(e.to_string()))?;
    let whole = std::io::Cursor::new(head[..n].to_vec()).chain(reader);
    // The magic number of a Zstandard frame (RFC 8878, 3.1.1).
    if head[..n] == [0x28, 0xb5, 0x2f, 0xfd] {
        let decoder = StreamingDecoder::new(whole).map_err(|e| unreadable(format!("not Zstandard: {e}")))?;
        return Ok(Box::new(BufReader::new(decoder)));
    }
    Ok(Box::new(BufReader::new(whole)))
}

/// A timestamp as nanoseconds since 1970; empty and zero times are none.
fn instant(text: &str) -> Option<i128> {
    let at: jiff::Timestamp = text.trim_matches('"').parse().ok()?;
    Some(at.as_nanosecond()).filter(|ns| *ns > 0)
}

/// Reads a log.
///
/// # Errors
/// When the file is not one of warp's.
pub fn read(file: &Path) -> Result<Log, ImportError> {
    let mut lines = decompressed(file)?.lines();
    let header = lines
        .next()
        .transpose()
        .map_err(|e| ImportError::unreadable(file, format!("{e}; is it warp's operation log (.csv.zst)?")))?
        .unwrap_or_default();
    let columns = Columns::find(&header).ok_or_else(|| {
        ImportError::at(
            file,
            1,
            "the header has no columns op, bytes, error, start and end; is it warp's operation log?",
        )
    })?;
    let mut log = Log::default();
    let mut rows: Vec<(Record, i128, i128, i128)> = Vec::new();
    let mut endpoints: Vec<String> = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let line = line.map_err(|e| ImportError::at(file, number, e.to_string()))?;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let field = |place: usize| fields.get(place).copied().unwrap_or("").trim_matches('"');
        let Some(kind) = kind(field(columns.op)) else {
            leave_out(&mut log, field(columns.op));
            continue;
        };
        let time = |place: usize, what: &str| {
            instant(field(place)).ok_or_else(|| {
                ImportError::at(file, number, format!("{what} '{}' is not a time", field(place)))
            })
        };
        let (start, end) = (time(columns.start, "start")?, time(columns.end, "end")?);
        let bytes = field(columns.bytes).parse().map_err(|_| {
            ImportError::at(file, number, format!("bytes '{}' is not a number", field(columns.bytes)))
        })?;
        let error = error_of(&mut log, field(columns.error));
        if let Some(endpoint) =
            columns.endpoint.map(field).filter(|e| !endpoints.iter().any(|known| known == e))
        {
            endpoints.push(endpoint.to_string());
        }
        let first_byte = columns.first_byte.and_then(|place| instant(field(place))).unwrap_or(0);
        let record = Record { phase: 0, kind, error, start_ns: 0, first_byte_ns: 0, end_ns: 0, bytes };
        rows.push((record, start, first_byte, end.max(start)));
    }
    let Some(origin) = rows.iter().map(|r| r.1).min() else {
        return Err(ImportError::Empty(file.display().to_string()));
    };
    let since = |at: i128| if at > 0 { (at - origin).max(0) as u64 } else { 0 };
    log.records = rows
        .into_iter()
        .map(|(record, start, first_byte, end)| Record {
            start_ns: since(start),
            first_byte_ns: since(first_byte),
            end_ns: since(end),
            ..record
        })
        .collect();
    log.records.sort_by_key(|r| r.start_ns);
    log.phases = vec!["warp".into()];
    log.origin_unix_s = origin as f64 / 1e9;
    log.store = if endpoints.is_empty() { "as logged by warp".into() } else { endpoints.join(", ") };
    let name = file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    log.origin = format!(
        "warp log {name}; a closed loop (a rate limit there delays the start, too), so coordinated omission cannot be undone"
    );
    Ok(log)
}

fn leave_out(log: &mut Log, name: &str) {
    match log.left_out.iter_mut().find(|(known, _)| known == name) {
        Some((_, n)) => *n += 1,
        None => log.left_out.push((name.to_string(), 1)),
    }
}

/// The place of an error's class: the message up to its details, which differ from request to request.
fn error_of(log: &mut Log, message: &str) -> Option<u16> {
    if message.is_empty() {
        return None;
    }
    let class: String = message.split([':', '\n']).next().unwrap_or(message).chars().take(60).collect();
    let place = log.errors.iter().position(|e| *e == class).unwrap_or_else(|| {
        log.errors.push(class);
        log.errors.len() - 1
    });
    Some(place.min(usize::from(u16::MAX)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n";

    fn read_text(name: &str, text: &str) -> Result<Log, ImportError> {
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
    fn what_is_no_log_of_warp_says_where() {
        assert!(
            read_text("none", "a,b,c\n").unwrap_err().to_string().contains(":1: the header has no columns")
        );
        let bad = format!("{HEADER}0\t1\tGET\tc\t1\t5\th\tf\t\tnoon\t\tnoon\t5\n");
        assert!(read_text("time", &bad).unwrap_err().to_string().contains(":2: start 'noon' is not a time"));
        assert!(read_text("empty", HEADER).unwrap_err().to_string().contains("no operation"));
    }
}
