//! Reception of S3 responses: the second half of an operation.

use crate::store::http::reading::{Reading, SHORT_BODY, store_clock_s};
use crate::store::{Failure, Reply, Request};
use plimsoll_base::net::client_limits::MAX_RESPONSE_BYTES;
use plimsoll_base::net::http1::head::Head;
use plimsoll_s3::checksum::{Algorithm, BodyChecksum};
use plimsoll_s3::error::S3Error;
use plimsoll_s3::message::{Listing, completed, copied, delete_many_failure, upload_id, uploads, versions};

/// Reads the whole response to `request` and converts it to a reply.
pub(super) async fn receive(reading: &mut Reading<'_>, request: &Request<'_>) -> Result<Reply, Failure> {
    reading.begin();
    let head = std::mem::take(&mut reading.answer.head);
    let reply = read(reading, request, &head).await;
    // Its memory is used again for the next response.
    reading.answer.head = head;
    reply
}

async fn read(reading: &mut Reading<'_>, request: &Request<'_>, head: &Head) -> Result<Reply, Failure> {
    let request_id = || head.text("x-amz-request-id").unwrap_or("");
    if !head.is_success() {
        let body = reading.excerpt(SHORT_BODY).await?;
        reading.end();
        let mut error = S3Error::parse(head.status(), request_id(), &body);
        if error.code.is_empty() && matches!(request, Request::Head { .. } | Request::CheckBucket) {
            error.code = implied_code(error.status).into();
        }
        return Err(answered(reading, &error));
    }
    let mut reply = Reply::default();
    if matches!(request, Request::Head { .. } | Request::UploadPart { .. }) || reading.observer.wants_etag() {
        reply.etag = head.text("etag").map(str::to_string);
    }
    match request {
        Request::Get { .. } => {
            let kept = if reading.observer.wants_checksum() { kept_checksum(head) } else { None };
            reply.bytes = reading.stream(kept).await?;
        }
        Request::Put { body, .. } | Request::UploadPart { body, .. } => {
            reading.sent();
            let answer = reading.collect(SHORT_BODY).await?;
            reading.end();
            if let Some(error) = S3Error::inside_success(request_id(), &answer) {
                return Err(answered(reading, &error));
            }
            reply.bytes = body.len();
        }
        Request::Head { .. } => {
            reply.size = head.text("content-length").and_then(|v| v.parse().ok());
            reading.collect(0).await?;
        }
        Request::Delete { .. }
        | Request::AbortMultipart { .. }
        | Request::CheckBucket
        | Request::CreateBucket
        | Request::DeleteBucket => {
            reading.collect(SHORT_BODY).await?;
        }
        _ => document(reading, request, head, &mut reply).await?,
    }
    reading.end();
    reply.timings = *reading.timings;
    Ok(reply)
}

/// Reads a response that is an XML document and fills in the reply.
async fn document(
    reading: &mut Reading<'_>,
    request: &Request<'_>,
    head: &Head,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let body = reading.collect(MAX_RESPONSE_BYTES).await?;
    reading.end();
    // S3 can send an error in the body of a 200 response.
    let request_id = head.text("x-amz-request-id").unwrap_or("");
    if let Some(error) = S3Error::inside_success(request_id, &body) {
        return Err(answered(reading, &error));
    }
    let unreadable = |e| format!("the response is {e}");
    match request {
        Request::List { .. } => {
            reply.listing = Some(Listing::parse(&body).map_err(|e| reading.corrupt(unreadable(e)))?);
            reply.store_clock_s = store_clock_s(head);
        }
        Request::DeleteMany { .. } | Request::DeleteVersions { .. } => {
            if let Some(error) = delete_many_failure(&body).map_err(|e| reading.corrupt(unreadable(e)))? {
                return Err(answered(reading, &error));
            }
        }
        Request::CreateMultipart { .. } => {
            reply.upload_id = Some(upload_id(&body).map_err(|e| reading.corrupt(unreadable(e)))?);
        }
        Request::CompleteMultipart { .. } => {
            let done = completed(&body).map_err(|e| reading.corrupt(unreadable(e)))?;
            reply.etag = Some(done.etag).filter(|etag| !etag.is_empty());
            reply.checksum = done.checksum;
        }
        Request::Copy { .. } => {
            let etag = copied(&body).map_err(|e| reading.corrupt(unreadable(e)))?;
            reply.etag = Some(etag).filter(|etag| !etag.is_empty());
        }
        Request::ListUploads { .. } => {
            let page = uploads(&body).map_err(|e| reading.corrupt(unreadable(e)))?;
            (reply.uploads, reply.next_token) = (page.uploads, page.next_token);
        }
        Request::ListVersions { .. } => {
            let page = versions(&body).map_err(|e| reading.corrupt(unreadable(e)))?;
            (reply.versions, reply.next_token) = (page.versions, page.next_token);
        }
        _ => {}
    }
    Ok(())
}

fn answered(reading: &mut Reading<'_>, error: &S3Error) -> Failure {
    let mut message = if error.message.is_empty() { "no message".to_string() } else { error.message.clone() };
    if !error.request_id.is_empty() {
        message.push_str(&format!(" (request id {})", error.request_id));
    }
    reading.answered(error.class(), message)
}

/// Returns the checksum of the whole object from the response headers. Ignores composite checksums: they are
/// computed from the parts' checksums, so streamed content cannot be compared with them.
fn kept_checksum(head: &Head) -> Option<(BodyChecksum, String)> {
    let text = |name: &str| head.text(name);
    if text("x-amz-checksum-type").is_some_and(|kind| kind.eq_ignore_ascii_case("COMPOSITE")) {
        return None;
    }
    let kept = Algorithm::ALL.into_iter().find_map(|a| Some((a, text(a.header())?.to_string())));
    // If there is no type header, a suffix with the number of parts marks a composite checksum.
    let kept = kept.filter(|(_, value)| !value.contains('-'));
    kept.map(|(algorithm, value)| (BodyChecksum::Declared(algorithm), value))
}

/// Returns the S3 error code for a response without a body (to HEAD); empty if the status has no specific code.
fn implied_code(status: u16) -> &'static str {
    match status {
        403 => "AccessDenied",
        404 => "NotFound",
        503 => "SlowDown",
        _ => "",
    }
}
