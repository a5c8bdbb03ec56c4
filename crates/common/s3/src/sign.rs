//! AWS Signature Version 4 (AWS General Reference, "Signature Version 4 signing process"), for client and server.
//!
//! The client signs with a [`Signer`], which caches the derived key of the day and reuses its buffers. The server
//! recomputes the [`signature`] of the same canonical request, for the service name that the client sent.
//! Tests compare both with the `aws-sigv4` crate on unusual keys and queries.

use aws_lc_rs::{digest, hmac};

use super::credentials::Credentials;
use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::{encode_into, encode_query, hex, hex_into};

/// Name of the signing algorithm, the only one supported.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Payload hash of a request whose signature does not cover the body.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
/// SHA-256 of an empty body, in hexadecimal.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Computes the SHA-256 of `data`.
pub fn sha256(data: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, data).as_ref());
    out
}

fn hmac(key: &[u8], data: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data)
}

/// Derives the signing key for a day (`YYYYMMDD`), region and service.
pub fn derive_key(secret: &str, date: &str, region: &str, service: &str) -> hmac::Key {
    let day = hmac(format!("AWS4{secret}").as_bytes(), date.as_bytes());
    let region = hmac(day.as_ref(), region.as_bytes());
    let service = hmac(region.as_ref(), service.as_bytes());
    hmac::Key::new(hmac::HMAC_SHA256, hmac(service.as_ref(), b"aws4_request").as_ref())
}

/// The parts of a canonical request. Path and query are encoded, and the query and the headers are sorted.
#[derive(Debug, Clone, Copy)]
struct Canonical<'a> {
    /// HTTP method, such as `GET`.
    method: &'a str,
    /// Encoded path, beginning with `/`.
    path: &'a str,
    /// Encoded query, sorted by name, without `?`.
    query: &'a str,
    /// Signed headers: lower-case name and value, sorted by name.
    headers: &'a [(&'a str, &'a str)],
    /// Hexadecimal SHA-256 of the body, or a literal such as [`UNSIGNED_PAYLOAD`].
    payload: &'a str,
}

/// Appends the names of the signed headers, joined by `;`.
pub fn signed_headers_into(out: &mut String, headers: &[(&str, &str)]) {
    for (i, (name, _)) in headers.iter().enumerate() {
        if i > 0 {
            out.push(';');
        }
        out.push_str(name);
    }
}

/// Clears `out` and begins a canonical request in it. The signed headers follow, and then the end.
pub fn canonical_start(out: &mut String, method: &str, path: &str, query: &str) {
    out.clear();
    for part in [method, "\n", path, "\n", query, "\n"] {
        out.push_str(part);
    }
}

/// Appends a signed header to a canonical request. Runs of spaces in its value become one space.
pub fn canonical_header(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push(':');
    let value = value.trim();
    if value.contains(' ') && value.contains("  ") {
        let mut words = value.split(' ').filter(|w| !w.is_empty());
        out.push_str(words.next().unwrap_or(""));
        words.for_each(|word| {
            out.push(' ');
            out.push_str(word);
        });
    } else {
        out.push_str(value);
    }
    out.push('\n');
}

/// Appends the names of the signed headers, joined by `;`, and the payload hash, which end a canonical request.
pub fn canonical_end(out: &mut String, signed_headers: &str, payload: &str) {
    for part in ["\n", signed_headers, "\n", payload] {
        out.push_str(part);
    }
}

/// Clears `out` and writes the canonical request into it.
fn canonical(out: &mut String, request: &Canonical<'_>) {
    canonical_start(out, request.method, request.path, request.query);
    for (name, value) in request.headers {
        canonical_header(out, name, value);
    }
    out.push('\n');
    signed_headers_into(out, request.headers);
    out.push('\n');
    out.push_str(request.payload);
}

/// Returns the signature of a canonical request, in hexadecimal. `scope` is `DATE/REGION/SERVICE/aws4_request`;
/// `buffer` is scratch space.
pub fn signature(
    key: &hmac::Key,
    date_time: &str,
    scope: &str,
    canonical: &str,
    buffer: &mut String,
) -> String {
    buffer.clear();
    for part in [ALGORITHM, "\n", date_time, "\n", scope, "\n"] {
        buffer.push_str(part);
    }
    hex_into(buffer, &sha256(canonical.as_bytes()));
    hex(hmac::sign(key, buffer.as_bytes()).as_ref())
}

