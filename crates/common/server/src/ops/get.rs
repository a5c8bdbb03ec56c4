//! The GetObject and HeadObject operations, with ranges, parts, conditions and optional checksums.

use http::header::{CONTENT_LENGTH, ETAG, LAST_MODIFIED, RANGE};
use http::{HeaderMap, HeaderValue};

use super::{VerifiedCall, existing, set_expiry, set_version};
use crate::accepts::default_class;
use crate::conditions::{OF_READ, for_read, range_applies};
use crate::error::{ApiError, ErrorCode};
use crate::names::{AMZ_CHECKSUM_MODE, WHERE};
use crate::response::{ServerResponse, empty, set};
use crate::service::{ObjectInfo, ObjectService};
use plimsoll_s3::number::decimal;

/// Byte range of an object that a request selects.
#[derive(Debug, PartialEq, Eq)]
pub enum ByteSelection {
    /// The whole object.
    Whole,
    /// A half-open range within the object.
    Range(u64, u64),
    /// A range outside the object.
    Unsatisfiable,
}

/// Parses a `Range` header with one range (RFC 9110, 14.2). Like S3, it ignores a malformed header and selects
/// the whole object.
pub fn parse_range(text: &str, size: u64) -> ByteSelection {
    let Some((from, to)) = text.strip_prefix("bytes=").and_then(|r| r.split_once('-')) else {
        return ByteSelection::Whole;
    };
    let number = decimal;
    let (start, end) = match (from.is_empty(), to.is_empty()) {
        (true, true) => return ByteSelection::Whole,
        (true, false) => {
            let Some(suffix) = number(to) else { return ByteSelection::Whole };
            if suffix == 0 {
                return ByteSelection::Unsatisfiable;
            }
            (size.saturating_sub(suffix), size)
        }
        (false, open) => {
            let Some(start) = number(from) else { return ByteSelection::Whole };
            if open {
                (start, size)
            } else {
                let Some(last) = number(to) else { return ByteSelection::Whole };
                if last < start {
                    return ByteSelection::Whole;
                }
                (start, last.saturating_add(1).min(size))
            }
        }
    };
    if start >= size { ByteSelection::Unsatisfiable } else { ByteSelection::Range(start, end) }
}

/// Handles GetObject: returns the object, or the range or part of it that the request selects.
///
/// # Errors
/// Returns the S3 error for a missing object, a failed condition or an unsatisfiable range.
pub async fn get<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    answer(call, true).await
}

/// Handles HeadObject like [`get`], but returns no content.
///
/// # Errors
/// Returns the same errors as [`get`].
pub async fn head<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    answer(call, false).await
}

async fn answer<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    with_body: bool,
) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let part = part_number(call)?;
    let handle = call.service.open(&bucket, &call.route.key, call.version()).await?;
    let object = handle.as_ref();
    match for_read(&call.parts.headers, &OF_READ, existing(object), call.now_s) {
        Err(error) if error.code == ErrorCode::NotModified => return Ok(not_modified(object)),
        other => other?,
    }
    let selected = select(call, object, part)?;
    let (start, end) = match selected {
        ByteSelection::Whole => (0, object.size),
        ByteSelection::Range(start, end) => (start, end),
        ByteSelection::Unsatisfiable => return Err(ApiError::new(ErrorCode::InvalidRange)),
    };
    let mut answer = empty(200);
    describe(call, object, &mut answer, selected == ByteSelection::Whole);
    if call.version().is_none() {
        set_expiry(&mut answer, bucket.as_ref(), &call.route.key, object);
    }
    if selected != ByteSelection::Whole {
        *answer.status_mut() = http::StatusCode::PARTIAL_CONTENT;
        let last = end.saturating_sub(1);
        set(answer.headers_mut(), "content-range", &format!("bytes {start}-{last}/{}", object.size));
    }
    if call.header(&WHERE).is_some()
        && call.rights.are_unlimited()
        && let Some(place) = call.service.place(&handle)
    {
        set(answer.headers_mut(), &WHERE, &place);
    }
    if with_body {
        *answer.body_mut() = call.service.read(handle, start..end).await?;
    } else {
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(end - start));
    }
    Ok(answer)
}

/// Returns a 304 response with the headers from which a cache updates its copy (RFC 9110, 15.4.5).
fn not_modified(object: &ObjectInfo) -> ServerResponse {
    let mut answer = empty(304);
    let headers = answer.headers_mut();
    for (name, value) in &object.headers {
        if matches!(name.as_str(), "cache-control" | "expires") {
            headers.append(name.clone(), value.clone());
        }
    }
    headers.insert(ETAG, object.etag_header.clone());
    headers.insert(LAST_MODIFIED, object.modified_header.clone());
    answer
}

