//! HTTP requests for calls of the JSON API.

use std::ops::Range;

use bytes::Bytes;
use http::{HeaderValue, Method};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, RANGE};

use crate::store::http::{Prepared, payload_of};
use crate::store::{Body, Segments};
use plimsoll_base::net::encode::{encode_into, encode_query};
use plimsoll_s3::url::gcs::GcsUrl;

/// A call of the JSON API. It can be sent again if the reused connection was closed.
pub struct JsonCall {
    method: Method,
    /// Path and query of the URL.
    target: String,
    headers: Vec<(HeaderName, String)>,
    body: Option<Body>,
    /// True if sending the call twice has the same effect as sending it once.
    pub idempotent: bool,
    /// True if the call addresses the bucket rather than an object in it.
    pub of_bucket: bool,
}

/// Query parameter that selects the fields of an object resource.
const FIELDS: &str = "fields=name,size,generation,crc32c";
/// Content type of uploaded objects.
const OCTETS: &str = "application/octet-stream";

fn name_into(out: &mut String, key: &str) {
    encode_into(out, key.as_bytes(), false);
}

impl JsonCall {
    fn new(method: Method, target: String) -> JsonCall {
        let idempotent = method != Method::POST;
        JsonCall { method, target, headers: Vec::new(), body: None, idempotent, of_bucket: false }
    }

    fn with(mut self, name: HeaderName, value: impl Into<String>) -> JsonCall {
        self.headers.push((name, value.into()));
        self
    }

    fn json(self, value: &serde_json::Value) -> JsonCall {
        let body = Some(Body::Whole(Bytes::from(value.to_string())));
        JsonCall { body, ..self.with(CONTENT_TYPE, "application/json") }
    }

    fn object(url: &GcsUrl, method: Method, key: &str, query: &str) -> JsonCall {
        let mut target = format!("/storage/v1/b/{}/o/", url.endpoint.bucket);
        name_into(&mut target, key);
        if !query.is_empty() {
            target.push('?');
            target.push_str(query);
        }
        JsonCall::new(method, target)
    }

    fn upload(url: &GcsUrl, kind: &str, key: &str) -> JsonCall {
        let mut target =
            format!("/upload/storage/v1/b/{}/o?uploadType={kind}&{FIELDS}&name=", url.endpoint.bucket);
        name_into(&mut target, key);
        // Uploading the same content again under the same name gives the same object.
        JsonCall { idempotent: true, ..JsonCall::new(Method::POST, target) }
    }

    /// Returns the call that reads an object or a byte range of it.
    pub fn get(url: &GcsUrl, key: &str, range: Option<Range<u64>>) -> JsonCall {
        let call = JsonCall::object(url, Method::GET, key, "alt=media");
        match range {
            Some(range) => call.with(RANGE, format!("bytes={}-{}", range.start, range.end - 1)),
            None => call,
        }
    }

