//! Responses of the JSON API: object resources, listings and errors.

use serde::Deserialize;

use crate::store::{Algorithm, BodyChecksum, Failure, ListedObject, Listing};
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;

/// An object resource as the API sends it, with numbers as strings.
#[derive(Debug, Deserialize)]
struct ResourceSpec {
    #[serde(default)]
    name: String,
    #[serde(default)]
    size: String,
    generation: Option<String>,
    crc32c: Option<String>,
}

/// The properties of an object that the store reports.
#[derive(Debug)]
pub struct Resource {
    /// Size in bytes.
    pub size: u64,
    /// Generation, which identifies this version of the object.
    pub generation: Option<String>,
    /// CRC32C checksum in base64.
    pub crc32c: Option<String>,
}

fn unreadable(timings: Timings) -> Failure {
    Failure::new(ErrorClass::Corrupt, "the response is not the expected JSON document", timings)
}

impl Resource {
    /// Parses an object resource.
    ///
    /// # Errors
    /// Fails if the body is not an object resource.
    pub fn parse(body: &[u8], timings: Timings) -> Result<Resource, Failure> {
        let read: ResourceSpec = serde_json::from_slice(body).map_err(|_| unreadable(timings))?;
        let ResourceSpec { size, generation, crc32c, .. } = read;
        Ok(Resource { size: size.parse().unwrap_or(0), generation, crc32c })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RewriteSpec {
    #[serde(default)]
    done: bool,
    rewrite_token: Option<String>,
    resource: Option<ResourceSpec>,
}

/// The state of a copy.
#[derive(Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// The copy exists. Its generation, if the store reports it.
    Done(Option<String>),
    /// Another call with this token continues the copy.
    Continues(String),
}

impl Rewrite {
    /// Parses the response to a call of `rewriteTo`.
    ///
    /// # Errors
    /// Fails if the body is not such a response, or neither reports an end nor has a token.
    pub fn parse(body: &[u8], timings: Timings) -> Result<Rewrite, Failure> {
        let read: RewriteSpec = serde_json::from_slice(body).map_err(|_| unreadable(timings))?;
        match (read.done, read.rewrite_token) {
            (true, _) => Ok(Rewrite::Done(read.resource.and_then(|resource| resource.generation))),
            (false, Some(token)) if !token.is_empty() => Ok(Rewrite::Continues(token)),
            _ => Err(unreadable(timings)),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageSpec {
    #[serde(default)]
    items: Vec<ResourceSpec>,
    next_page_token: Option<String>,
}

/// Parses a page of a listing and drops the key `start_after` itself.
///
/// # Errors
/// Fails if the body is not a page of a listing.
pub fn page_of(body: &[u8], start_after: &str, timings: Timings) -> Result<Listing, Failure> {
    let page: PageSpec = serde_json::from_slice(body).map_err(|_| unreadable(timings))?;
    let listed = |r: ResourceSpec| ListedObject {
        key: r.name,
        size: r.size.parse().unwrap_or(0),
        etag: r.generation.unwrap_or_default(),
    };
    let objects = page.items.into_iter().filter(|r| start_after.is_empty() || r.name != start_after);
    let next_token = page.next_page_token.filter(|t| !t.is_empty());
    Ok(Listing { objects: objects.map(listed).collect(), common_prefixes: Vec::new(), next_token })
}

/// Returns the CRC32C of the whole object from the response headers of a download.
pub fn kept_checksum(head: &http::response::Parts) -> Option<(BodyChecksum, String)> {
    let values = head.headers.get_all("x-goog-hash");
    let parts = values.iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','));
    let sum = parts.filter_map(|p| p.trim().strip_prefix("crc32c=")).next()?;
    Some((BodyChecksum::Declared(Algorithm::Crc32c), sum.to_string()))
}

#[derive(Debug, Deserialize)]
struct ErrorSpec {
    error: ErrorBody,
}

#[derive(Debug, Deserialize)]
struct ErrorBody {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<Reason>,
}

#[derive(Debug, Deserialize)]
struct Reason {
    #[serde(default)]
    reason: String,
}

/// Converts an error response to a failure. Uses the S3 error code if there is an equivalent, so that codes are
/// comparable between stores.
pub fn failure_of(head: &http::response::Parts, body: &[u8], timings: Timings) -> Failure {
    let status = head.status.as_u16();
    let (message, reason) = match serde_json::from_slice::<ErrorSpec>(body) {
        Ok(read) => {
            let reason = read.error.errors.into_iter().map(|e| e.reason).next().unwrap_or_default();
            (read.error.message, reason)
        }
        Err(_) => {
            let text = String::from_utf8_lossy(&body[..body.len().min(300)]).trim().to_string();
            (if text.is_empty() { "no message".into() } else { text }, String::new())
        }
    };
    let lower = message.to_ascii_lowercase();
    let code = match status {
        401 => "InvalidToken".to_string(),
        404 if lower.contains("bucket") && !lower.contains("object") => "NoSuchBucket".into(),
        404 => "NoSuchKey".into(),
        416 => "InvalidRange".into(),
        409 if lower.contains("you already own") => "BucketAlreadyOwnedByYou".into(),
        412 => "PreconditionFailed".into(),
        _ => reason,
    };
    let class = format!("{status} {code}").trim_end().to_string();
    Failure::new(ErrorClass::Response(class), message, timings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(status: u16, headers: &[(&'static str, &'static str)]) -> http::response::Parts {
        let mut response = http::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap().into_parts().0
    }

    #[test]
    fn errors_get_the_equivalent_s3_codes() {
        let json =
            br#"{"error": {"code": 429, "message": "slow", "errors": [{"reason": "rateLimitExceeded"}]}}"#;
        let class =
            |status, body: &[u8]| failure_of(&parts(status, &[]), body, Timings::default()).class.to_string();
        assert_eq!(class(429, json), "429 rateLimitExceeded");
        assert_eq!(class(404, b"No such object: b/k"), "404 NoSuchKey");
        assert_eq!(
            class(404, br#"{"error": {"message": "The specified bucket does not exist."}}"#),
            "404 NoSuchBucket"
        );
        assert_eq!(class(503, b""), "503");
        assert!(failure_of(&parts(503, &[]), b"", Timings::default()).is_retryable());
    }

    #[test]
    fn a_copy_is_done_or_continues() {
        let of = |body: &[u8]| Rewrite::parse(body, Timings::default()).ok();
        let done = br#"{"done": true, "resource": {"generation": "7"}}"#;
        assert_eq!(of(done), Some(Rewrite::Done(Some("7".into()))));
        let part = br#"{"done": false, "rewriteToken": "t"}"#;
        assert_eq!(of(part), Some(Rewrite::Continues("t".into())));
        assert_eq!(
            [of(b"{}"), of(br#"{"done": false, "rewriteToken": ""}"#), of(b"<x/>")],
            [None, None, None]
        );
    }

    #[test]
    fn pages_and_checksums_are_parsed() {
        let page =
            br#"{"items": [{"name": "a", "size": "1"}, {"name": "b", "size": "2"}], "nextPageToken": "t"}"#;
        let listing = page_of(page, "a", Timings::default()).unwrap();
        assert_eq!(listing.objects.iter().map(|o| (o.key.as_str(), o.size)).collect::<Vec<_>>(), [("b", 2)]);
        assert_eq!(listing.next_token.as_deref(), Some("t"));
        assert!(page_of(b"[]", "", Timings::default()).is_err());
        let head = parts(200, &[("x-goog-hash", "crc32c=AAAAAA==,md5=x"), ("x-goog-hash", "md5=y")]);
        assert_eq!(
            kept_checksum(&head),
            Some((BodyChecksum::Declared(Algorithm::Crc32c), "AAAAAA==".into()))
        );
    }
}
