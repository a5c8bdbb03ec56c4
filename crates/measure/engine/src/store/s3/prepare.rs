//! Preparation of S3 requests: the first half of an operation. The address, headers, checksums and signature
//! are computed before the clock starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use hyper::header::HeaderName;

use super::S3Connection;
use crate::store::http::{Prepared, payload_of};
use crate::store::{Body, Observer, Request};
use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::{encode_into, hex_into};
use plimsoll_base::net::http1::outgoing::HeadWriter;
use plimsoll_s3::checksum::BodyChecksum;
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_s3::message::{complete_body, create_bucket_body, delete_many_body};
use plimsoll_s3::sign::{EMPTY_SHA256, UNSIGNED_PAYLOAD};
use plimsoll_s3::url::PayloadSigning;

fn body_sha256(body: &Body) -> String {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    match body {
        Body::Whole(data) => context.update(data),
        Body::Segmented(_) => body.pieces().for_each(|piece| context.update(&piece)),
    }
    let mut out = String::with_capacity(64);
    hex_into(&mut out, context.finish().as_ref());
    out
}

impl S3Connection {
    /// Sets the path and query for a request and returns its HTTP method.
    pub(super) fn address(&mut self, request: &Request<'_>) -> &'static str {
        self.query.clear();
        let (method, key) = match request {
            Request::Put { key, .. } => ("PUT", *key),
            Request::Get { key, .. } => ("GET", *key),
            Request::Copy { key, .. } => ("PUT", *key),
            Request::Head { key } => ("HEAD", *key),
            Request::Delete { key } => ("DELETE", key.as_str()),
            Request::List { prefix, start_after, token, max_keys } => {
                // Parameters must be sorted by name for the signature.
                for (name, value) in [("continuation-token=", *token), ("list-type=", "2")] {
                    self.parameter(name, value);
                }
                self.parameter("max-keys=", &max_keys.to_string());
                self.parameter("prefix=", prefix);
                self.parameter("start-after=", start_after);
                ("GET", "")
            }
            Request::DeleteMany { .. } | Request::DeleteVersions { .. } => {
                self.query.push_str("delete=");
                ("POST", "")
            }
            Request::CreateMultipart { key } => {
                self.query.push_str("uploads=");
                ("POST", *key)
            }
            Request::UploadPart { key, upload_id, number, .. } => {
                self.parameter("partNumber=", &number.to_string());
                self.parameter("uploadId=", upload_id);
                ("PUT", *key)
            }
            Request::CompleteMultipart { key, upload_id, .. } => {
                self.parameter("uploadId=", upload_id);
                ("POST", *key)
            }
            Request::AbortMultipart { key, upload_id } => {
                self.parameter("uploadId=", upload_id);
                ("DELETE", key.as_str())
            }
            Request::ListUploads { prefix, token } => {
                let (key, upload_id) = token.split_once('\0').unwrap_or((token, ""));
                self.parameter("key-marker=", key);
                self.parameter("prefix=", prefix);
                self.parameter("upload-id-marker=", upload_id);
                self.query.push_str(if self.query.is_empty() { "uploads=" } else { "&uploads=" });
                ("GET", "")
            }
            Request::ListVersions { prefix, token } => {
                let (key, version_id) = token.split_once('\0').unwrap_or((token, ""));
                self.parameter("key-marker=", key);
                self.parameter("prefix=", prefix);
                self.parameter("version-id-marker=", version_id);
                self.query.push_str(if self.query.is_empty() { "versions=" } else { "&versions=" });
                ("GET", "")
            }
            Request::CheckBucket => ("HEAD", ""),
            Request::CreateBucket => ("PUT", ""),
            Request::DeleteBucket => ("DELETE", ""),
        };
        let mut path = std::mem::take(&mut self.path);
        self.url.endpoint.path_into(&mut path, key);
        self.path = path;
        method
    }

    fn parameter(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            if !self.query.is_empty() {
                self.query.push('&');
            }
            self.query.push_str(name);
            encode_into(&mut self.query, value.as_bytes(), false);
        }
    }

