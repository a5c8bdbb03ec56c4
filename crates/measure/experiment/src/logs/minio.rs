//! Logs of MinIO as lines of JSON: audit logs, and the output of `mc admin trace --json`.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Format, LogLine, Logged, unix_ns};
use plimsoll_base::provider::calls::Call;
use plimsoll_workload::OperationKind;

/// The parser, which has no state.
#[derive(Default)]
pub struct Minio;

/// An entry of the audit log, or a trace of a request.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    api: Api<'a>,
    /// Bucket and key of a trace, with a leading slash.
    #[serde(borrow, default)]
    path: Cow<'a, str>,
    #[serde(rename = "statusCode", default)]
    status: u16,
    #[serde(rename = "callStats")]
    stats: Option<Stats>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Api<'a> {
    /// Name of the function in a trace, such as `s3.GetObject`.
    Name(#[serde(borrow)] Cow<'a, str>),
    /// Request in an audit log.
    Audit(#[serde(borrow)] Audit<'a>),
}

#[derive(Deserialize)]
struct Audit<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    bucket: Cow<'a, str>,
    #[serde(borrow, default)]
    object: Cow<'a, str>,
    #[serde(rename = "statusCode", default)]
    status: u16,
    #[serde(default)]
    rx: u64,
    #[serde(default)]
    tx: u64,
    /// Duration of the request in nanoseconds.
    #[serde(borrow, rename = "timeToResponseInNS", default)]
    duration: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Stats {
    #[serde(default)]
    rx: u64,
    #[serde(default)]
    tx: u64,
}

/// Returns the kind of an operation; `None` if it is not repeated.
fn kind(name: &str, status: u16) -> Option<OperationKind> {
    match name {
        "GetObject" if status == 206 => Some(OperationKind::GetRange),
        "GetObject" if status == 304 => Some(OperationKind::Head),
        "GetObject" => Some(OperationKind::Get),
        "HeadObject" => Some(OperationKind::Head),
        "PutObject" | "PutObjectPart" | "PostPolicyBucket" => Some(OperationKind::Put),
        "DeleteObject" => Some(OperationKind::Delete),
        "ListObjectsV1" | "ListObjectsV2" | "ListObjectVersions" => Some(OperationKind::List),
        _ => None,
    }
}

/// Returns the request on a bill; `None` if it is not known.
fn call(name: &str) -> Option<Call> {
    Some(match name {
        "GetObject" => Call::GetObject,
        "HeadObject" => Call::HeadObject,
        "PutObject" | "PostPolicyBucket" => Call::PutObject,
        "CopyObject" => Call::CopyObject,
        "NewMultipartUpload" => Call::CreateMultipartUpload,
        "PutObjectPart" | "CopyObjectPart" => Call::UploadPart,
        "CompleteMultipartUpload" => Call::CompleteMultipartUpload,
        "AbortMultipartUpload" => Call::AbortMultipartUpload,
        "ListMultipartUploads" => Call::ListMultipartUploads,
        "ListObjectsV1" | "ListObjectsV2" | "ListObjectVersions" => Call::ListObjects,
        "DeleteObject" => Call::DeleteObject,
        "DeleteMultipleObjects" => Call::DeleteObjects,
        "HeadBucket" => Call::HeadBucket,
        "PutBucket" | "MakeBucket" => Call::CreateBucket,
        "DeleteBucket" => Call::DeleteBucket,
        _ => return None,
    })
}

impl Format for Minio {
    fn resolution_ns(&self) -> u64 {
        1
    }

    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine<'a>, String> {
        if line.is_empty() {
            return Ok(LogLine::Nothing);
        }
        let entry: Entry<'a> = serde_json::from_str(line).map_err(|e| format!("not a line of MinIO: {e}"))?;
        let at: Result<jiff::Timestamp, _> = entry.time.parse();
        let at = at.map_err(|_| format!("time '{}' is not a timestamp", entry.time))?;
        let mut at_ns = unix_ns(at).ok_or_else(|| format!("time '{}' is too late", entry.time))?;
        let (name, bucket, key, status, rx, tx) = match entry.api {
            Api::Audit(Audit { name, bucket, object, status, rx, tx, duration }) => {
                // The time of an audit log is that of the response.
                let duration = duration.parse::<i64>().ok().filter(|ns| *ns >= 0).unwrap_or(0);
                at_ns = at_ns.saturating_sub(duration);
                (name, bucket, object, status, rx, tx)
            }
            Api::Name(name) => {
                let name = name.strip_prefix("s3.").map_or(name.clone(), |name| name.to_string().into());
                let Stats { rx, tx } = entry.stats.unwrap_or(Stats { rx: 0, tx: 0 });
                (name, Cow::Borrowed(""), entry.path, entry.status, rx, tx)
            }
        };
        let (kind, call) = (kind(&name, status), call(&name));
        let bytes = match kind {
            Some(OperationKind::Put) => Some(rx),
            Some(OperationKind::Get | OperationKind::GetRange) => Some(tx),
            _ => None,
        };
        Ok(LogLine::Request(Logged {
            at_ns,
            operation: name,
            kind,
            call,
            bucket,
            key,
            status,
            bytes,
            size: None,
            range_start: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_logs_and_traces_are_parsed() {
        let audit = r#"{"version":"1","time":"2026-02-06T00:00:38.5Z","api":{"name":"GetObject","bucket":"b","object":"a\"b",
            "status":"OK","statusCode":200,"rx":0,"tx":4096,"timeToResponseInNS":"250000000"},"requestID":"1"}"#;
        let LogLine::Request(logged) = Minio.parse(audit).unwrap() else { panic!("no request") };
        assert_eq!((logged.at_ns, &*logged.bucket, &*logged.key), (1_770_336_038_250_000_000, "b", "a\"b"));
        assert_eq!((logged.kind.unwrap(), logged.bytes), (OperationKind::Get, Some(4096)));
        let trace = r#"{"status":"success","time":"2026-02-06T00:00:38.25Z","callStats":{"rx":77,"tx":5},
            "api":"s3.PutObject","path":"/b/k","statusCode":200}"#;
        let LogLine::Request(logged) = Minio.parse(trace).unwrap() else { panic!("no request") };
        assert_eq!(
            (logged.kind.unwrap(), &*logged.key, logged.bytes),
            (OperationKind::Put, "/b/k", Some(77))
        );
        let text = audit.replace("GetObject", "HealBucket");
        let LogLine::Request(other) = Minio.parse(&text).unwrap() else { panic!("no request") };
        assert_eq!((other.kind, other.call, &*other.operation), (None, None, "HealBucket"));
        assert!(Minio.parse("{}").is_err());
    }
}
