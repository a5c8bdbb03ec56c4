//! Signatures of the requests to an S3 bucket, made by the signer of the instrument, which derives a key once a day.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use aws_lc_rs::digest;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Uri};
use object_store::aws::{AwsCredential, AwsCredentialProvider};
use object_store::client::{HttpError, HttpErrorKind};
use plimsoll_base::net::encode::{decode, hex};
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::endpoint::{Endpoint, Style};
use plimsoll_s3::sign::{EMPTY_SHA256, Signer, UNSIGNED_PAYLOAD, canonical_query};

use super::failure;

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// A signer, and the keys for which it has derived its key.
struct OwnSigner {
    found: Arc<AwsCredential>,
    credentials: Credentials,
    signer: Signer,
}

/// Signs the requests to one bucket.
pub struct Signing {
    authority: String,
    /// Path of the bucket; `None` if it is part of the host.
    bucket: Option<String>,
    region: String,
    covers_bodies: bool,
    source: OnceLock<AwsCredentialProvider>,
    /// Signers that are not in use.
    free: Mutex<Vec<OwnSigner>>,
}

impl std::fmt::Debug for Signing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signing").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// Returns the query in its canonical form; `None` if it is malformed. The client of the backends writes a space as
/// `+`.
fn canonical(uri: &Uri) -> Option<String> {
    let Some(query) = uri.query() else { return Some(String::new()) };
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(name, true)?, decode(value, true)?))
    });
    Some(canonical_query(&pairs.collect::<Option<Vec<_>>>()?))
}

/// Returns the SHA-256 of a body in hexadecimal.
fn sha256(pieces: &[Bytes]) -> String {
    if pieces.is_empty() {
        return EMPTY_SHA256.into();
    }
    let mut context = digest::Context::new(&digest::SHA256);
    pieces.iter().for_each(|piece| context.update(piece));
    hex(context.finish().as_ref())
}

fn value(text: &str) -> Result<HeaderValue, HttpError> {
    HeaderValue::from_str(text).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))
}

impl Signing {
    /// Signs the requests to a bucket, as soon as [`Signing::use_source`] has named the source of the keys. The
    /// signatures cover the bodies if `covers_bodies` is true.
    pub fn new(endpoint: &Endpoint, covers_bodies: bool) -> Signing {
        Signing {
            authority: endpoint.authority.clone(),
            bucket: (endpoint.style == Style::Path).then(|| format!("/{}", endpoint.bucket)),
            region: endpoint.region.clone(),
            covers_bodies,
            source: OnceLock::new(),
            free: Mutex::default(),
        }
    }

    /// Sets the source of the keys; the first call counts.
    pub fn use_source(&self, source: AwsCredentialProvider) {
        let _ = self.source.set(source);
    }

    /// Returns a signer for the keys that are valid now.
    async fn signer(&self) -> Result<OwnSigner, HttpError> {
        let source = self.source.get().ok_or_else(|| failure(HttpErrorKind::Unknown, "no source of keys"))?;
        let found = source.get_credential().await;
        let found = found.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // Signers with earlier keys are dropped.
        while let Some(own) = free.pop() {
            if Arc::ptr_eq(&own.found, &found) {
                return Ok(own);
            }
        }
        let credentials = Credentials::new(&found.key_id, &found.secret_key, found.token.as_deref());
        Ok(OwnSigner { found, credentials, signer: Signer::new(&self.region, "s3") })
    }