/// Encodes and sorts query pairs into the canonical query string.
pub fn canonical_query<'a>(pairs: impl IntoIterator<Item = &'a (String, String)>) -> String {
    let encode = |(name, value): &(String, String)| (encode_query(name), encode_query(value));
    let mut encoded: Vec<(String, String)> = pairs.into_iter().map(encode).collect();
    encoded.sort_unstable();
    let mut out =
        String::with_capacity(encoded.iter().map(|(name, value)| name.len() + value.len() + 2).sum());
    for (i, (name, value)) in encoded.iter().enumerate() {
        for part in [if i > 0 { "&" } else { "" }, name, "=", value] {
            out.push_str(part);
        }
    }
    out
}

/// The headers that authenticate one request.
#[derive(Debug)]
pub struct Signed<'a> {
    /// Value of `Authorization`.
    pub authorization: &'a str,
    /// Value of `x-amz-date`.
    pub date_time: &'a str,
}

/// A signer of requests to one region and service. Each connection has its own, so that signing needs no lock.
pub struct Signer {
    region: String,
    service: String,
    second: i64,
    date_time: String,
    scope: String,
    key: Option<(String, hmac::Key)>,
    canonical: String,
    to_sign: String,
    authorization: String,
}

/// Additional query parameters (decoded) and signed headers (lower-case names) of a presigned URL.
pub type PresignExtras<'a> = (&'a [(String, String)], &'a [(&'a str, &'a str)]);

impl Signer {
    /// Creates a signer for `region` and `service`, such as `s3`.
    pub fn new(region: &str, service: &str) -> Signer {
        Signer {
            region: region.to_string(),
            service: service.to_string(),
            second: i64::MIN,
            date_time: String::new(),
            scope: String::new(),
            key: None,
            canonical: String::with_capacity(1024),
            to_sign: String::with_capacity(256),
            authorization: String::with_capacity(512),
        }
    }

    /// Updates date, scope and key if `second` (Unix time) or the credentials changed.
    fn refresh(&mut self, credentials: &Credentials, second: i64) {
        if second != self.second {
            self.second = second;
            let time = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
            self.date_time = time.strftime("%Y%m%dT%H%M%SZ").to_string();
            let date = &self.date_time[..8];
            if !self.scope.starts_with(date) {
                self.scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
                self.key = None;
            }
        }
        if self.key.as_ref().is_none_or(|(id, _)| *id != credentials.access_key) {
            let key = derive_key(credentials.secret_key(), &self.date_time[..8], &self.region, &self.service);
            self.key = Some((credentials.access_key.clone(), key));
        }
    }

