//! The S3 operations, one file per family. Each operation is a function from a [`Call`] to a response or an S3 error.

mod attributes;
mod bucket;
mod copy;
mod delete;
pub mod get;
mod list;
mod multipart;
mod put;
mod versions;

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderName, HeaderValue};

use super::Shared;
use super::body::Received;
use super::conditions::{Existing, for_write};
use super::error::ApiError;
use super::memory::Memory;
use super::response::ServerResponse;
use super::route::{Operation, Route};
use super::state::{Bucket, Object};
use crate::s3::number::decimal;

/// A verified request with its context.
pub struct Call<'a> {
    /// State shared by all connections.
    pub shared: &'a Shared,
    /// Method, URI and headers of the request.
    pub parts: &'a Parts,
    /// Operation and target of the request.
    pub route: &'a Route,
    /// Verified body of the request.
    pub received: Received,
    /// Arrival time in Unix seconds.
    pub now_s: i64,
}

impl Call<'_> {
    /// Returns the value of a request header; `None` if it is absent or not UTF-8.
    fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name).and_then(|v| std::str::from_utf8(v.as_bytes()).ok())
    }

    /// Returns a numeric query parameter, capped at `most`; `default` if it is absent or empty.
    fn number(&self, name: &str, default: u32, most: u32) -> Result<u32, ApiError> {
        match self.route.parameter(name) {
            None | Some("") => Ok(default),
            Some(text) => {
                let negative = text.strip_prefix('-').is_some_and(|rest| decimal(rest).is_some());
                if negative {
                    let text = format!("Argument {text} must be an integer between 0 and 2147483647");
                    return Err(ApiError::with("InvalidArgument", text));
                }
                let number = decimal(text).ok_or_else(|| {
                    ApiError::with(
                        "InvalidArgument",
                        format!("Provided {text} not an integer or within integer range"),
                    )
                })?;
                Ok(number.min(u64::from(most)) as u32)
            }
        }
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.shared.state.memory
    }

    /// Returns the identifier of the server's only account, which owns everything.
    fn owner(&self) -> &str {
        &self.shared.credentials.access_key
    }

    /// Stores an object under the key of the request if the conditions of the request hold. One lock covers the
    /// check and the write, so that one of two concurrent conditional writers fails.
    ///
    /// # Errors
    /// Returns `PreconditionFailed`, `NoSuchKey` for a condition on a missing object, or `NoSuchBucket` if the
    /// bucket was deleted in the meantime.
    fn store(&self, bucket: &Bucket, object: Object) -> Result<(), ApiError> {
        let mut objects = bucket.objects_mut()?;
        let existing = objects.get(&self.route.key).map(Arc::as_ref).map(existing);
        for_write(&self.parts.headers, existing)?;
        // Release the lock before the old content is freed.
        let old = objects.insert(self.route.key.clone(), Arc::new(object));
        drop(objects);
        drop(old);
        Ok(())
    }

    /// Returns the request headers that are stored with an object and sent back with it.
    ///
    /// # Errors
    /// Returns `MetadataTooLarge` for more than 2 KiB of user metadata.
    fn object_headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, ApiError> {
        const KEPT: [&str; 6] = [
            "content-type",
            "content-encoding",
            "content-disposition",
            "content-language",
            "cache-control",
            "expires",
        ];
        let mut out = Vec::new();
        let mut user_bytes = 0;
        for (name, value) in &self.parts.headers {
            if let Some(user) = name.as_str().strip_prefix("x-amz-meta-") {
                user_bytes += user.len() + value.len();
                // The values of a repeated name are joined into one entry.
                match out.iter_mut().find(|(n, _): &&mut (HeaderName, HeaderValue)| n == name) {
                    None => out.push((name.clone(), value.clone())),
                    Some((_, stored)) => {
                        let joined = [stored.as_bytes(), b",", value.as_bytes()].concat();
                        *stored = HeaderValue::from_bytes(&joined).unwrap_or_else(|_| stored.clone());
                    }
                }
            } else if name == "content-encoding" {
                out.extend(encoding_of_object(value).map(|value| (name.clone(), value)));
            } else if KEPT.contains(&name.as_str()) {
                out.push((name.clone(), value.clone()));
            }
        }
        if user_bytes > 2048 {
            return Err(ApiError::new("MetadataTooLarge"));
        }
        if !out.iter().any(|(name, _)| name == "content-type") {
            out.push((http::header::CONTENT_TYPE, HeaderValue::from_static("binary/octet-stream")));
        }
        Ok(out)
    }
}

/// Returns the properties of an object that conditions are compared with.
fn existing(object: &Object) -> Existing<'_> {
    Existing { etag: &object.etag, modified_s: object.modified.as_second() }
}

/// Returns the content encoding to store: as sent, but without `aws-chunked`, which only frames the transfer. `None` if
/// no encoding remains.
fn encoding_of_object(value: &HeaderValue) -> Option<HeaderValue> {
    let Ok(text) = value.to_str() else { return Some(value.clone()) };
    let framing = |encoding: &str| encoding.trim().eq_ignore_ascii_case("aws-chunked");
    if !text.split(',').any(framing) {
        return (!text.is_empty()).then(|| value.clone());
    }
    let rest: Vec<&str> = text.split(',').filter(|encoding| !framing(encoding)).map(str::trim).collect();
    HeaderValue::from_str(&rest.join(",")).ok().filter(|value| !value.is_empty())
}

/// Executes the operation of a request.
///
/// # Errors
/// Returns the S3 error to send to the client.
pub fn dispatch(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    match call.route.operation {
        Operation::ListBuckets => bucket::list(call),
        Operation::CreateBucket => bucket::create(call),
        Operation::HeadBucket => bucket::head(call),
        Operation::DeleteBucket => bucket::delete(call),
        Operation::GetBucketLocation => bucket::location(call),
        Operation::CreateSession => bucket::session(call),
        Operation::ListObjects => list::v1(call),
        Operation::ListObjectsV2 => list::v2(call),
        Operation::ListVersions => versions::list(call),
        Operation::ListUploads => list::uploads(call),
        Operation::DeleteObjects => delete::many(call),
        Operation::PutObject => put::put(call),
        Operation::CopyObject => copy::object(call),
        Operation::GetObject => get::get(call),
        Operation::HeadObject => get::head(call),
        Operation::GetAttributes => attributes::get(call),
        Operation::DeleteObject => delete::one(call),
        Operation::CreateUpload => multipart::create(call),
        Operation::UploadPart => multipart::part(call),
        Operation::UploadPartCopy => copy::part(call),
        Operation::CompleteUpload => multipart::complete(call),
        Operation::AbortUpload => multipart::abort(call),
        Operation::ListParts => list::parts(call),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_encoding_is_stored_without_aws_chunked() {
        let stored = |text| {
            encoding_of_object(&HeaderValue::from_static(text)).map(|v| v.to_str().unwrap().to_string())
        };
        assert_eq!(stored("deflate, gzip").as_deref(), Some("deflate, gzip"));
        assert_eq!(stored("gzip,aws-chunked").as_deref(), Some("gzip"));
        assert_eq!(stored("aws-chunked, deflate, gzip").as_deref(), Some("deflate,gzip"));
        assert_eq!((stored("aws-chunked"), stored("")), (None, None));
    }
}