    /// Returns true if a request is one to the bucket. Those for keys may be to the same server.
    fn is_own(&self, parts: &Parts) -> bool {
        let host = parts.headers.get(HOST).map(HeaderValue::as_bytes);
        let is_of_bucket = |bucket: &String| {
            let rest = parts.uri.path().strip_prefix(bucket.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        host == Some(self.authority.as_bytes()) && self.bucket.as_ref().is_none_or(is_of_bucket)
    }

    /// Adds a signature to a request to the bucket with this body. Other requests, such as those for keys, have none.
    ///
    /// # Errors
    /// If there are no keys, or the request cannot be signed.
    pub async fn sign(&self, parts: &mut Parts, body: &[Bytes]) -> Result<(), HttpError> {
        if !self.is_own(parts) {
            return Ok(());
        }
        let mut own = self.signer().await?;
        let payload = if self.covers_bodies { sha256(body) } else { UNSIGNED_PAYLOAD.into() };
        parts.headers.insert(CONTENT_SHA256, value(&payload)?);
        if let Some(token) = &own.found.token {
            parts.headers.insert(TOKEN, value(token)?);
        }
        let query =
            canonical(&parts.uri).ok_or_else(|| failure(HttpErrorKind::Unknown, "the query is malformed"))?;
        let is_signed =
            |name: &HeaderName| *name == HOST || *name == CONTENT_TYPE || name.as_str().starts_with("x-amz-");
        let mut headers = Vec::with_capacity(8);
        for (name, value) in parts.headers.iter().filter(|(name, _)| is_signed(name)) {
            let text = std::str::from_utf8(value.as_bytes());
            headers
                .push((name.as_str(), text.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?));
        }
        headers.sort_unstable();
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let signed = own.signer.sign(&own.credentials, method, path, &query, &headers, &payload);
        let (authorization, date) = (value(signed.authorization)?, value(signed.date_time)?);
        parts.headers.insert(AUTHORIZATION, authorization);
        parts.headers.insert(DATE, date);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(own);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::StaticCredentialProvider;
    use plimsoll_base::net::encode::parse_query;

    fn request(uri: &str, host: &str) -> Parts {
        let request = http::Request::get(uri).header(HOST, host).header("range", "bytes=0-9");
        request.body(()).unwrap().into_parts().0
    }

    async fn signed(uri: &str, host: &str, body: &[Bytes], covers_bodies: bool) -> Parts {
        let endpoint = Endpoint::new("http://127.0.0.1:9", "bucket", Style::Path, "us-east-1").unwrap();
        let signing = Signing::new(&endpoint, covers_bodies);
        let keys =
            AwsCredential { key_id: "AKID".into(), secret_key: "secret".into(), token: Some("token".into()) };
        signing.use_source(Arc::new(StaticCredentialProvider::new(keys)));
        let mut parts = request(uri, host);
        signing.sign(&mut parts, body).await.unwrap();
        parts
    }

    #[tokio::test]
    async fn the_server_of_the_gateway_accepts_the_signatures() {
        let now_s = plimsoll_catalog::ambient::wall_now().as_second();
        let keys = Credentials::new("AKID", "secret", Some("token"));
        for uri in
            ["/bucket/a%20b", "/bucket?list-type=2&prefix=a+b%2Fc%2B&max-keys=7", "/bucket/k?uploadId=x"]
        {
            for (body, covers) in [(&[][..], true), (&[Bytes::from_static(b"x")][..], true), (&[][..], false)]
            {
                let mut parts = signed(uri, "127.0.0.1:9", body, covers).await;
                // A server takes `+` in a query for a space only in its canonical form.
                parts.uri = parts.uri.to_string().replace('+', "%20").parse().unwrap();
                let query = parse_query(parts.uri.query().unwrap_or(""));
                plimsoll_server::auth::verify(&parts, query.as_deref(), &keys, now_s)
                    .map_err(|e| e.code)
                    .unwrap();
                assert_eq!(parts.headers["x-amz-security-token"], "token");
            }
        }
    }

    /// A service of keys would otherwise learn a signature, or wait for the keys that it is asked for.
    #[tokio::test]
    async fn requests_for_keys_have_no_signature() {
        for (uri, host) in [
            ("/latest/meta-data", "169.254.169.254"),
            ("/?Action=AssumeRoleWithWebIdentity", "127.0.0.1:9"),
            ("/bucket2/k", "127.0.0.1:9"),
        ] {
            let parts = signed(uri, host, &[], true).await;
            assert!(
                !parts.headers.contains_key(AUTHORIZATION) && !parts.headers.contains_key(TOKEN),
                "{uri}"
            );
        }
    }
}
