//! HTTP requests for calls of the REST API of block blobs.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::authorization::Authorization;
use crate::store::http::{Prepared, payload_of};
use crate::store::{Body, Observer};
use plimsoll_base::net::encode::encode_into;
use plimsoll_base::net::http1::outgoing::HeadWriter;
use plimsoll_s3::azure::message::block_list;
use plimsoll_s3::azure::sign::{Signer, StandardHeaders, ToSign};
use plimsoll_s3::azure::{API_VERSION, crc64, swapped};
use plimsoll_s3::checksum::{Algorithm, BodyChecksum};
use plimsoll_s3::url::AzureUrl;

/// Header with the URL of the blob to copy. With a shared access signature, the URL has it, too.
const COPY_SOURCE: &str = "x-ms-copy-source";

/// A call of the REST API.
pub struct BlobCall {
    method: &'static str,
    /// Encoded path of the URL.
    path: String,
    /// Parameters of the query with decoded values, sorted by name.
    query: Vec<(&'static str, String)>,
    /// Headers whose names begin with `x-ms-`, sorted by name.
    headers: Vec<(&'static str, Cow<'static, str>)>,
    content_md5: String,
    if_match: String,
    if_none_match: String,
    body: Option<Body>,
    /// True if the call addresses the container rather than a blob in it.
    pub of_container: bool,
}

/// Makes HTTP requests of calls. Each connection has its own.
pub struct Preparer {
    authorization: Option<Authorization>,
    signer: Option<Signer>,
    query: String,
}

impl BlobCall {
    fn new(url: &AzureUrl, method: &'static str, key: &str) -> BlobCall {
        let mut path = String::with_capacity(url.base.len() + url.endpoint.bucket.len() + key.len() + 16);
        for part in [&url.base, "/", &url.endpoint.bucket] {
            path.push_str(part);
        }
        if !key.is_empty() {
            path.push('/');
            encode_into(&mut path, key.as_bytes(), true);
        }
        BlobCall {
            method,
            path,
            query: Vec::new(),
            headers: vec![("x-ms-version", API_VERSION.into())],
            content_md5: String::new(),
            if_match: String::new(),
            if_none_match: String::new(),
            body: None,
            of_container: key.is_empty(),
        }
    }

    fn header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> BlobCall {
        let at = self.headers.partition_point(|(known, _)| *known < name);
        self.headers.insert(at, (name, value.into()));
        self
    }

    /// Adds a parameter; the caller adds them in the order of their names. An empty value is left out.
    fn parameter(mut self, name: &'static str, value: impl Into<String>) -> BlobCall {
        let value = value.into();
        if !value.is_empty() {
            self.query.push((name, value));
        }
        self
    }

    /// Returns the call that reads a blob or a range of its bytes.
    pub fn get(url: &AzureUrl, key: &str, range: Option<Range<u64>>) -> BlobCall {
        let call = BlobCall::new(url, "GET", key);
        match range {
            Some(range) => call.header("x-ms-range", format!("bytes={}-{}", range.start, range.end - 1)),
            None => call,
        }
    }

    /// Returns the call that reads the properties of a blob.
    pub fn head(url: &AzureUrl, key: &str) -> BlobCall {
        BlobCall::new(url, "HEAD", key)
    }

    /// Returns the call that copies a blob within the container.
    pub fn copy(url: &AzureUrl, from: &str, key: &str) -> BlobCall {
        let scheme = if url.endpoint.tls { "https" } else { "http" };
        let source = format!("{scheme}://{}{}", url.endpoint.authority, BlobCall::new(url, "PUT", from).path);
        BlobCall::new(url, "PUT", key).header(COPY_SOURCE, source).in_class(url)
    }

    /// Returns the call that deletes a blob.
    pub fn delete(url: &AzureUrl, key: &str) -> BlobCall {
        BlobCall::new(url, "DELETE", key)
    }

    /// Returns the call that deletes a version of a blob.
    pub fn delete_version(url: &AzureUrl, key: &str, id: &str) -> BlobCall {
        BlobCall::new(url, "DELETE", key).parameter("versionid", id)
    }

    /// Returns the call that writes a blob in one request.
    ///
    /// # Errors
    /// If the observer has a header that Azure does not know.
    pub fn put(
        url: &AzureUrl,
        key: &str,
        body: Body,
        observer: &dyn Observer,
    ) -> Result<BlobCall, &'static str> {
        let call = BlobCall::new(url, "PUT", key).header("x-ms-blob-type", "BlockBlob").in_class(url);
        call.carrying(body, observer.checksum().or(url.checksum)).with_headers_of(observer)
    }

    /// Returns the call that uploads the block `id`.
    pub fn block(url: &AzureUrl, key: &str, id: &str, body: Body, observer: &dyn Observer) -> BlobCall {
        let call = BlobCall::new(url, "PUT", key).parameter("blockid", id);
        call.parameter("comp", "block").carrying(body, observer.checksum().or(url.checksum))
    }

