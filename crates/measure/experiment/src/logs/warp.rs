//! Operation logs of warp: tab-separated values with a header.

use super::{Format, LogLine, Logged, call_of, unix_ns};
use plimsoll_workload::OperationKind;

/// State of the parser: the positions of the columns.
#[derive(Default)]
pub struct Warp {
    columns: Option<[usize; 5]>,
}

const COLUMNS: [&str; 5] = ["op", "bytes", "error", "start", "file"];

/// Returns the kind of an operation in warp's log; `None` if Plimsoll does not support it.
pub fn kind(name: &str) -> Option<OperationKind> {
    match name {
        "GET" => Some(OperationKind::Get),
        "PUT" => Some(OperationKind::Put),
        "STAT" | "HEAD" => Some(OperationKind::Head),
        "LIST" => Some(OperationKind::List),
        "DELETE" => Some(OperationKind::Delete),
        _ => None,
    }
}

impl Format for Warp {
    fn resolution_ns(&self) -> u64 {
        1
    }

    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine<'a>, String> {
        let Some(columns) = self.columns else {
            let names: Vec<&str> = line.split('\t').collect();
            let find = |name: &str| names.iter().position(|known| *known == name);
            let mut found = [0; COLUMNS.len()];
            for (place, name) in found.iter_mut().zip(COLUMNS) {
                *place =
                    find(name).ok_or_else(|| format!("the header of warp's log has no column {name}"))?;
            }
            self.columns = Some(found);
            return Ok(LogLine::Nothing);
        };
        if line.is_empty() || line.starts_with('#') {
            return Ok(LogLine::Nothing);
        }
        let mut fields = [""; 32];
        for (place, field) in fields.iter_mut().zip(line.split('\t')) {
            *place = field.trim_matches('"');
        }
        let [operation, bytes, error, start, file] =
            columns.map(|index| fields.get(index).copied().unwrap_or(""));
        let kind = kind(operation);
        let at: Result<jiff::Timestamp, _> = start.parse();
        let at = at.map_err(|_| format!("start '{start}' is not a timestamp"))?;
        let bytes: u64 = bytes.parse().map_err(|_| format!("bytes '{bytes}' is not a number of bytes"))?;
        let bytes = matches!(kind, Some(OperationKind::Get | OperationKind::Put)).then_some(bytes);
        Ok(LogLine::Request(Logged {
            at_ns: unix_ns(at).ok_or_else(|| format!("start '{start}' is too late"))?,
            operation: operation.into(),
            kind,
            call: kind.and_then(call_of),
            bucket: "".into(),
            key: file.into(),
            status: if error.is_empty() { 200 } else { 500 },
            bytes,
            size: bytes,
            range_start: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_header() {
        let mut format = Warp::default();
        assert!(format.parse("a\tb").is_err());
        let header = "idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns";
        assert_eq!(format.parse(header), Ok(LogLine::Nothing));
        let row = "0\t1\tGET\tc\t1\t1000\th\tabc/1.rnd\t\t2026-02-06T00:00:38.5Z\t\t2026-02-06T00:00:39Z\t5";
        let LogLine::Request(logged) = format.parse(row).unwrap() else { panic!("no request") };
        assert_eq!(
            (logged.at_ns, &*logged.key, logged.size),
            (1_770_336_038_500_000_000, "abc/1.rnd", Some(1000))
        );
        let text = row.replace("GET", "LOCK");
        let LogLine::Request(other) = format.parse(&text).unwrap() else { panic!("no request") };
        assert_eq!((other.kind, &*other.operation), (None, "LOCK"));
        assert!(format.parse(&row.replace("38.5Z", "x")).unwrap_err().contains("is not a timestamp"));
    }
}