    /// Returns true if the call reads a byte range.
    pub fn ranged(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == RANGE)
    }

    /// Returns the call that reads an object resource.
    pub fn head(url: &GcsUrl, key: &str) -> JsonCall {
        JsonCall::object(url, Method::GET, key, FIELDS)
    }

    /// Returns the call that deletes an object.
    pub fn delete(url: &GcsUrl, key: &str) -> JsonCall {
        JsonCall::object(url, Method::DELETE, key, "")
    }

    /// Returns the call that lists a page of objects. Google starts at a name, not after it, so the call
    /// requests one extra object.
    pub fn list(url: &GcsUrl, prefix: &str, start_after: &str, token: &str, max_keys: u32) -> JsonCall {
        let most = max_keys + u32::from(!start_after.is_empty());
        let mut target = format!(
            "/storage/v1/b/{}/o?fields=items(name,size,generation),nextPageToken&maxResults={most}",
            url.endpoint.bucket
        );
        for (name, value) in [("prefix", prefix), ("startOffset", start_after), ("pageToken", token)] {
            if !value.is_empty() {
                target.push_str(&format!("&{name}={}", encode_query(value)));
            }
        }
        JsonCall { of_bucket: true, ..JsonCall::new(Method::GET, target) }
    }

    /// Returns the call that checks (GET), creates (POST) or deletes (DELETE) the bucket.
    ///
    /// # Errors
    /// Fails if the bucket is to be created and no project is known.
    pub fn bucket(url: &GcsUrl, method: Method) -> Result<JsonCall, String> {
        let bucket = &url.endpoint.bucket;
        if method != Method::POST {
            let target = format!("/storage/v1/b/{bucket}");
            return Ok(JsonCall { of_bucket: true, ..JsonCall::new(method, target) });
        }
        let project = url.project.as_deref().or((!url.sign).then_some("test"));
        let project = project.ok_or(
            "a new bucket needs a project; add project= to the store URL, or set GOOGLE_CLOUD_PROJECT",
        )?;
        let call = JsonCall::new(Method::POST, format!("/storage/v1/b?project={}", encode_query(project)));
        Ok(call.json(&serde_json::json!({ "name": bucket })))
    }

    /// Returns the call that uploads an object with its CRC32C in one request.
    pub fn media(url: &GcsUrl, key: &str, body: &Body, crc32c: &str) -> JsonCall {
        let hash = format!("crc32c={crc32c}");
        let Some(class) = &url.storage_class else {
            let call = JsonCall::upload(url, "media", key).with(CONTENT_TYPE, OCTETS);
            let call = call.with(HeaderName::from_static("x-goog-hash"), hash);
            return JsonCall { body: Some(body.clone()), ..call };
        };
        // The object's properties are sent in a MIME part before its content.
        const BOUNDARY: &str = "plimsoll-boundary";
        let properties = serde_json::json!({ "name": key, "storageClass": class, "crc32c": crc32c });
        let head = format!(
            "--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{properties}\r\n--{BOUNDARY}\r\nContent-Type: {OCTETS}\r\n\r\n"
        );
        let tail = format!("\r\n--{BOUNDARY}--\r\n");
        let call = JsonCall::upload(url, "multipart", key)
            .with(CONTENT_TYPE, format!("multipart/related; boundary={BOUNDARY}"));
        let framed = Framed { head: head.into(), content: body.clone(), tail: tail.into() };
        JsonCall { body: Some(Body::Segmented(std::sync::Arc::new(framed))), ..call }
    }

    /// Returns the call that starts a resumable upload.
    pub fn begin_resumable(url: &GcsUrl, key: &str, bytes: u64, crc32c: &str) -> JsonCall {
        let mut properties = serde_json::json!({ "name": key, "crc32c": crc32c });
        if let Some(class) = &url.storage_class {
            properties["storageClass"] = class.as_str().into();
        }
        let call = JsonCall::upload(url, "resumable", key).json(&properties);
        let call = call.with(HeaderName::from_static("x-upload-content-length"), bytes.to_string());
        // An unused session expires, so sending the call twice is harmless.
        JsonCall { idempotent: true, ..call }
    }

    /// Returns the call that sends the bytes of a resumable upload from offset `from`.
    pub fn chunk(session: &str, body: Body, from: u64, total: u64) -> JsonCall {
        let end = from + body.len();
        let range = if body.is_empty() {
            format!("bytes */{total}")
        } else {
            format!("bytes {from}-{}/{total}", end - 1)
        };
        let call = JsonCall::new(Method::PUT, session.to_string()).with(hyper::header::CONTENT_RANGE, range);
        // After a failure, the client queries which bytes the server has stored instead of sending them again.
        JsonCall { body: Some(body), idempotent: false, ..call }
    }

    /// Returns the call that queries how many bytes of a resumable upload the server has stored.
    pub fn status(session: &str, total: u64) -> JsonCall {
        JsonCall { idempotent: true, ..JsonCall::chunk(session, Body::Whole(Bytes::new()), 0, total) }
    }

    /// Returns the call that joins objects, given with their generations, into one.
    pub fn compose(url: &GcsUrl, key: &str, sources: &[(String, Option<String>)]) -> JsonCall {
        let mut target = format!("/storage/v1/b/{}/o/", url.endpoint.bucket);
        name_into(&mut target, key);
        target.push_str(&format!("/compose?{FIELDS}"));
        let source = |(name, generation): &(String, Option<String>)| match generation {
            Some(generation) => serde_json::json!({ "name": name, "generation": generation }),
            None => serde_json::json!({ "name": name }),
        };
        let mut destination = serde_json::json!({ "contentType": OCTETS });
        if let Some(class) = &url.storage_class {
            destination["storageClass"] = class.as_str().into();
        }
        let sources: Vec<serde_json::Value> = sources.iter().map(source).collect();
        let call = JsonCall::new(Method::POST, target);
        call.json(&serde_json::json!({ "sourceObjects": sources, "destination": destination }))
    }

    /// Returns the call that copies an object. `token` continues an unfinished copy; the first call has an empty one.
    pub fn rewrite(url: &GcsUrl, from: &str, key: &str, token: &str) -> JsonCall {
        let bucket = &url.endpoint.bucket;
        let mut target = format!("/storage/v1/b/{bucket}/o/");
        name_into(&mut target, from);
        target.push_str(&format!("/rewriteTo/b/{bucket}/o/"));
        name_into(&mut target, key);
        target.push_str("?fields=done,rewriteToken,resource(generation)");
        if !token.is_empty() {
            target.push_str(&format!("&rewriteToken={}", encode_query(token)));
        }
        let properties = match &url.storage_class {
            Some(class) => serde_json::json!({ "storageClass": class }),
            None => serde_json::json!({}),
        };
        JsonCall { idempotent: true, ..JsonCall::new(Method::POST, target).json(&properties) }
    }

    /// Returns the length of the body in bytes.
    pub fn len(&self) -> u64 {
        self.body.as_ref().map_or(0, Body::len)
    }

    /// Returns the HTTP request, ready to be sent.
    ///
    /// # Errors
    /// Fails if the key does not give a valid URL or a header value is invalid.
    pub fn prepare(&self, host: &str, token: Option<&str>, tag: Option<&str>) -> Result<Prepared, String> {
        let value = |text: &str| HeaderValue::from_str(text).map_err(|e| e.to_string());
        let mut request = hyper::Request::new(payload_of(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = hyper::Uri::try_from(&self.target)
            .map_err(|e| format!("the key does not give a valid URL: {e}"))?;
        let headers = request.headers_mut();
        headers.insert(HOST, value(host)?);
        for (name, text) in &self.headers {
            headers.insert(name.clone(), value(text)?);
        }
        if let Some(token) = token {
            let mut token = value(token)?;
            token.set_sensitive(true);
            headers.insert(AUTHORIZATION, token);
        }
        if let Some(tag) = tag {
            headers.insert(HeaderName::from_static("x-plimsoll-tag"), value(tag)?);
        }
        if self.len() == 0 && self.method != Method::GET {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        Ok(request.into())
    }
}

/// Content between two pieces of text.
struct Framed {
    head: Bytes,
    content: Body,
    tail: Bytes,
}

impl Segments for Framed {
    fn total(&self) -> u64 {
        self.head.len() as u64 + self.content.len() + self.tail.len() as u64
    }

    fn segment(&self, index: usize) -> Option<Bytes> {
        if index == 0 {
            return Some(self.head.clone());
        }
        let piece = match &self.content {
            Body::Whole(data) => (index == 1).then(|| data.clone()),
            Body::Segmented(segments) => segments.segment(index - 1),
        };
        match piece {
            Some(piece) => Some(piece),
            None => {
                let before = match &self.content {
                    Body::Whole(_) => 1,
                    Body::Segmented(segments) => (0..).take_while(|i| segments.segment(*i).is_some()).count(),
                };
                (index == before + 1).then(|| self.tail.clone())
            }
        }
    }
}
