//! The S3 operations, one file per family. Each operation is a function from a [`VerifiedCall`] to a response or an S3
//! error.

mod attributes;
mod bucket;
mod configuration;
mod copy;
pub mod cors;
mod delete;
pub mod get;
mod list;
mod multipart;
pub mod post;
mod put;
mod tags;
mod versions;

use std::cell::Cell;

use bytes::Bytes;
use http::header::AsHeaderName;
use http::request::Parts;
use http::{HeaderName, HeaderValue};

pub use self::bucket::may_be_created;
use super::ServerState;
use super::accounts::{Accounts, Rights};
use super::body::BodyReader;
use super::conditions::{Existing, WriteConditions};
use super::config::acl::CannedAcl;
use super::config::tags::Tags;
use super::error::{ApiError, ErrorCode};
use super::names::{AMZ_ACL, AMZ_CHECKSUM_ALGORITHM, AMZ_STORAGE_CLASS, AMZ_TAGGING};
use super::response::{ServerResponse, set};
use super::route::{ApiOperation, Route};
use super::service::{BucketInfo, NewObject, ObjectInfo, ObjectService};
use plimsoll_s3::checksum::Algorithm;
use plimsoll_s3::number::decimal;

/// A verified request with its context.
pub struct VerifiedCall<'a, S> {
    /// State shared by all connections.
    pub shared: &'a ServerState,
    /// Service that stores the objects.
    pub service: &'a S,
    /// Method, URI and headers of the request.
    pub parts: &'a Parts,
    /// Operation and target of the request.
    pub route: &'a Route,
    /// Accounts of the server.
    pub accounts: &'a Accounts,
    /// Rights of the client.
    pub rights: &'a Rights,
    /// Access key of the client; empty for a request without a signature.
    pub client: &'a str,
    /// Arrival time in Unix seconds.
    pub now_s: i64,
    /// Verified body of the request, unless it is the content of an object.
    pub document: Bytes,
    /// True if the request declares an MD5 or another checksum of its body.
    pub protected: bool,
    /// Payload bytes of the request, for observers.
    pub bytes_in: &'a Cell<u64>,
    /// Object bytes that a copy has copied, for observers.
    pub copied: &'a Cell<Option<u64>>,
}

impl<S: ObjectService> VerifiedCall<'_, S> {
    /// Returns the value of a request header; `None` if it is absent or not UTF-8.
    fn header(&self, name: impl AsHeaderName) -> Option<&str> {
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
                    return Err(ApiError::with(ErrorCode::InvalidArgument, text));
                }
                let number = decimal(text).ok_or_else(|| {
                    ApiError::with(
                        ErrorCode::InvalidArgument,
                        format!("Provided {text} not an integer or within integer range"),
                    )
                })?;
                Ok(number.min(u64::from(most)) as u32)
            }
        }
    }

    /// Returns the identifier of the owner of all buckets and objects.
    fn owner(&self) -> &str {
        &self.accounts.owner
    }

    /// Returns the bucket of the request.
    ///
    /// # Errors
    /// Returns `NoSuchBucket` if there is none.
    async fn bucket(&self) -> Result<S::Bucket, ApiError> {
        self.service.bucket(&self.route.bucket).await
    }

    /// Returns the version id in the query; `None` if the request names no version.
    fn version(&self) -> Option<&str> {
        self.route.parameter("versionId").filter(|version| !version.is_empty())
    }

    /// Returns the tags in the headers of the request.
    ///
    /// # Errors
    /// Returns the S3 error for invalid tags.
    fn tags(&self) -> Result<Tags, ApiError> {
        self.header(&AMZ_TAGGING).map_or(Ok(Tags::default()), Tags::parse_header)
    }

    /// Returns the canned access control list in the headers of the request; private if there is none.
    ///
    /// # Errors
    /// Returns `InvalidArgument` for an unknown list.
    fn acl(&self) -> Result<CannedAcl, ApiError> {
        self.header(&AMZ_ACL).map_or(Ok(CannedAcl::Private), CannedAcl::from_name)
    }

    /// Returns the properties and conditions in the headers of the request for the object that it creates.
    ///
    /// # Errors
    /// Returns the S3 error for invalid headers or tags.
    fn new_object(&self) -> Result<NewObject, ApiError> {
        // S3 computes CRC64NVME for an object uploaded without a checksum.
        let requested = self.header(&AMZ_CHECKSUM_ALGORITHM).and_then(Algorithm::from_name);
        Ok(NewObject {
            headers: self.object_headers()?,
            tags: self.tags()?,
            acl: self.acl()?,
            checksum: Some(requested.unwrap_or(Algorithm::Crc64Nvme)),
            conditions: WriteConditions::of(&self.parts.headers),
            storage_class: self.storage_class(),
        })
    }

    /// Returns the storage class in the headers of the request; `None` if there is none.
    fn storage_class(&self) -> Option<String> {
        self.header(&AMZ_STORAGE_CLASS).map(str::to_string)
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
            return Err(ApiError::new(ErrorCode::MetadataTooLarge));
        }
        if !out.iter().any(|(name, _)| name == "content-type") {
            out.push((http::header::CONTENT_TYPE, HeaderValue::from_static("binary/octet-stream")));
        }
        Ok(out)
    }
}