    /// Returns the body of a request.
    fn body_of(&self, request: &Request<'_>) -> Option<Body> {
        let text = |text: String| Some(Body::Whole(Bytes::from(text)));
        match request {
            Request::Put { body, .. } | Request::UploadPart { body, .. } => Some(body.clone()),
            Request::CompleteMultipart { parts, .. } => text(complete_body(parts)),
            Request::CreateMultipart { .. } | Request::Copy { .. } => text(String::new()),
            Request::DeleteMany { keys } => {
                text(delete_many_body(keys.as_slice().iter().map(|key| (key.as_str(), None))))
            }
            Request::DeleteVersions { versions } => {
                let versions = versions.as_slice().iter();
                text(delete_many_body(versions.map(|v| (v.key.as_str(), Some(v.id.as_str())))))
            }
            Request::CreateBucket => {
                create_bucket_body(&self.url.endpoint.region, self.url.zone.as_deref()).and_then(text)
            }
            _ => None,
        }
    }

    /// Returns the headers of a request other than host and authentication. All of them are signed.
    fn operation_headers(
        &self,
        request: &Request<'_>,
        body: Option<&Body>,
        observer: &dyn Observer,
    ) -> Vec<(HeaderName, String)> {
        let mut extra = Vec::new();
        let mut push = |name: &'static str, value: String| extra.push((HeaderName::from_static(name), value));
        let declared = observer.checksum().or(self.url.checksum);
        match request {
            Request::Get { range: Some(range), .. } => {
                push("range", format!("bytes={}-{}", range.start, range.end - 1));
            }
            Request::Get { .. } if observer.wants_checksum() => push("x-amz-checksum-mode", "ENABLED".into()),
            Request::DeleteMany { .. } | Request::DeleteVersions { .. } => {
                let checksum = BodyChecksum::from_name(&self.url.profile.request_checksum);
                let checksum = checksum.unwrap_or(BodyChecksum::Md5);
                push(checksum.header(), body.map(|b| checksum.of(b.pieces())).unwrap_or_default());
            }
            Request::Put { body, .. } | Request::UploadPart { body, .. } => {
                if let Some(checksum) = declared {
                    push(checksum.header(), checksum.of(body.pieces()));
                }
            }
            Request::Copy { from, .. } => {
                let mut source = format!("{}/", self.url.endpoint.bucket);
                encode_into(&mut source, from.as_bytes(), true);
                push("x-amz-copy-source", source);
            }
            Request::CreateMultipart { .. } => {
                if let Some(BodyChecksum::Declared(algorithm)) = declared {
                    push("x-amz-checksum-algorithm", algorithm.name().into());
                    if declared.is_some_and(|c| self.url.profile.keeps_whole(c.name())) {
                        push("x-amz-checksum-type", "FULL_OBJECT".into());
                    }
                }
            }
            _ => {}
        }
        for (name, value) in observer.headers() {
            extra.push((HeaderName::from_static(name), value.clone()));
        }
        if let Some(class) = &self.url.storage_class
            && matches!(request, Request::Put { .. } | Request::Copy { .. } | Request::CreateMultipart { .. })
            && let Ok(name) = HeaderName::try_from(self.url.profile.storage_class_header.as_str())
        {
            extra.push((name, class.clone()));
        }
        extra
    }