    /// Returns the call that makes a blob of the blocks from 1 to `count`.
    ///
    /// # Errors
    /// If the observer has a header that Azure does not know.
    pub fn commit(
        url: &AzureUrl,
        key: &str,
        upload_id: &str,
        count: u32,
        observer: &dyn Observer,
    ) -> Result<BlobCall, &'static str> {
        let body = Body::Whole(Bytes::from(block_list(upload_id, count)));
        let call = BlobCall::new(url, "PUT", key).parameter("comp", "blocklist").in_class(url);
        BlobCall { body: Some(body), ..call }.with_headers_of(observer)
    }

    /// Returns the call that lists the blocks of a blob that are not part of it.
    pub fn uncommitted(url: &AzureUrl, key: &str) -> BlobCall {
        BlobCall::new(url, "GET", key)
            .parameter("blocklisttype", "uncommitted")
            .parameter("comp", "blocklist")
    }

    /// Returns the call that lists a page of blobs. `include` names what is listed besides blobs; empty for nothing.
    pub fn list(url: &AzureUrl, include: &str, prefix: &str, marker: &str, most: u32) -> BlobCall {
        BlobCall::new(url, "GET", "")
            .parameter("comp", "list")
            .parameter("include", include)
            .parameter("marker", marker)
            .parameter("maxresults", most.to_string())
            .parameter("prefix", prefix)
            .parameter("restype", "container")
    }

    /// Returns the call that checks (HEAD), creates (PUT) or deletes (DELETE) the container.
    pub fn container(url: &AzureUrl, method: &'static str) -> BlobCall {
        BlobCall::new(url, method, "").parameter("restype", "container")
    }

    fn in_class(self, url: &AzureUrl) -> BlobCall {
        match &url.storage_class {
            Some(class) => self.header("x-ms-access-tier", class.clone()),
            None => self,
        }
    }

    /// Adds the conditions and the checksum among the headers of an observer.
    fn with_headers_of(mut self, observer: &dyn Observer) -> Result<BlobCall, &'static str> {
        let crc64_header = Algorithm::Crc64Nvme.header();
        for (name, value) in observer.headers() {
            match *name {
                "if-match" => self.if_match.clone_from(value),
                "if-none-match" => self.if_none_match.clone_from(value),
                "content-md5" => self.content_md5.clone_from(value),
                name if name == crc64_header => self = self.header("x-ms-content-crc64", swapped(value)),
                name if name.starts_with("x-amz-checksum-") => return Err("Azure has no such checksum"),
                _ => {}
            }
        }
        Ok(self)
    }

    /// Adds a body with its checksum.
    fn carrying(mut self, body: Body, checksum: Option<BodyChecksum>) -> BlobCall {
        self = match checksum {
            Some(BodyChecksum::Md5) => BlobCall { content_md5: BodyChecksum::Md5.of(body.pieces()), ..self },
            Some(BodyChecksum::Declared(Algorithm::Crc64Nvme)) => {
                let sum = crc64(body.pieces());
                self.header("x-ms-content-crc64", sum)
            }
            _ => self,
        };
        BlobCall { body: Some(body), ..self }
    }

    /// Returns the length of the body in bytes.
    pub fn len(&self) -> u64 {
        self.body.as_ref().map_or(0, Body::len)
    }

    /// Returns true if the call reads a range.
    pub fn is_ranged(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == "x-ms-range")
    }
}

impl Preparer {
    /// Creates a preparer of requests to `account`.
    pub fn new(account: &str, authorization: Option<Authorization>) -> Preparer {
        let signer = match &authorization {
            Some(Authorization::Key(key)) => Some(Signer::new(account, key)),
            _ => None,
        };
        Preparer { authorization, signer, query: String::new() }
    }

    /// Returns the HTTP request of a call, ready to be sent.
    ///
    /// # Errors
    /// If the key does not give a valid URL, or a header value is invalid.
    pub fn prepare(
        &mut self,
        call: &BlobCall,
        host: &str,
        tag: Option<&str>,
    ) -> Result<Prepared, &'static str> {
        self.query.clear();
        for (name, value) in &call.query {
            self.query.push_str(if self.query.is_empty() { "" } else { "&" });
            self.query.push_str(name);
            self.query.push('=');
            encode_into(&mut self.query, value.as_bytes(), false);
        }
        if let Some(Authorization::Signature(signature)) = &self.authorization {
            self.query.push_str(if self.query.is_empty() { "" } else { "&" });
            self.query.push_str(signature);
        }
        let mut head = HeadWriter::new(call.method, &call.path, &self.query)?;
        head.field("host", host.as_bytes())?;
        for (name, value) in &call.headers {
            match &self.authorization {
                Some(Authorization::Signature(signature)) if *name == COPY_SOURCE => {
                    head.field(name, format!("{value}?{signature}").as_bytes())?;
                }
                _ => head.field(name, value.as_bytes())?,
            }
        }
        let standard = [
            ("content-md5", &call.content_md5),
            ("if-match", &call.if_match),
            ("if-none-match", &call.if_none_match),
        ];
        for (name, value) in standard.into_iter().filter(|(_, value)| !value.is_empty()) {
            head.field(name, value.as_bytes())?;
        }
        match (&self.authorization, &mut self.signer) {
            (_, Some(signer)) => sign(signer, call, &mut head)?,
            (Some(Authorization::Token(tokens)), None) => {
                head.field("authorization", tokens.header().as_bytes())?;
            }
            _ => {}
        }
        if let Some(tag) = tag {
            head.field("x-plimsoll-tag", tag.as_bytes())?;
        }
        if call.method == "PUT" {
            head.length(call.len());
        }
        Ok(head.finish(call.method == "HEAD", payload_of(call.body.clone())))
    }
}

fn sign(signer: &mut Signer, call: &BlobCall, head: &mut HeadWriter) -> Result<(), &'static str> {
    let length = if call.len() > 0 { call.len().to_string() } else { String::new() };
    let query: Vec<(&str, &str)> = call.query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let headers: Vec<(&str, &str)> = call.headers.iter().map(|(name, value)| (*name, &**value)).collect();
    let signed = signer.sign(&ToSign {
        method: call.method,
        path: &call.path,
        query: &query,
        standard: StandardHeaders {
            content_length: &length,
            content_md5: &call.content_md5,
            content_type: "",
            if_match: &call.if_match,
            if_none_match: &call.if_none_match,
        },
        headers: &headers,
    });
    head.field("authorization", signed.authorization.as_bytes())?;
    head.field("x-ms-date", signed.date.as_bytes())
}