/// Returns the properties of an object that conditions are compared with.
pub fn existing(object: &ObjectInfo) -> Existing<'_> {
    Existing { etag: object.etag(), modified_s: object.modified.as_second() }
}

/// Adds the expiry of a current object to a response, if a lifecycle rule of its bucket expires it.
fn set_expiry(answer: &mut ServerResponse, bucket: &BucketInfo, key: &str, object: &ObjectInfo) {
    let rules = bucket.lifecycle.as_ref();
    if let Some(text) = rules.and_then(|r| r.expiry(key, object.size, &object.tags, object.modified)) {
        set(answer.headers_mut(), "x-amz-expiration", &text);
    }
}

/// Adds the version id of an object to a response, if it has one.
fn set_version(answer: &mut ServerResponse, version: Option<&str>) {
    if let Some(version) = version {
        set(answer.headers_mut(), "x-amz-version-id", version);
    }
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

/// Executes the operation of a request. `body` is the content of an object, if the request has one.
///
/// # Errors
/// Returns the S3 error to send to the client.
pub async fn dispatch<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    body: Option<&mut BodyReader<'_>>,
) -> Result<ServerResponse, ApiError> {
    match call.route.operation {
        ApiOperation::GetObject => get::get(call).await,
        ApiOperation::HeadObject => get::head(call).await,
        ApiOperation::PutObject => put::put(call, body.ok_or_else(missing_body)?).await,
        ApiOperation::UploadPart => multipart::part(call, body.ok_or_else(missing_body)?).await,
        ApiOperation::DeleteObject => delete::one(call).await,
        ApiOperation::DeleteObjects => delete::many(call).await,
        ApiOperation::ListObjects => list::v1(call).await,
        ApiOperation::ListObjectsV2 => list::v2(call).await,
        ApiOperation::ListVersions => versions::list(call).await,
        ApiOperation::ListUploads => list::uploads(call).await,
        ApiOperation::ListParts => list::parts(call).await,
        ApiOperation::CopyObject => copy::object(call).await,
        ApiOperation::UploadPartCopy => copy::part(call).await,
        ApiOperation::GetAttributes => attributes::get(call).await,
        ApiOperation::CreateUpload => multipart::create(call).await,
        ApiOperation::CompleteUpload => multipart::complete(call).await,
        ApiOperation::AbortUpload => multipart::abort(call).await,
        ApiOperation::GetObjectTags => tags::get(call).await,
        ApiOperation::PutObjectTags => tags::put(call).await,
        ApiOperation::DeleteObjectTags => tags::delete(call).await,
        ApiOperation::Preflight => cors::preflight(call).await,
        ApiOperation::ListBuckets => bucket::list(call).await,
        ApiOperation::CreateBucket => bucket::create(call).await,
        ApiOperation::HeadBucket => bucket::head(call).await,
        ApiOperation::DeleteBucket => bucket::delete(call).await,
        ApiOperation::GetBucketLocation => bucket::location(call).await,
        ApiOperation::CreateSession => bucket::session(call).await,
        _ => configuration::dispatch(call).await,
    }
}

fn missing_body() -> ApiError {
    ApiError::new(ErrorCode::InternalError)
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
