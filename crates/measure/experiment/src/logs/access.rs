//! Access logs of `plimsoll-gateway`, and the requests that `plimsoll meter` records: lines of JSON.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Format, LogLine, Logged, unix_ns};
use plimsoll_base::provider::calls::Call;
use plimsoll_workload::OperationKind;

/// The parser, which has no state.
#[derive(Default)]
pub struct AccessLog;

/// A line of the log.
#[derive(Deserialize)]
struct Entry<'a> {
    /// Time at which the response was ready.
    #[serde(borrow)]
    time: Cow<'a, str>,
    /// Operation of the S3 API; `None` for a request that was rejected before its operation was known.
    #[serde(borrow)]
    operation: Option<Cow<'a, str>>,
    /// Path of the request, which stands for the key in lines without one.
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow, default)]
    bucket: Cow<'a, str>,
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    /// Number of the part of an upload.
    part: Option<u32>,
    /// Id of the upload.
    #[serde(borrow, default)]
    upload: Cow<'a, str>,
    status: u16,
    bytes_in: u64,
    bytes_out: u64,
    /// Size of the object of which the response has a range.
    object_bytes: Option<u64>,
    /// First byte of this range.
    range_start: Option<u64>,
    duration_ms: f64,
}

/// Returns the kind of an operation; `None` if it is not repeated. The parts of an upload are written as objects.
fn kind(name: &str, status: u16) -> Option<OperationKind> {
    match name {
        "GetObject" if status == 206 => Some(OperationKind::GetRange),
        "GetObject" if status == 304 => Some(OperationKind::Head),
        "GetObject" => Some(OperationKind::Get),
        "HeadObject" => Some(OperationKind::Head),
        "PutObject" | "PostObject" | "UploadPart" => Some(OperationKind::Put),
        "DeleteObject" => Some(OperationKind::Delete),
        "ListObjects" | "ListObjectsV2" | "ListObjectVersions" => Some(OperationKind::List),
        _ => None,
    }
}

/// Returns the request on a bill; `None` if it is not known.
fn call(name: &str) -> Option<Call> {
    match name {
        "PostObject" => Some(Call::PutObject),
        "UploadPartCopy" => Some(Call::UploadPart),
        "ListObjectsV2" | "ListObjectVersions" => Some(Call::ListObjects),
        _ => Call::ALL.into_iter().find(|call| call.name() == name),
    }
}

impl Format for AccessLog {
    fn resolution_ns(&self) -> u64 {
        1
    }

    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine<'a>, String> {
        if line.is_empty() {
            return Ok(LogLine::Nothing);
        }
        let entry: Entry<'a> = serde_json::from_str(line)
            .map_err(|e| format!("not a line of plimsoll-gateway or plimsoll meter: {e}"))?;
        let at: Result<jiff::Timestamp, _> = entry.time.parse();
        let at = at.map_err(|_| format!("time '{}' is not a timestamp", entry.time))?;
        let ready_ns = unix_ns(at).ok_or_else(|| format!("time '{}' is too late", entry.time))?;
        let name = entry.operation.unwrap_or(Cow::Borrowed("rejected request"));
        let (kind, call) = (kind(&name, entry.status), call(&name));
        let key = match (entry.part, entry.key.is_empty()) {
            (Some(part), _) => format!("{}?part={part}&upload={}", entry.key, entry.upload).into(),
            // Lines of early versions have no bucket and no key.
            (None, true) if entry.bucket.is_empty() => entry.path,
            (None, _) => entry.key,
        };
        let bytes = match kind {
            Some(OperationKind::Put) => Some(entry.bytes_in),
            Some(OperationKind::Get | OperationKind::GetRange) => Some(entry.bytes_out),
            _ => None,
        };
        // A negative or endless duration is wrong, and stands for none.
        let took_ms = Some(entry.duration_ms).filter(|ms| (0.0..1e9).contains(ms)).unwrap_or(0.0);
        Ok(LogLine::Request(Logged {
            at_ns: ready_ns.saturating_sub((took_ms * 1e6) as i64),
            operation: name,
            kind,
            call,
            bucket: entry.bucket,
            key,
            status: super::status(entry.status.into())?,
            bytes,
            size: entry.object_bytes,
            range_start: entry.range_start,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"time":"2026-02-06T00:00:38.5Z","id":"1","client":"127.0.0.1","operation":"GetObject",
        "method":"GET","path":"/b/a%22b","bucket":"b","key":"a\"b","access_key":"me","status":206,"bytes_in":0,
        "bytes_out":100,"object_bytes":4096,"duration_ms":250.0}"#;

    fn parsed(line: &str) -> Logged<'_> {
        match AccessLog.parse(line).unwrap() {
            LogLine::Request(logged) => logged,
            LogLine::Nothing => panic!("no request"),
        }
    }

    #[test]
    fn a_line_is_parsed_with_the_time_of_its_start() {
        let expected = Logged {
            at_ns: 1_770_336_038_250_000_000,
            operation: "GetObject".into(),
            kind: Some(OperationKind::GetRange),
            call: Some(Call::GetObject),
            bucket: "b".into(),
            key: "a\"b".into(),
            status: 206,
            bytes: Some(100),
            size: Some(4096),
            range_start: None,
        };
        assert_eq!(parsed(LINE), expected);
    }

    #[test]
    fn parts_are_objects_of_their_own_and_other_operations_are_billed() {
        let part =
            LINE.replace("GetObject", "UploadPart").replace("\"key\"", "\"part\":3,\"upload\":\"u\",\"key\"");
        let logged = parsed(&part);
        assert_eq!(
            (&*logged.key, logged.kind, logged.bytes),
            ("a\"b?part=3&upload=u", Some(OperationKind::Put), Some(0))
        );
        for (name, expected) in [
            ("CompleteMultipartUpload", Some(Call::CompleteMultipartUpload)),
            ("UploadPartCopy", Some(Call::UploadPart)),
            ("ListObjectVersions", Some(Call::ListObjects)),
            ("PutObjectTagging", None),
        ] {
            assert_eq!(parsed(&LINE.replace("GetObject", name)).call, expected, "{name}");
        }
        let rejected = LINE.replace("\"GetObject\"", "null");
        assert_eq!((parsed(&rejected).kind, &*parsed(&rejected).operation), (None, "rejected request"));
    }

    #[test]
    fn lines_without_a_key_have_their_path_and_wrong_ones_are_refused() {
        let older = LINE.replace("\"bucket\":\"b\",\"key\":\"a\\\"b\",", "");
        assert_eq!((&*parsed(&older).bucket, &*parsed(&older).key), ("", "/b/a%22b"));
        for wrong in ["{}", &LINE.replace("250.0", "\"long\""), &LINE.replace("206", "20600")] {
            assert!(AccessLog.parse(wrong).is_err(), "{wrong}");
        }
        let endless = LINE.replace("250.0", "1e300");
        assert_eq!(parsed(&endless).at_ns, 1_770_336_038_500_000_000);
    }
}
