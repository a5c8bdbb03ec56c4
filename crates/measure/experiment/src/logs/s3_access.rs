//! Server access logs of Amazon S3 (S3 user guide, "Amazon S3 server access log format"). Times
//! are whole seconds.

use super::common_log::{Fields, Times, number};
use super::{Format, LogLine, Logged};
use plimsoll_base::provider::calls::Call;
use plimsoll_workload::OperationKind;

/// State of the parser.
#[derive(Default)]
pub struct S3Access {
    times: Times,
}

/// Returns the kind of an operation; `None` if it is not repeated. The parts of an upload are written as objects.
fn kind(operation: &str, status: u16) -> Option<OperationKind> {
    match operation {
        "REST.GET.OBJECT" | "WEBSITE.GET.OBJECT" if status == 206 => Some(OperationKind::GetRange),
        // The store sends no body with 304 Not Modified.
        "REST.GET.OBJECT" | "WEBSITE.GET.OBJECT" if status == 304 => Some(OperationKind::Head),
        "REST.GET.OBJECT" | "WEBSITE.GET.OBJECT" => Some(OperationKind::Get),
        "REST.HEAD.OBJECT" | "WEBSITE.HEAD.OBJECT" => Some(OperationKind::Head),
        "REST.PUT.OBJECT" | "REST.POST.OBJECT" | "REST.PUT.PART" => Some(OperationKind::Put),
        "REST.DELETE.OBJECT" => Some(OperationKind::Delete),
        "REST.GET.BUCKET" | "REST.GET.BUCKETVERSIONS" => Some(OperationKind::List),
        _ => None,
    }
}

/// Returns the request on a bill; `None` if it is not known. The log names each key of a deletion of several keys as
/// BATCH.DELETE.OBJECT, which is no request.
fn call(operation: &str) -> Option<Call> {
    Some(match operation {
        "REST.GET.OBJECT" | "WEBSITE.GET.OBJECT" => Call::GetObject,
        "REST.HEAD.OBJECT" | "WEBSITE.HEAD.OBJECT" => Call::HeadObject,
        "REST.PUT.OBJECT" | "REST.POST.OBJECT" => Call::PutObject,
        "REST.COPY.OBJECT" => Call::CopyObject,
        "REST.POST.UPLOADS" => Call::CreateMultipartUpload,
        "REST.PUT.PART" | "REST.COPY.PART" => Call::UploadPart,
        "REST.POST.UPLOAD" => Call::CompleteMultipartUpload,
        "REST.DELETE.UPLOAD" => Call::AbortMultipartUpload,
        "REST.GET.UPLOADS" => Call::ListMultipartUploads,
        "REST.GET.BUCKET" | "REST.GET.BUCKETVERSIONS" => Call::ListObjects,
        "REST.DELETE.OBJECT" => Call::DeleteObject,
        "REST.POST.MULTI_OBJECT_DELETE" => Call::DeleteObjects,
        "REST.HEAD.BUCKET" => Call::HeadBucket,
        "REST.PUT.BUCKET" => Call::CreateBucket,
        "REST.DELETE.BUCKET" => Call::DeleteBucket,
        _ => return None,
    })
}

impl Format for S3Access {
    fn resolution_ns(&self) -> u64 {
        1_000_000_000
    }

    fn parse<'a>(&mut self, line: &'a str) -> Result<LogLine<'a>, String> {
        if line.is_empty() {
            return Ok(LogLine::Nothing);
        }
        let mut fields = Fields(line);
        let mut next = |name: &str| fields.next().ok_or_else(|| format!("the line has no {name}"));
        next("owner")?;
        let bucket = next("bucket")?;
        let at_ns = self.times.parse(next("time")?)?;
        for name in ["address", "requester", "request ID"] {
            next(name)?;
        }
        let operation = next("operation")?;
        if !operation.contains('.') {
            return Err(format!("'{operation}' is not an operation such as REST.GET.OBJECT"));
        }
        let (key, request) = (next("key")?, next("request URI")?);
        let status = super::status(number("status", next("status")?)?.unwrap_or(0))?;
        next("error code")?;
        let sent = number("bytes sent", next("bytes sent")?)?;
        let size = number("object size", next("object size")?)?;
        let (kind, call) = (kind(operation, status), call(operation));
        // The URI has the number of the part and the ID of the upload, which make the part an object.
        let key = if operation == "REST.PUT.PART" { request } else { key };
        // A copied part has the size of the part.
        let writes = kind == Some(OperationKind::Put) || operation == "REST.COPY.PART";
        let bytes = if writes { size } else { sent };
        Ok(LogLine::Request(Logged {
            at_ns,
            operation: operation.into(),
            kind,
            call,
            bucket: bucket.into(),
            key: key.into(),
            status,
            bytes,
            size,
            range_start: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "79a59df900b949e5 awsexamplebucket1 [06/Feb/2026:00:00:38 +0000] 192.0.2.3 79a59df900b949e5 \
        3E57427F3EXAMPLE REST.GET.OBJECT photos/a%2520b.jpg \"GET /photos/a%20b.jpg HTTP/1.1\" 206 - 100 4096 7 5 \"-\" \
        \"S3Console/0.4\" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234= SigV4";

    #[test]
    fn a_line_is_parsed() {
        let LogLine::Request(logged) = S3Access::default().parse(LINE).unwrap() else { panic!("no request") };
        let expected = Logged {
            at_ns: 1_770_336_038_000_000_000,
            operation: "REST.GET.OBJECT".into(),
            kind: Some(OperationKind::GetRange),
            call: Some(Call::GetObject),
            bucket: "awsexamplebucket1".into(),
            key: "photos/a%2520b.jpg".into(),
            status: 206,
            bytes: Some(100),
            size: Some(4096),
            range_start: None,
        };
        assert_eq!(logged, expected);
        let text = LINE.replace("REST.GET.OBJECT", "REST.GET.ACL");
        let LogLine::Request(other) = S3Access::default().parse(&text).unwrap() else { panic!("no request") };
        assert_eq!((other.kind, &*other.operation), (None, "REST.GET.ACL"));
        assert!(
            S3Access::default()
                .parse("127.0.0.1 - - [06/Feb/2026:00:00:38 +0000] \"GET / HTTP/1.1\" 200 3")
                .is_err()
        );
    }
}
