//! Requests of the S3 API, and the answers to them.

use bytes::Bytes;

use plimsoll_engine::store::ownership::{OwnedKey, OwnedKeys};
use plimsoll_s3::checksum::{BodyChecksum, base64, md5};
use plimsoll_s3::message::delete_many_body;
use plimsoll_s3::xml::Element;

/// Failures after which a request is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// None, because the effect of the request depends on the state of the store.
    Never,
    /// 429 and 503, with which a store says that it did not execute the request.
    Throttled,
    /// All that may be temporary.
    Temporary,
}

/// Framing of a body as `aws-chunked`.
#[derive(Debug, Clone)]
pub enum Framing {
    /// Chunks with signatures, without a trailer.
    Signed,
    /// A CRC32 in base64 in a trailer, as SDKs send it by default: chunks with signatures, except on TLS.
    Trailer(String),
}

/// A request. Requests that delete something are built with the proof that Plimsoll owns the key.
#[derive(Debug, Clone)]
pub struct CheckCall {
    /// HTTP method of the request.
    pub method: &'static str,
    /// Key of the object; empty for the bucket.
    pub key: String,
    /// Query parameters, decoded.
    pub query: Vec<(String, String)>,
    /// Headers with names in lower case, without the headers of the signature.
    pub headers: Vec<(&'static str, String)>,
    /// Body of the request: pieces that are sent one after another, and the number of them.
    pub body: (Bytes, u64),
    /// Failures after which the request is sent again.
    pub retry: Retry,
    /// Framing of the body as `aws-chunked`; `None` to send it as it is.
    pub framing: Option<Framing>,
    /// Age in seconds of the presigned URL that is used instead of a signed header; `None` for a signed header.
    pub presigned: Option<i64>,
}

impl CheckCall {
    fn new(method: &'static str, key: &str) -> CheckCall {
        CheckCall {
            method,
            key: key.to_string(),
            query: Vec::new(),
            headers: Vec::new(),
            body: (Bytes::new(), 0),
            retry: Retry::Temporary,
            framing: None,
            presigned: None,
        }
    }

    /// Writes an object.
    pub fn put(key: &str, content: impl Into<Bytes>) -> CheckCall {
        CheckCall { body: (content.into(), 1), ..CheckCall::new("PUT", key) }
    }

    /// Reads an object, or with an empty key the bucket.
    pub fn get(key: &str) -> CheckCall {
        CheckCall::new("GET", key)
    }

    /// Reads the headers of an object, or of the bucket.
    pub fn head(key: &str) -> CheckCall {
        CheckCall::new("HEAD", key)
    }

    /// Executes an operation of multipart uploads, or of the bucket.
    pub fn post(key: &str, body: impl Into<Bytes>) -> CheckCall {
        CheckCall { body: (body.into(), 1), retry: Retry::Throttled, ..CheckCall::new("POST", key) }
    }

    /// Deletes an object, or with an upload id a multipart upload.
    pub fn delete(key: OwnedKey<'_>) -> CheckCall {
        CheckCall::new("DELETE", key.as_str())
    }

    /// Deletes several objects.
    pub fn delete_many(keys: OwnedKeys<'_>) -> CheckCall {
        let body = delete_many_body(keys.as_slice().iter().map(|key| (key.as_str(), None)));
        let sum = base64(&md5(body.as_bytes()));
        CheckCall::post("", body).query("delete", "").header(BodyChecksum::Md5.header(), sum)
    }

    /// Lists a page of the keys with a prefix, with version 2 of the operation.
    pub fn list(prefix: &str) -> CheckCall {
        CheckCall::get("").query("list-type", "2").query("prefix", prefix)
    }

    /// Adds a query parameter.
    pub fn query(mut self, name: &str, value: impl Into<String>) -> CheckCall {
        self.query.push((name.to_string(), value.into()));
        self
    }

    /// Adds a header, whose name is in lower case.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> CheckCall {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends the request once, because its effect depends on the state of the store.
    pub fn once(self) -> CheckCall {
        CheckCall { retry: Retry::Never, ..self }
    }

    /// Sends the request again after all failures that may be temporary.
    pub fn repeatable(self) -> CheckCall {
        CheckCall { retry: Retry::Temporary, ..self }
    }

    /// Sends the body as `aws-chunked`.
    pub fn framed(self, framing: Framing) -> CheckCall {
        CheckCall { framing: Some(framing), ..self }
    }

    /// Sends the body this often, one after another, as one body.
    pub fn repeated(mut self, times: u64) -> CheckCall {
        self.body.1 = times;
        self
    }

    /// Uses a presigned URL that was signed this many seconds ago.
    pub fn presigned(self, age_s: i64) -> CheckCall {
        CheckCall { presigned: Some(age_s), ..self }
    }

    /// Returns the number of bytes of the body.
    pub fn bytes(&self) -> u64 {
        self.body.0.len() as u64 * self.body.1
    }
}

/// An answer to a request.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// HTTP status of the answer.
    pub status: u16,
    /// Headers with their names as the store wrote them.
    pub headers: Vec<(String, String)>,
    /// Body of the answer.
    pub body: Vec<u8>,
    /// Error code of S3; empty if there is none.
    pub code: String,
}

impl Answer {
    /// Returns true if the store executed the request.
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.status) && self.code.is_empty()
    }

    /// Returns true if the credentials do not allow the request, or are not valid any more.
    pub fn is_denied(&self) -> bool {
        let codes = ["", "AccessDenied", "ExpiredToken", "InvalidToken", "Forbidden"];
        matches!(self.status, 401 | 403) && codes.contains(&self.code.as_str())
    }

    /// Returns the value of a header, whatever the case of its name; `None` if there is none.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the entity tag with its quotes; empty if there is none.
    pub fn etag(&self) -> &str {
        self.header("etag").unwrap_or_default()
    }

    /// Returns status and error code, such as `412 PreconditionFailed`.
    pub fn outcome(&self) -> String {
        if self.code.is_empty() { self.status.to_string() } else { format!("{} {}", self.status, self.code) }
    }

    /// Parses the body as XML; `None` if it is not.
    pub fn xml(&self) -> Option<Element> {
        Element::parse(&self.body).ok()
    }

    /// Returns the text of the first element with this name directly below the root; empty if there is none.
    pub fn text_of(&self, name: &str) -> String {
        self.xml().and_then(|root| root.text_of(name).map(str::to_string)).unwrap_or_default()
    }
}
