//! Request authentication: SigV4 in the `Authorization` header or in a presigned URL, for any region and for the
//! services `s3` and `s3express`.

use std::cell::RefCell;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use http::request::Parts;

use super::accounts::{Account, Accounts};
use super::error::{ApiError, ErrorCode};
use super::form::Fields;
use super::payload::Payload;
use super::signing_key::{KeyScope, key_for};
use plimsoll_base::net::encode::{decode, encode_path, hex, parse_query};
use plimsoll_s3::checksum::from_base64;
use plimsoll_s3::chunked::ChunkSigner;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::number::decimal;
use plimsoll_s3::sign::{ALGORITHM, Canonical, UNSIGNED_PAYLOAD, canonical, canonical_query, signature};

/// Maximum difference between the request time and the server's clock, in seconds (S3: 15 minutes).
const SKEW_S: i64 = 15 * 60;
/// Longest lifetime of a presigned URL in seconds (S3: seven days).
const MAX_EXPIRY_S: i64 = 7 * 24 * 3600;

struct Scope<'a> {
    access_key: &'a str,
    date: &'a str,
    region: &'a str,
    service: &'a str,
}

impl<'a> Scope<'a> {
    /// Parses a credential; the error is a message for the client.
    fn parse(credential: &'a str) -> Result<Scope<'a>, String> {
        // The access key may contain slashes; the scope is the last four fields.
        let mut fields = credential.rsplitn(5, '/');
        let mut next = || {
            fields.next().ok_or_else(|| {
                "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".".to_string()
            })
        };
        let (terminator, service, region, date, access_key) = (next()?, next()?, next()?, next()?, next()?);
        if terminator != "aws4_request" {
            return Err(format!("incorrect terminal \"{terminator}\". This endpoint uses \"aws4_request\"."));
        }
        if !matches!(service, "s3" | "s3express") {
            return Err(format!("incorrect service \"{service}\". This endpoint belongs to \"s3\"."));
        }
        if date.len() != 8 || !date.bytes().all(|c| c.is_ascii_digit()) {
            return Err(format!(
                "incorrect date format \"{date}\". This date in the credential must be in the format \"yyyyMMdd\"."
            ));
        }
        Ok(Scope { access_key, date, region, service })
    }

    fn of_key(&self) -> KeyScope<'_> {
        KeyScope { date: self.date, region: self.region, service: self.service }
    }

    fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date, self.region, self.service)
    }
}

thread_local! {
    static BUFFERS: RefCell<(String, String)> = const { RefCell::new((String::new(), String::new())) };
}

fn header<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    parts.headers.get(name).and_then(|v| std::str::from_utf8(v.as_bytes()).ok())
}

/// Parses an `x-amz-date` value and returns its Unix seconds; `None` if it is malformed.
fn parse_date_time(text: &str) -> Option<i64> {
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
}

fn payload_of(declared: &str, signer: impl FnOnce() -> ChunkSigner) -> Result<Payload, ApiError> {
    match declared {
        UNSIGNED_PAYLOAD => Ok(Payload::Unsigned),
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Ok(Payload::Chunked(None)),
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" | "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
            Ok(Payload::Chunked(Some(Box::new(signer()))))
        }
        hash if hash.len() == 64 && hash.bytes().all(|c| c.is_ascii_hexdigit()) => {
            Ok(Payload::Sha256(hash.to_ascii_lowercase()))
        }
        _ => Err(ApiError::with(
            ErrorCode::InvalidArgument,
            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
             STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value.",
        )),
    }
}

/// Returns the framing of the body of a request without a signature.
///
/// # Errors
/// Returns the S3 error for a framing that needs a signature.
pub fn unsigned_payload(parts: &Parts) -> Result<Payload, ApiError> {
    match header(parts, "x-amz-content-sha256") {
        None => Ok(Payload::Unsigned),
        Some(declared) if declared.starts_with("STREAMING-AWS4") => {
            Err(ApiError::new(ErrorCode::AccessDenied))
        }
        Some(declared) => payload_of(declared, || ChunkSigner {
            key: hmac::Key::new(hmac::HMAC_SHA256, &[]),
            date_time: String::new(),
            scope: String::new(),
            previous: String::new(),
        }),
    }
}

/// Returns the access key that a request claims to be signed with; `None` if it has no well-formed credential.
pub fn access_key(parts: &Parts) -> Option<String> {
    let credential = match header(parts, "authorization") {
        Some(authorization) => authorization.split("Credential=").nth(1)?.split(',').next()?.to_string(),
        None => {
            let query = parse_query(parts.uri.query()?)?;
            query.into_iter().find(|(name, _)| name == "X-Amz-Credential")?.1
        }
    };
    Some(Scope::parse(credential.trim()).ok()?.access_key.to_string())
}