    /// Builds and signs a request. Runs before the clock starts.
    pub(super) fn prepare(
        &mut self,
        request: &Request<'_>,
        observer: &dyn Observer,
    ) -> Result<Prepared, &'static str> {
        let method = self.address(request);
        let body = self.body_of(request);
        let extra = self.operation_headers(request, body.as_ref(), observer);
        self.declared = match (request, observer.checksum().or(self.url.checksum)) {
            (Request::UploadPart { .. }, Some(checksum)) => {
                extra.first().map(|(_, value)| (checksum, value.clone()))
            }
            _ => None,
        };
        let by = self.credentials_for(request);
        let presigns = self.presigns(request);
        if let Some(by) = by.as_ref().filter(|_| presigns) {
            self.presign(by, method, &extra);
        }
        let mut head = HeadWriter::new(method, &self.path, &self.query)?;
        head.field("host", self.url.endpoint.authority.as_bytes())?;
        for (name, text) in &extra {
            head.field(name.as_str(), text.as_bytes())?;
        }
        if let Some(by) = by.filter(|_| !presigns) {
            let in_session = self.sessions.is_some() && needs_session(request);
            self.sign(&by, in_session, method, body.as_ref(), &extra, &mut head)?;
        }
        if let Some(tag) = observer.tag() {
            head.field("x-plimsoll-tag", tag.as_bytes())?;
        }
        if let Some(body) = &body {
            head.length(body.len());
        }
        Ok(head.finish(method == "HEAD", payload_of(body)))
    }

    /// Returns the credentials that sign a request: the session's, or the user's own if the request does not
    /// use the session.
    fn credentials_for(&self, request: &Request<'_>) -> Option<Arc<Credentials>> {
        match &self.sessions {
            Some(sessions) if needs_session(request) => sessions.current(),
            _ => self.credentials.as_ref().map(CredentialSource::current),
        }
    }

    /// Returns true if a request uses a presigned URL.
    fn presigns(&self, request: &Request<'_>) -> bool {
        self.url.presign_s.is_some()
            && matches!(request, Request::Get { .. } | Request::Put { .. } | Request::Head { .. })
    }

    /// Replaces path and query with those of the presigned URL. A signature depends only on the request and the
    /// time of signing, so signing now with the earlier time gives exactly the URL that would have been stored.
    fn presign(&mut self, by: &Credentials, method: &str, extra: &[(HeaderName, String)]) {
        let expires_s = self.url.presign_s.unwrap_or_default();
        let signed_at = self.signed_ahead.at(expires_s);
        let host = &self.url.endpoint.authority;
        let amz = extra.iter().filter(|(name, _)| name.as_str().starts_with("x-amz-"));
        let signed: Vec<(&str, &str)> = amz.map(|(name, text)| (name.as_str(), text.as_str())).collect();
        self.query =
            self.signer.presign_at(by, signed_at, method, host, &self.path, (&[], &signed), expires_s);
    }

    fn sign(
        &mut self,
        credentials: &Credentials,
        in_session: bool,
        method: &str,
        body: Option<&Body>,
        extra: &[(HeaderName, String)],
        head: &mut HeadWriter,
    ) -> Result<(), &'static str> {
        let hashed;
        let payload = match body {
            None => EMPTY_SHA256,
            Some(body) if body.is_empty() => EMPTY_SHA256,
            Some(_) if self.url.payload == PayloadSigning::Unsigned => UNSIGNED_PAYLOAD,
            Some(body) => {
                hashed = body_sha256(body);
                &hashed
            }
        };
        let token = if in_session { "x-amz-s3session-token" } else { "x-amz-security-token" };
        let mut signed: [(&str, &str); 12] = [("", ""); 12];
        let mut count = 0;
        let mut push = |name, value| {
            signed[count] = (name, value);
            count += 1;
        };
        push("host", &self.url.endpoint.authority);
        push("x-amz-content-sha256", payload);
        if let Some(value) = &credentials.session_token {
            push(token, value);
        }
        for (name, text) in extra {
            push(name.as_str(), text.as_str());
        }
        if !extra.is_empty() {
            signed[..count].sort_unstable();
        }
        let done = self.signer.sign(credentials, method, &self.path, &self.query, &signed[..count], payload);
        head.field("authorization", done.authorization.as_bytes())?;
        head.field("x-amz-date", done.date_time.as_bytes())?;
        head.field("x-amz-content-sha256", payload.as_bytes())?;
        if let Some(text) = &credentials.session_token {
            head.field(token, text.as_bytes())?;
        }
        Ok(())
    }
}

/// Returns true if a request to a directory bucket is signed with session credentials (S3 API reference,
/// CreateSession and CopyObject: HeadBucket, CreateBucket, DeleteBucket and CopyObject are signed with the account's
/// own credentials).
pub(super) fn needs_session(request: &Request<'_>) -> bool {
    use Request::{CheckBucket, Copy, CreateBucket, DeleteBucket};
    !matches!(request, CheckBucket | CreateBucket | DeleteBucket | Copy { .. })
}

/// The time at which the presigned URLs in use were signed, in Unix seconds.
#[derive(Debug)]
pub(super) struct SignedAhead(AtomicI64);

impl SignedAhead {
    /// Returns the current time as the time of signing.
    pub(super) fn now() -> SignedAhead {
        SignedAhead(AtomicI64::new(wall_now().as_second()))
    }

    /// Returns the time of signing in Unix seconds, and renews it after half of the URLs' lifetime.
    fn at(&self, expires_s: u32) -> i64 {
        let (signed, now) = (self.0.load(Ordering::Relaxed), wall_now().as_second());
        if now - signed <= i64::from(expires_s / 2) {
            return signed;
        }
        self.0.store(now, Ordering::Relaxed);
        now
    }
}
