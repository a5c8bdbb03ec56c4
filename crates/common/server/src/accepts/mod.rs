//! Table of the headers and query parameters that each operation accepts.
//!
//! S3 clients rely on the server to honour what they send: a server that accepts a condition, an encryption key
//! or an access control list but ignores it loses or exposes data. So a request with an `x-amz-*` header, a
//! condition, a range or a query parameter that its operation does not implement gets status 501 and has no
//! effect.

use http::request::Parts;
use http::{HeaderName, HeaderValue};

use super::error::{ApiError, ErrorCode};
use super::features::Features;
use super::names::AMZ_STORAGE_CLASS;
use super::route::{ApiOperation, Route};

mod table;

use table::Values::{Any, Only, Owner};
use table::{ALWAYS, Header, Values, headers, parameters};

/// Headers other than `x-amz-*` that change the meaning of a request: conditions and ranges.
const MEANINGFUL: &[&str] = &[
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "range",
    "content-range",
];

/// Returns true if a header may be repeated; its values are then joined.
fn repeats(name: &str) -> bool {
    name.starts_with("x-amz-meta-") || name == "x-amz-object-attributes"
}

fn not_implemented(feature: &str) -> ApiError {
    ApiError::with(ErrorCode::NotImplemented, format!("This server does not implement {feature}"))
}

/// Returns the default storage class of the request's bucket.
pub fn default_class(route: &Route) -> &'static str {
    if plimsoll_base::provider::zone::is_directory(&route.bucket) { "EXPRESS_ONEZONE" } else { "STANDARD" }
}

/// Checks the operation, headers and parameters of a request against the table and the features of the service. `owner`
/// identifies the owner of the buckets.
///
/// # Errors
/// Returns `NotImplemented` for an operation, header, parameter or value that the service does not implement,
/// `InvalidArgument` for one that is invalid, repeated or not text, `InvalidStorageClass` for a class that S3
/// does not have, and `AccessDenied` for another bucket owner.
pub fn check(parts: &Parts, route: &Route, owner: &str, features: &Features) -> Result<(), ApiError> {
    if !route.operation.is_in(features) {
        return Err(not_implemented("this operation"));
    }
    let tags = creates(route.operation) && features.tags;
    let groups = headers(route.operation);
    for header in parts.headers.keys() {
        let name = header.as_str();
        if !(name.starts_with("x-amz-") || MEANINGFUL.contains(&name)) {
            continue;
        }
        if name == "x-amz-storage-class" {
            check_storage_class(parts, route, features)?;
            continue;
        }
        if name == "x-amz-acl" && features.acls {
            check_values(parts, header, &Any, owner)?;
            continue;
        }
        if tags && matches!(name, "x-amz-tagging" | "x-amz-tagging-directive") {
            check_values(parts, header, &Any, owner)?;
            continue;
        }
        if name == "if-none-match" && features.if_none_match_tags && route.operation.takes_any_if_none_match()
        {
            check_values(parts, header, &Any, owner)?;
            continue;
        }
        let known = |header: &&Header| match header.0.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == header.0,
        };
        let mut all = ALWAYS.iter().chain(groups.iter().copied().flatten());
        let (_, values) =
            all.find(known).ok_or_else(|| not_implemented(&format!("{name} with this operation")))?;
        check_values(parts, header, values, owner)?;
    }
    let accepted = parameters(route.operation);
    for (index, (name, _)) in route.query.iter().enumerate() {
        if route.query[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(ApiError::with(
                ErrorCode::InvalidArgument,
                format!("The parameter {name} is repeated"),
            ));
        }
        if !accepted.contains(&name.as_str()) && !is_harmless(name) {
            return Err(not_implemented(&format!("the query parameter '{name}' with this operation")));
        }
    }
    match route.parameter("versionId") {
        None | Some("null") => Ok(()),
        Some(version) if features.versions && !version.is_empty() => Ok(()),
        Some(_) => Err(ApiError::with(ErrorCode::InvalidArgument, "Invalid version id specified")),
    }
}

/// Returns true if every operation accepts the parameter: those of a presigned URL, verified by `auth`, and those
/// that S3 reserves for annotations by the client (`x-id`, and `x-*` for access logs).
fn is_harmless(name: &str) -> bool {
    const SIGNED: [&str; 6] = [
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Signature",
    ];
    SIGNED.contains(&name) || is_hoisted(name) || (name.starts_with("x-") && !begins_with_amz(name))
}

/// Returns true if a name begins with `x-amz-`, whatever the case of its letters.
fn begins_with_amz(name: &str) -> bool {
    name.as_bytes().get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"x-amz-"))
}