/// Returns the part number in the query; `None` if the request names no part.
fn part_number<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<Option<usize>, ApiError> {
    let Some(text) = call.route.parameter("partNumber") else { return Ok(None) };
    let number = decimal(text).filter(|p| (1..=10_000).contains(p)).map(|p| p as usize);
    let wrong = "Part number must be an integer between 1 and 10000, inclusive.";
    number.map(Some).ok_or_else(|| ApiError::with(ErrorCode::InvalidArgument, wrong))
}

fn select<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    object: &ObjectInfo,
    part: Option<usize>,
) -> Result<ByteSelection, ApiError> {
    let range = call.header(RANGE).filter(|_| range_applies(&call.parts.headers, existing(object)));
    let Some(part) = part else {
        return Ok(range.map_or(ByteSelection::Whole, |text| parse_range(text, object.size)));
    };
    if range.is_some() {
        return Err(ApiError::with(
            ErrorCode::InvalidRequest,
            "Cannot specify both Range header and partNumber query parameter",
        ));
    }
    if part > object.parts.as_ref().map_or(1, Vec::len) {
        return Err(ApiError::new(ErrorCode::InvalidPartNumber));
    }
    let Some(parts) = &object.parts else {
        return Ok(if object.size == 0 {
            ByteSelection::Whole
        } else {
            ByteSelection::Range(0, object.size)
        });
    };
    let start: u64 = parts[..part - 1].iter().map(|p| p.size).sum();
    Ok(ByteSelection::Range(start, start + parts[part - 1].size))
}

/// Adds the headers that describe an object; `response-*` parameters override the stored headers.
fn describe<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    object: &ObjectInfo,
    answer: &mut ServerResponse,
    whole: bool,
) {
    set_version(answer, object.version.as_deref());
    let headers: &mut HeaderMap = answer.headers_mut();
    for (name, value) in &object.headers {
        headers.append(name.clone(), value.clone());
    }
    headers.insert(ETAG, object.etag_header.clone());
    headers.insert(LAST_MODIFIED, object.modified_header.clone());
    headers.insert(http::header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    for (parameter, name) in [
        ("response-content-type", "content-type"),
        ("response-content-encoding", "content-encoding"),
        ("response-content-disposition", "content-disposition"),
        ("response-content-language", "content-language"),
        ("response-cache-control", "cache-control"),
        ("response-expires", "expires"),
    ] {
        if let Some(value) = call.route.parameter(parameter) {
            set(headers, name, value);
        }
    }
    if let (Some(parts), Some(_)) = (&object.parts, call.route.parameter("partNumber")) {
        set(headers, "x-amz-mp-parts-count", &parts.len().to_string());
    }
    if let Some(class) = object.storage_class.as_deref().filter(|class| *class != default_class(call.route)) {
        set(headers, "x-amz-storage-class", class);
    }
    if !object.tags.is_empty() {
        headers.insert("x-amz-tagging-count", HeaderValue::from(object.tags.len()));
    }
    if call.header(&AMZ_CHECKSUM_MODE).is_some() {
        let part = part_number(call).ok().flatten();
        checksum(headers, object, part, whole);
    }
}

/// Adds the checksum of the part that the request names or, if the response is the whole object, of the object.
fn checksum(headers: &mut HeaderMap, object: &ObjectInfo, part: Option<usize>, whole: bool) {
    let Some(of_object) = &object.checksum else { return };
    let of_part = match (part, &object.parts) {
        (Some(part), Some(parts)) => parts.get(part - 1).and_then(|p| p.checksum.as_ref()),
        _ => None,
    };
    let (algorithm, value) = match of_part {
        Some((algorithm, value)) => (*algorithm, value),
        None if whole => (of_object.algorithm, &of_object.value),
        None => return,
    };
    set(headers, algorithm.header(), value);
    set(headers, "x-amz-checksum-type", of_object.kind());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_as_in_rfc_9110() {
        assert_eq!(parse_range("bytes=0-9", 100), ByteSelection::Range(0, 10));
        assert_eq!(parse_range("bytes=90-", 100), ByteSelection::Range(90, 100));
        assert_eq!(parse_range("bytes=-5", 100), ByteSelection::Range(95, 100));
        assert_eq!(parse_range("bytes=-500", 100), ByteSelection::Range(0, 100));
        assert_eq!(parse_range("bytes=50-500", 100), ByteSelection::Range(50, 100));
        assert_eq!(parse_range("bytes=100-", 100), ByteSelection::Unsatisfiable);
        assert_eq!(parse_range("bytes=-0", 100), ByteSelection::Unsatisfiable);
        for ignored in [
            "bytes=9-0",
            "bytes=a-b",
            "items=0-1",
            "bytes=-",
            "bytes=0-1,3-4",
            "bytes=+0-+1",
            "bytes=+0-",
            "bytes=-+1",
        ] {
            assert_eq!(parse_range(ignored, 100), ByteSelection::Whole, "{ignored}");
        }
    }
}