    /// Signs a request at the current time. `others` are its headers: sorted by lower-case name, including
    /// `x-amz-content-sha256` with the payload hash, but without `x-amz-date`, which this function adds.
    pub fn sign<'s>(
        &'s mut self,
        credentials: &Credentials,
        method: &str,
        path: &str,
        query: &str,
        others: &[(&str, &str)],
        payload: &str,
    ) -> Signed<'s> {
        self.sign_at(credentials, wall_now().as_second(), method, path, query, others, payload)
    }

    /// Signs a request like [`Signer::sign`], at the given Unix time in seconds.
    #[allow(clippy::too_many_arguments)]
    pub fn sign_at<'s>(
        &'s mut self,
        credentials: &Credentials,
        second: i64,
        method: &str,
        path: &str,
        query: &str,
        others: &[(&str, &str)],
        payload: &str,
    ) -> Signed<'s> {
        self.refresh(credentials, second);
        let (mut few, mut many) = ([("", ""); 16], Vec::new());
        let headers = if others.len() < few.len() {
            &mut few[..=others.len()]
        } else {
            many.resize(others.len() + 1, ("", ""));
            &mut many[..]
        };
        let place = others.partition_point(|(name, _)| *name < "x-amz-date");
        headers[..place].copy_from_slice(&others[..place]);
        headers[place] = ("x-amz-date", &self.date_time);
        headers[place + 1..].copy_from_slice(&others[place..]);
        let headers = &*headers;
        canonical(&mut self.canonical, &Canonical { method, path, query, headers, payload });
        let Some((_, key)) = &self.key else { unreachable!("refresh derives the key") };
        let signature = signature(key, &self.date_time, &self.scope, &self.canonical, &mut self.to_sign);
        let out = &mut self.authorization;
        out.clear();
        for part in [ALGORITHM, " Credential=", &credentials.access_key, "/", &self.scope, ", SignedHeaders="]
        {
            out.push_str(part);
        }
        signed_headers_into(out, headers);
        out.push_str(", Signature=");
        out.push_str(&signature);
        Signed { authorization: out, date_time: &self.date_time }
    }

    /// Returns the query string of a presigned URL for `host` and the encoded `path`, valid for `expires_s` seconds
    /// from `second` (Unix time). `pairs` are additional query parameters, decoded. `headers` are the headers, other
    /// than `host`, that the request will have, with lower-case names; S3 rejects `x-amz-*` headers that are not
    /// signed.
    #[allow(clippy::too_many_arguments)]
    pub fn presign_at(
        &mut self,
        credentials: &Credentials,
        second: i64,
        method: &str,
        host: &str,
        path: &str,
        (pairs, headers): PresignExtras<'_>,
        expires_s: u32,
    ) -> String {
        self.refresh(credentials, second);
        let mut pairs = pairs.to_vec();
        let mut push = |name: &str, value: String| pairs.push((name.to_string(), value));
        push("X-Amz-Algorithm", ALGORITHM.into());
        push("X-Amz-Credential", format!("{}/{}", credentials.access_key, self.scope));
        push("X-Amz-Date", self.date_time.clone());
        push("X-Amz-Expires", expires_s.to_string());
        let mut headers: Vec<(&str, &str)> = headers.iter().copied().chain([("host", host)]).collect();
        headers.sort_unstable();
        let mut signed = String::new();
        signed_headers_into(&mut signed, &headers);
        push("X-Amz-SignedHeaders", signed);
        if let Some(token) = &credentials.session_token {
            push("X-Amz-Security-Token", token.clone());
        }
        let query = canonical_query(&pairs);
        canonical(
            &mut self.canonical,
            &Canonical { method, path, query: &query, headers: &headers, payload: UNSIGNED_PAYLOAD },
        );
        let Some((_, key)) = &self.key else { unreachable!("refresh derives the key") };
        let signature = signature(key, &self.date_time, &self.scope, &self.canonical, &mut self.to_sign);
        let mut out = query;
        out.push_str("&X-Amz-Signature=");
        encode_into(&mut out, signature.as_bytes(), false);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example from the S3 documentation, "Authenticating Requests: Using the Authorization Header".
    #[test]
    fn signs_the_documented_get_example() {
        let credentials =
            Credentials::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None);
        let mut signer = Signer::new("us-east-1", "s3");
        let headers = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", EMPTY_SHA256),
        ];
        let second = 1_369_353_600; // 2013-05-24T00:00:00Z
        let signed = signer.sign_at(&credentials, second, "GET", "/test.txt", "", &headers, EMPTY_SHA256);
        assert_eq!(signed.date_time, "20130524T000000Z");
        assert_eq!(
            signed.authorization,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    /// Example from the S3 documentation, "Authenticating Requests: Using Query Parameters".
    #[test]
    fn presigns_the_documented_example() {
        let credentials =
            Credentials::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None);
        let mut signer = Signer::new("us-east-1", "s3");
        let query = signer.presign_at(
            &credentials,
            1_369_353_600,
            "GET",
            "examplebucket.s3.amazonaws.com",
            "/test.txt",
            (&[], &[]),
            86_400,
        );
        assert!(
            query.ends_with(
                "X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
            ),
            "{query}"
        );
    }

    #[test]
    fn new_credentials_change_the_signature() {
        let mut signer = Signer::new("us-east-1", "s3");
        let a = Credentials::new("A", "one", None);
        let b = Credentials::new("B", "two", None);
        let first =
            signer.sign_at(&a, 0, "GET", "/", "", &[("host", "h")], EMPTY_SHA256).authorization.to_string();
        let second =
            signer.sign_at(&b, 0, "GET", "/", "", &[("host", "h")], EMPTY_SHA256).authorization.to_string();
        let tail = |text: &str| text.rsplit('=').next().unwrap().to_string();
        assert_ne!(tail(&first), tail(&second));
    }
}
