//! The operations, one file per family; each is a function from a [`Call`] to an answer or an S3 error.

mod bucket;
mod copy;
mod delete;
mod get;
mod list;
mod multipart;
mod put;

use http::request::Parts;
use http::{HeaderName, HeaderValue};

use super::Shared;
use super::body::Received;
use super::error::ApiError;
use super::response::Answer;
use super::route::{Operation, Route};

/// A verified request.
pub struct Call<'a> {
    /// What all connections share.
    pub shared: &'a Shared,
    /// Head of the request.
    pub parts: &'a Parts,
    /// What it addresses.
    pub route: &'a Route,
    /// Verified body.
    pub received: Received,
    /// Arrival, Unix seconds.
    pub now_s: i64,
}

impl Call<'_> {
    /// A request header as text.
    fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name).and_then(|v| std::str::from_utf8(v.as_bytes()).ok())
    }

    /// A numeric query parameter within `0..=most`.
    fn number(&self, name: &str, default: u32, most: u32) -> Result<u32, ApiError> {
        match self.route.parameter(name) {
            None | Some("") => Ok(default),
            Some(text) => {
                let number: i64 = text.parse().map_err(|_| {
                    ApiError::with(
                        "InvalidArgument",
                        format!("Provided {text} not an integer or within integer range"),
                    )
                })?;
                if number < 0 {
                    let text = format!("Argument {text} must be an integer between 0 and 2147483647");
                    return Err(ApiError::with("InvalidArgument", text));
                }
                Ok(number.min(i64::from(most)) as u32)
            }
        }
    }

    /// The headers that are stored with an object and sent back with it.
    ///
    /// # Errors
    /// `MetadataTooLarge` beyond 2 KiB of user metadata.
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
                // A name that comes more than once is one entry, its values joined.
                match out.iter_mut().find(|(n, _): &&mut (HeaderName, HeaderValue)| n == name) {
                    None => out.push((name.clone(), value.clone())),
                    Some((_, stored)) => {
                        let joined = [stored.as_bytes(), b",", value.as_bytes()].concat();
                        *stored = HeaderValue::from_bytes(&joined).unwrap_or_else(|_| stored.clone());
                    }
                }
            } else if name == "content-encoding" {
                // aws-chunked is framing of the transfer, not a property of the object.
                let text = value.to_str().unwrap_or("");
                let rest: Vec<&str> =
                    text.split(',').map(str::trim).filter(|e| *e != "aws-chunked" && !e.is_empty()).collect();
                if let (false, Ok(value)) = (rest.is_empty(), HeaderValue::from_str(&rest.join(","))) {
                    out.push((name.clone(), value));
                }
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

/// Request headers that ask for a feature which this server does not have.
const ABSENT_HEADERS: &[&str] = &[
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-tagging",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-retain-until-date",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
];

/// Does what was asked.
///
/// # Errors
/// The S3 error to answer with.
pub fn dispatch(call: &Call<'_>) -> Result<Answer, ApiError> {
    for name in ABSENT_HEADERS {
        if let Some(value) = call.header(name).filter(|v| *v != "false" && *v != "AES256") {
            return Err(ApiError::with(
                "NotImplemented",
                format!("This server does not offer {name}: {value}"),
            ));
        }
    }
    match call.route.operation {
        Operation::ListBuckets => bucket::list(call),
        Operation::CreateBucket => bucket::create(call),
        Operation::HeadBucket => bucket::head(call),
        Operation::DeleteBucket => bucket::delete(call),
        Operation::GetBucketLocation => bucket::location(call),
        Operation::CreateSession => bucket::session(call),
        Operation::ListObjects => list::v1(call),
        Operation::ListObjectsV2 => list::v2(call),
        Operation::ListUploads => list::uploads(call),
        Operation::DeleteObjects => delete::many(call),
        Operation::PutObject => put::put(call),
        Operation::CopyObject => copy::object(call),
        Operation::GetObject => get::get(call),
        Operation::HeadObject => get::head(call),
        Operation::DeleteObject => delete::one(call),
        Operation::CreateUpload => multipart::create(call),
        Operation::UploadPart => multipart::part(call),
        Operation::UploadPartCopy => copy::part(call),
        Operation::CompleteUpload => multipart::complete(call),
        Operation::AbortUpload => multipart::abort(call),
        Operation::ListParts => list::parts(call),
    }
}