/// Verifies the signature of a request that arrived at `now_s` (Unix seconds).
///
/// # Errors
/// Returns the S3 error for a missing, malformed, expired or wrong signature.
pub fn verify(parts: &Parts, credentials: &Credentials, now_s: i64) -> Result<Payload, ApiError> {
    let query = parts.uri.query().unwrap_or("");
    if parts.headers.contains_key("authorization") && (presigns(query) || repeated(parts, "authorization")) {
        return Err(ApiError::with(
            ErrorCode::InvalidArgument,
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string \
             parameter or the Authorization header should be specified",
        ));
    }
    match header(parts, "authorization") {
        Some(authorization) => verify_header(parts, authorization, query, credentials, now_s),
        None if query.contains("X-Amz-") => verify_presigned(parts, query, credentials, now_s),
        None if presigns(query) => Err(ApiError::with(
            ErrorCode::AccessDenied,
            "URLs that are signed with signature version 2 are not accepted; sign them with version 4, in boto3 with \
             Config(signature_version='s3v4')",
        )),
        None => {
            Err(ApiError::with(ErrorCode::AccessDenied, "Anonymous access is forbidden for this operation"))
        }
    }
}

/// Returns true if a query contains parameters of a version 4 or version 2 signature.
pub fn presigns(query: &str) -> bool {
    const NAMES: [&str; 6] = [
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Signature",
        "X-Amz-SignedHeaders",
        "AWSAccessKeyId",
        "Signature",
    ];
    let pairs = if query.is_empty() { None } else { parse_query(query) };
    pairs
        .is_some_and(|pairs| pairs.iter().any(|(name, _)| NAMES.iter().any(|n| n.eq_ignore_ascii_case(name))))
}

fn repeated(parts: &Parts, name: &str) -> bool {
    parts.headers.get_all(name).iter().nth(1).is_some()
}

/// Returns the error for an `Authorization` header of another scheme.
fn unsupported(authorization: &str) -> ApiError {
    if authorization.starts_with("AWS ") {
        let text =
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
        return ApiError::with(ErrorCode::InvalidRequest, text);
    }
    ApiError::with(ErrorCode::InvalidArgument, "Unsupported Authorization Type")
}

fn verify_header(
    parts: &Parts,
    authorization: &str,
    query: &str,
    credentials: &Credentials,
    now_s: i64,
) -> Result<Payload, ApiError> {
    let malformed = |problem: &str| {
        ApiError::with(
            ErrorCode::AuthorizationHeaderMalformed,
            format!("The authorization header is malformed; {problem}"),
        )
    };
    let Some(fields) = authorization.strip_prefix(ALGORITHM) else {
        return Err(unsupported(authorization));
    };
    if let Some(part) = fields.split(',').map(str::trim).find(|part| !part.contains('=')) {
        return Err(malformed(&format!("the authorization component \"{part}\" is malformed.")));
    }
    let field = |name: &str| {
        let found = fields.split(',').find_map(|f| f.trim().strip_prefix(name)?.strip_prefix('='));
        found.filter(|f| !f.is_empty()).ok_or_else(|| {
            if fields.split(',').count() < 3 {
                malformed("the authorization header requires three components: Credential, SignedHeaders, and Signature.")
            } else {
                malformed(&format!("missing {name}."))
            }
        })
    };
    let (credential, signed, given) = (field("Credential")?, field("SignedHeaders")?, field("Signature")?);
    let scope = Scope::parse(credential).map_err(|problem| malformed(&problem))?;
    if scope.access_key != credentials.access_key {
        return Err(ApiError::new(ErrorCode::InvalidAccessKeyId).detail("AWSAccessKeyId", scope.access_key));
    }
    let no_date = || {
        let text = "AWS authentication requires a valid Date or x-amz-date header.";
        ApiError::with(ErrorCode::AccessDenied, text)
    };
    let date_time = header(parts, "x-amz-date").ok_or_else(no_date)?;
    let at = parse_date_time(date_time).ok_or_else(no_date)?;
    if (at - now_s).abs() > SKEW_S {
        return Err(ApiError::new(ErrorCode::RequestTimeTooSkewed));
    }
    if !date_time.starts_with(scope.date) {
        return Err(malformed("the credential date does not match x-amz-date."));
    }
    let declared = header(parts, "x-amz-content-sha256").ok_or_else(|| {
        ApiError::with(
            ErrorCode::InvalidRequest,
            "Missing required header for this request: x-amz-content-sha256",
        )
    })?;
    let text = scope.text();
    let key = key_for(credentials, scope.of_key(), &text);
    let canonical_query = if query.is_empty() {
        String::new()
    } else {
        canonical_query(&parse_query(query).ok_or_else(|| ApiError::new(ErrorCode::InvalidURI))?)
    };
    let computed = compute(parts, &canonical_query, signed, declared, &key, date_time, &text)?;
    if verify_slices_are_equal(computed.as_bytes(), given.as_bytes()).is_err() {
        return Err(ApiError::new(ErrorCode::SignatureDoesNotMatch));
    }
    let signer =
        || ChunkSigner { key, date_time: date_time.into(), scope: text.clone(), previous: computed.clone() };
    payload_of(declared, signer)
}