/// Returns true if a query parameter of a presigned URL represents a header: SDKs move `x-amz-*` headers into the
/// query. [`hoist`] adds them to the headers, which [`check`] then compares with the table.
fn is_hoisted(name: &str) -> bool {
    const SIGNATURE: [&str; 6] = [
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-signedheaders",
        "x-amz-signature",
    ];
    begins_with_amz(name) && !SIGNATURE.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Adds the headers that an SDK moved into the query to the headers of a verified request.
///
/// # Errors
/// Returns `InvalidArgument` for a parameter that is not a valid header, or that is also sent as a header with another
/// value.
pub fn hoist(parts: &mut Parts, route: &Route) -> Result<(), ApiError> {
    for (name, value) in route.query.iter().filter(|(name, _)| is_hoisted(name)) {
        let invalid =
            || ApiError::with(ErrorCode::InvalidArgument, format!("The parameter {name} is invalid"));
        let header: http::HeaderName = name.parse().map_err(|_| invalid())?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?;
        match parts.headers.get(&header) {
            Some(sent) if *sent != value => return Err(invalid()),
            _ => parts.headers.insert(header, value),
        };
    }
    Ok(())
}

/// Returns the error for a rejected value: `InvalidArgument` for an ACL that S3 does not have, otherwise
/// `NotImplemented`.
fn rejected(name: &str, value: &str) -> ApiError {
    const ACLS: [&str; 9] = [
        "private",
        "public-read",
        "public-read-write",
        "aws-exec-read",
        "authenticated-read",
        "bucket-owner-read",
        "bucket-owner-full-control",
        "log-delivery-write",
        "",
    ];
    if name == "x-amz-acl" && !ACLS.contains(&value) {
        return ApiError::new(ErrorCode::InvalidArgument);
    }
    not_implemented(&format!("{name}: {value}"))
}

fn check_values(parts: &Parts, header: &HeaderName, values: &Values, owner: &str) -> Result<(), ApiError> {
    let name = header.as_str();
    let mut found = parts.headers.get_all(header).iter();
    let Some(first) = found.next() else { return Ok(()) };
    if name.starts_with("x-amz-meta-") {
        return Ok(());
    }
    if found.next().is_some() && !repeats(name) {
        return Err(ApiError::with(ErrorCode::InvalidArgument, format!("The header {name} is repeated")));
    }
    // A copy source may contain UTF-8; all other values are ASCII.
    let text = match name {
        "x-amz-copy-source" => std::str::from_utf8(first.as_bytes()).ok(),
        _ => first.to_str().ok(),
    };
    let text = text.ok_or_else(|| {
        ApiError::with(ErrorCode::InvalidArgument, format!("The header {name} is not valid text"))
    })?;
    match values {
        Any => Ok(()),
        Only(accepted) if accepted.contains(&text.trim()) => Ok(()),
        Only(_) => Err(rejected(name, text)),
        Owner if text == owner => Ok(()),
        Owner => {
            Err(ApiError::with(ErrorCode::AccessDenied, format!("{name} is not the owner of the bucket")))
        }
    }
}

/// Returns true if the headers of the operation describe a new object.
fn creates(operation: ApiOperation) -> bool {
    matches!(operation, ApiOperation::PutObject | ApiOperation::CopyObject | ApiOperation::CreateUpload)
}

fn check_storage_class(parts: &Parts, route: &Route, features: &Features) -> Result<(), ApiError> {
    const OTHERS: [&str; 8] = [
        "DEEP_ARCHIVE",
        "EXPRESS_ONEZONE",
        "GLACIER",
        "GLACIER_IR",
        "INTELLIGENT_TIERING",
        "ONEZONE_IA",
        "REDUCED_REDUNDANCY",
        "STANDARD_IA",
    ];
    if !creates(route.operation) {
        return Err(not_implemented("x-amz-storage-class with this operation"));
    }
    check_values(parts, &AMZ_STORAGE_CLASS, &Any, "")?;
    let class = parts.headers.get(&AMZ_STORAGE_CLASS).map_or(&b""[..], HeaderValue::as_bytes);
    let class = String::from_utf8_lossy(class);
    match class.as_ref() {
        class if class == default_class(route) => Ok(()),
        // The service knows its classes.
        _ if features.storage_classes => Ok(()),
        class if OTHERS.contains(&class) || class == "STANDARD" => {
            Err(not_implemented(&format!("the storage class {class}")))
        }
        _ => Err(ApiError::new(ErrorCode::InvalidStorageClass)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), &'static str> {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let route = super::super::route::route(&parts).map_err(|e| e.code.name())?;
        hoist(&mut parts, &route).map_err(|e| e.code.name())?;
        check(&parts, &route, "owner", &Features::default()).map_err(|e| e.code.name())
    }

    const NOT_IMPLEMENTED: Result<(), &str> = Err("NotImplemented");

    #[test]
    fn headers_of_unimplemented_features_are_rejected() {
        for (name, value) in [
            ("x-amz-server-side-encryption-customer-key", "k"),
            ("x-amz-server-side-encryption", "AES256"),
            ("x-amz-acl", "public-read"),
            ("x-amz-grant-read", "id=1"),
            ("x-amz-storage-class", "GLACIER"),
            ("x-amz-tagging", "a=b"),
            ("x-amz-anything-new", "1"),
            ("if-none-match", "\"etag\""),
            ("if-unmodified-since", "Tue, 14 Nov 2023 22:13:19 GMT"),
            ("content-range", "bytes 0-1/2"),
            ("range", "bytes=0-1"),
        ] {
            assert_eq!(checked("PUT", "/bkt/k", &[(name, value)]), NOT_IMPLEMENTED, "{name}");
        }
        assert_eq!(checked("PUT", "/bkt/k", &[("x-amz-storage-class", "WARM")]), Err("InvalidStorageClass"));
        assert_eq!(checked("PUT", "/bkt/k", &[("x-amz-acl", "everyone")]), Err("InvalidArgument"));
        assert_eq!(checked("GET", "/bkt/k", &[("x-amz-meta-a", "1")]), NOT_IMPLEMENTED);
        assert_eq!(checked("DELETE", "/bkt/k", &[("x-amz-mfa", "1")]), NOT_IMPLEMENTED);
        assert_eq!(checked("GET", "/bkt", &[("x-amz-expected-bucket-owner", "other")]), Err("AccessDenied"));
        assert_eq!(
            checked("PUT", "/bkt/k", &[("x-amz-acl", "private"), ("x-amz-acl", "public-read")]),
            Err("InvalidArgument")
        );
    }

    #[test]
    fn parameters_of_unimplemented_features_are_rejected() {
        for (method, uri) in [
            ("GET", "/bkt/k?tagging"),
            ("PUT", "/bkt/k?acl"),
            ("GET", "/bkt?policy"),
            ("GET", "/bkt?max-keys=1&allow-unordered=true"),
            ("PUT", "/bkt/k?append&position=0"),
            ("DELETE", "/bkt?versionId=null"),
            ("PUT", "/bkt/k?partNumber=1"),
        ] {
            assert_eq!(checked(method, uri, &[]), NOT_IMPLEMENTED, "{method} {uri}");
        }
        assert_eq!(checked("GET", "/bkt/k?versionId=other", &[]), Err("InvalidArgument"));
        assert_eq!(checked("GET", "/bkt?prefix=a&prefix=b", &[]), Err("InvalidArgument"));
    }

    #[test]
    fn headers_and_parameters_of_common_clients_are_accepted() {
        let put = [
            ("x-amz-acl", "private"),
            ("x-amz-storage-class", "STANDARD"),
            ("x-amz-meta-a", "1"),
            ("x-amz-user-agent", "sdk"),
            ("x-amz-checksum-crc32", "AAAAAA=="),
            ("x-amz-sdk-checksum-algorithm", "CRC32"),
            ("x-amz-expected-bucket-owner", "owner"),
            ("if-none-match", "*"),
            ("expect", "100-continue"),
        ];
        assert_eq!(checked("PUT", "/bkt/k?x-id=PutObject", &put), Ok(()));
        assert_eq!(checked("GET", "/bkt/k?versionId=null&partNumber=1", &[("range", "bytes=0-")]), Ok(()));
        assert_eq!(checked("DELETE", "/bkt/k?versionId=null", &[("if-match", "*")]), Ok(()));
    }

    #[test]
    fn a_repeated_or_non_ascii_header_is_rejected() {
        for name in ["if-match", "if-none-match", "x-amz-copy-source-if-match", "x-amz-expected-bucket-owner"]
        {
            let copy = ("x-amz-copy-source", "bkt/o");
            for headers in [[copy, (name, "*"), (name, "b")], [copy, (name, "\u{e9}"), ("a", "b")]] {
                assert_eq!(checked("PUT", "/bkt/k", &headers), Err("InvalidArgument"), "{headers:?}");
            }
        }
    }

    #[test]
    fn headers_moved_into_the_query_are_checked_like_headers() {
        assert_eq!(checked("PUT", "/bkt/k?x-amz-acl=public-read&X-Amz-Signature=0", &[]), NOT_IMPLEMENTED);
        assert_eq!(checked("PUT", "/bkt/k?x-amz-tagging=a&X-Amz-Signature=0", &[]), NOT_IMPLEMENTED);
        assert_eq!(checked("PUT", "/bkt/k?x-amz-meta-a=b&X-Amz-Signature=0", &[]), Ok(()));
        assert_eq!(checked("PUT", "/bkt/k?x-amz-meta-a=b", &[("x-amz-meta-a", "c")]), Err("InvalidArgument"));
    }
}