fn verify_presigned(
    parts: &Parts,
    query: &str,
    credentials: &Credentials,
    now_s: i64,
) -> Result<Payload, ApiError> {
    let wrong = |problem: &str| ApiError::with(ErrorCode::AuthorizationQueryParametersError, problem);
    let mut pairs = parse_query(query).ok_or_else(|| ApiError::new(ErrorCode::InvalidURI))?;
    let find = |pairs: &[(String, String)], name: &str| {
        let found = pairs.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.clone());
        found.ok_or_else(|| {
            wrong("Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.")
        })
    };
    if find(&pairs, "X-Amz-Algorithm")? != ALGORITHM {
        return Err(wrong("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"."));
    }
    let credential = find(&pairs, "X-Amz-Credential")?;
    let date_time = find(&pairs, "X-Amz-Date")?;
    let signed = find(&pairs, "X-Amz-SignedHeaders")?;
    let given = find(&pairs, "X-Amz-Signature")?;
    let expires = find(&pairs, "X-Amz-Expires")?;
    if expires.strip_prefix('-').is_some_and(|rest| decimal(rest).is_some()) {
        return Err(wrong("X-Amz-Expires must be non-negative"));
    }
    let expires = decimal(&expires).ok_or_else(|| wrong("X-Amz-Expires should be a number"))?;
    let expires = i64::try_from(expires).unwrap_or(i64::MAX);
    if expires > MAX_EXPIRY_S {
        return Err(wrong(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
        ));
    }
    let scope = Scope::parse(&credential)
        .map_err(|problem| wrong(&format!("Error parsing the X-Amz-Credential parameter; {problem}")))?;
    let at = parse_date_time(&date_time)
        .ok_or_else(|| wrong("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""))?;
    if !date_time.starts_with(scope.date) {
        let day = &date_time[..date_time.len().min(8)];
        let text = format!(
            "Invalid credential date \"{}\". This date is not the same as X-Amz-Date: \"{day}\".",
            scope.date
        );
        return Err(wrong(&text));
    }
    if scope.access_key != credentials.access_key {
        return Err(ApiError::new(ErrorCode::InvalidAccessKeyId).detail("AWSAccessKeyId", scope.access_key));
    }
    if at - now_s > SKEW_S {
        return Err(ApiError::with(ErrorCode::AccessDenied, "Request is not valid yet"));
    }
    if at + expires <= now_s {
        return Err(ApiError::with(ErrorCode::AccessDenied, "Request has expired."));
    }
    pairs.retain(|(name, _)| name != "X-Amz-Signature");
    let text = scope.text();
    let key = key_for(credentials, scope.of_key(), &text);
    // The body hash may also be a query parameter.
    let in_query = pairs.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-amz-content-sha256"));
    let declared = header(parts, "x-amz-content-sha256").or(in_query.map(|(_, value)| value.as_str()));
    let declared = declared.unwrap_or(UNSIGNED_PAYLOAD).to_string();
    let computed =
        compute(parts, &canonical_query(&pairs), &signed, UNSIGNED_PAYLOAD, &key, &date_time, &text)?;
    if verify_slices_are_equal(computed.as_bytes(), given.as_bytes()).is_err() {
        // Some clients sign the hash that they declare instead of UNSIGNED-PAYLOAD.
        let other = compute(parts, &canonical_query(&pairs), &signed, &declared, &key, &date_time, &text)?;
        if verify_slices_are_equal(other.as_bytes(), given.as_bytes()).is_err() {
            return Err(ApiError::new(ErrorCode::SignatureDoesNotMatch));
        }
    }
    payload_of(&declared, || ChunkSigner { key, date_time, scope: text.clone(), previous: computed })
}

/// Returns the text of a header value for the canonical request. Clients sign UTF-8, and clients that send Latin-1
/// (Python's `http.client`) sign the same characters in UTF-8.
fn value_text(value: &http::HeaderValue) -> String {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_string(),
        Err(_) => value.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Checks that the signature covers the host and every `x-amz-*` header.
fn check_signed(parts: &Parts, signed_headers: &str) -> Result<(), ApiError> {
    let error = || {
        ApiError::with(
            ErrorCode::AccessDenied,
            "There were headers present in the request which were not signed",
        )
    };
    let is_signed = |name: &str| signed_headers.split(';').any(|signed| signed == name);
    if !is_signed("host") {
        return Err(error().detail("HeadersNotSigned", "host"));
    }
    // An unsigned body hash is allowed: it is verified against the body and has no other effect.
    let must_be_signed = |name: &&str| name.starts_with("x-amz-") && *name != "x-amz-content-sha256";
    let names = parts.headers.keys().map(http::HeaderName::as_str);
    match names.filter(must_be_signed).find(|name| !is_signed(name)) {
        Some(name) => Err(error().detail("HeadersNotSigned", name)),
        None => Ok(()),
    }
}

/// Computes the expected signature of a request.
fn compute(
    parts: &Parts,
    query: &str,
    signed_headers: &str,
    payload: &str,
    key: &hmac::Key,
    date_time: &str,
    scope: &str,
) -> Result<String, ApiError> {
    check_signed(parts, signed_headers)?;
    let mut owned: Vec<(&str, String)> = Vec::with_capacity(8);
    for name in signed_headers.split(';') {
        let mut values = parts.headers.get_all(name).iter().map(value_text);
        let Some(first) = values.next() else {
            // Proxies and HTTP libraries drop empty headers and `expect`, so a missing signed header counts as empty.
            owned.push((name, String::new()));
            continue;
        };
        let joined = values.fold(first, |mut all, value| {
            all.push(',');
            all.push_str(&value);
            all
        });
        owned.push((name, joined));
    }
    let raw = parts.uri.path();
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'~' | b'/');
    let encoded;
    let path = if raw.bytes().all(plain) {
        raw
    } else {
        encoded = encode_path(&decode(raw, false).ok_or_else(|| ApiError::new(ErrorCode::InvalidURI))?);
        &encoded
    };
    let headers: Vec<(&str, &str)> = owned.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let request = Canonical { method: parts.method.as_str(), path, query, headers: &headers, payload };
    Ok(BUFFERS.with_borrow_mut(|(text, scratch)| {
        canonical(text, &request);
        signature(key, date_time, scope, text, scratch)
    }))
}

/// Verifies a policy in the older form, which many form generators still produce: HMAC-SHA1 with the secret key itself.
fn verify_policy_v2<'a>(
    accounts: &'a Accounts,
    access_key: &str,
    policy: &str,
    given: &str,
) -> Result<&'a Account, ApiError> {
    let unknown = || ApiError::new(ErrorCode::InvalidAccessKeyId).detail("AWSAccessKeyId", access_key);
    let account = accounts.find(access_key).ok_or_else(unknown)?;
    let secret = account.credentials.secret_key().as_bytes();
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let given = from_base64(given.trim()).unwrap_or_default();
    match hmac::verify(&key, policy.as_bytes(), &given) {
        Ok(()) => Ok(account),
        Err(_) => Err(ApiError::new(ErrorCode::SignatureDoesNotMatch)),
    }
}

/// Returns the account that signed the policy of an HTML form. `policy` is the base64 text that was signed.
///
/// # Errors
/// Returns the S3 error for a missing or wrong signature.
pub fn verify_policy<'a>(
    fields: &Fields,
    accounts: &'a Accounts,
    policy: &str,
) -> Result<&'a Account, ApiError> {
    let field = |name: &str| {
        let missing = || {
            let text = format!(
                "Bucket POST must contain a field named '{name}'. If it is specified, please check the order of the fields."
            );
            ApiError::with(ErrorCode::InvalidArgument, text)
        };
        fields.get(name).ok_or_else(missing)
    };
    if let (Some(access_key), None) = (fields.get("awsaccesskeyid"), fields.get("x-amz-algorithm")) {
        return verify_policy_v2(accounts, access_key, policy, field("signature")?);
    }
    if field("x-amz-algorithm")? != ALGORITHM {
        return Err(ApiError::with(ErrorCode::InvalidArgument, "x-amz-algorithm must be AWS4-HMAC-SHA256"));
    }
    let scope = Scope::parse(field("x-amz-credential")?)
        .map_err(|problem| ApiError::with(ErrorCode::InvalidArgument, problem))?;
    let unknown = || ApiError::new(ErrorCode::InvalidAccessKeyId).detail("AWSAccessKeyId", scope.access_key);
    let account = accounts.find(scope.access_key).ok_or_else(unknown)?;
    let date_time = field("x-amz-date")?;
    if !date_time.starts_with(scope.date) {
        return Err(ApiError::with(
            ErrorCode::InvalidArgument,
            "x-amz-date does not match the credential date",
        ));
    }
    let key = key_for(&account.credentials, scope.of_key(), &scope.text());
    let computed = hex(hmac::sign(&key, policy.as_bytes()).as_ref());
    if verify_slices_are_equal(computed.as_bytes(), field("x-amz-signature")?.as_bytes()).is_err() {
        return Err(ApiError::new(ErrorCode::SignatureDoesNotMatch));
    }
    Ok(account)
}
