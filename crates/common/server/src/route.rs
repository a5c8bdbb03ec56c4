//! Maps the method, path, query and headers of a request to an operation of the S3 API.

use http::Method;
use http::header::HOST;
use http::request::Parts;

use super::error::{ApiError, ErrorCode};
use super::names::AMZ_COPY_SOURCE;
pub use super::operation::ApiOperation;
use super::query::Pair;
use plimsoll_base::net::encode::{decode, parse_query};

/// Operation and target of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// Operation to execute.
    pub operation: ApiOperation,
    /// Bucket name; empty for a request to the service.
    pub bucket: String,
    /// Object key; empty for a request to a bucket.
    pub key: String,
    /// Decoded query parameters.
    pub query: Vec<(String, String)>,
}

impl Route {
    /// Returns the value of a query parameter, or `None` if it is absent.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Answer to a request for a setting that no bucket has.
#[derive(Debug, Clone, Copy)]
pub enum Unconfigured {
    /// Error with this code.
    Error(ErrorCode),
    /// A document: its root, and an element with its text.
    Document(&'static str, Option<(&'static str, &'static str)>),
}

/// Query parameters of the settings that no bucket has, and the answers of S3 for a bucket without them. Clients such
/// as Terraform read them all.
pub const UNCONFIGURED: [(&str, Unconfigured); 12] = [
    ("policy", Unconfigured::Error(ErrorCode::NoSuchBucketPolicy)),
    ("policyStatus", Unconfigured::Error(ErrorCode::NoSuchBucketPolicy)),
    ("encryption", Unconfigured::Error(ErrorCode::ServerSideEncryptionConfigurationNotFoundError)),
    ("website", Unconfigured::Error(ErrorCode::NoSuchWebsiteConfiguration)),
    ("replication", Unconfigured::Error(ErrorCode::ReplicationConfigurationNotFoundError)),
    ("object-lock", Unconfigured::Error(ErrorCode::ObjectLockConfigurationNotFoundError)),
    ("publicAccessBlock", Unconfigured::Error(ErrorCode::NoSuchPublicAccessBlockConfiguration)),
    ("ownershipControls", Unconfigured::Error(ErrorCode::OwnershipControlsNotFoundError)),
    ("logging", Unconfigured::Document("BucketLoggingStatus", None)),
    ("notification", Unconfigured::Document("NotificationConfiguration", None)),
    ("accelerate", Unconfigured::Document("AccelerateConfiguration", None)),
    ("requestPayment", Unconfigured::Document("RequestPaymentConfiguration", Some(("Payer", "BucketOwner")))),
];

/// Query parameters that make a request another operation than its method and target say, and which have no name here.
const OTHERS: [&str; 22] = [
    "accelerate",
    "analytics",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "logging",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "torrent",
    "website",
];

/// Returns true if a parameter in the query selects an operation other than [`Route::operation`].
pub fn is_another(route: &Route) -> bool {
    let is_other = |name: &str| OTHERS.contains(&name);
    route.operation != ApiOperation::GetUnconfigured && route.query.iter().any(|(name, _)| is_other(name))
}

/// Maximum length of a key in bytes (S3: 1,024 bytes).
const KEY_LIMIT: usize = 1024;

/// Determines the operation, bucket and key of a request.
///
/// # Errors
/// Returns `NotImplemented` for an operation that the server lacks, `MethodNotAllowed` for a method that does not fit
/// the target, `InvalidURI` for invalid percent-encoding, `InvalidBucketName` for an empty bucket name, and
/// `KeyTooLongError` for a key above the limit.
pub fn route(parts: &Parts) -> Result<Route, ApiError> {
    with_query(parts, parse_query(parts.uri.query().unwrap_or("")))
}

/// Does the same as [`route`] with the decoded query, or `None` if it is malformed.
///
/// # Errors
/// Returns the same errors as [`route`].
pub fn with_query(parts: &Parts, query: Option<Vec<Pair>>) -> Result<Route, ApiError> {
    let invalid = || ApiError::new(ErrorCode::InvalidURI);
    let path = decode(parts.uri.path(), false).ok_or_else(invalid)?;
    let query = query.ok_or_else(invalid)?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    let (bucket, key) = match virtual_host(parts) {
        Some(bucket) => (bucket, path),
        None => {
            let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
            (bucket.to_string(), key)
        }
    };
    if bucket.is_empty() && !path.is_empty() {
        return Err(ApiError::new(ErrorCode::InvalidBucketName));
    }
    if key.len() > KEY_LIMIT {
        return Err(ApiError::new(ErrorCode::KeyTooLongError));
    }
    let operation = operation(parts, &query, bucket.is_empty(), key.is_empty())?;
    Ok(Route { operation, key: key.to_string(), bucket, query })
}

fn operation(
    parts: &Parts,
    query: &[(String, String)],
    no_bucket: bool,
    no_key: bool,
) -> Result<ApiOperation, ApiError> {
    let has = |name: &str| query.iter().any(|(n, _)| n == name);
    let copy = parts.headers.contains_key(&AMZ_COPY_SOURCE)
        || query.iter().any(|(n, _)| n.eq_ignore_ascii_case("x-amz-copy-source"));
    if let Some(operation) = configuration(&parts.method, &has, no_bucket, no_key) {
        return Ok(operation);
    }
    Ok(match (&parts.method, no_bucket, no_key) {
        (&Method::OPTIONS, false, _) => ApiOperation::Preflight,
        (&Method::GET, true, _) => ApiOperation::ListBuckets,
        (&Method::GET, _, true) if has("location") => ApiOperation::GetBucketLocation,
        (&Method::GET, _, true) if has("session") => ApiOperation::CreateSession,
        (&Method::GET, _, true) if has("uploads") => ApiOperation::ListUploads,
        (&Method::GET, _, true) if has("versions") => ApiOperation::ListVersions,
        (&Method::GET, _, true) if query.iter().any(|(n, v)| n == "list-type" && v == "2") => {
            ApiOperation::ListObjectsV2
        }
        (&Method::GET, _, true) => ApiOperation::ListObjects,
        (&Method::HEAD, false, true) => ApiOperation::HeadBucket,
        (&Method::PUT, false, true) => ApiOperation::CreateBucket,
        (&Method::DELETE, false, true) => ApiOperation::DeleteBucket,
        (&Method::POST, false, true) if has("delete") => ApiOperation::DeleteObjects,
        (&Method::GET, _, false) if has("uploadId") => ApiOperation::ListParts,
        (&Method::GET, _, false) if has("attributes") => ApiOperation::GetAttributes,
        (&Method::GET, _, false) => ApiOperation::GetObject,
        (&Method::HEAD, false, false) => ApiOperation::HeadObject,
        (&Method::PUT, false, false) if has("uploadId") && copy => ApiOperation::UploadPartCopy,
        (&Method::PUT, false, false) if has("uploadId") => ApiOperation::UploadPart,
        (&Method::PUT, false, false) if copy => ApiOperation::CopyObject,
        (&Method::PUT, false, false) => ApiOperation::PutObject,
        (&Method::POST, false, false) if has("uploads") => ApiOperation::CreateUpload,
        (&Method::POST, false, false) if has("uploadId") => ApiOperation::CompleteUpload,
        (&Method::DELETE, false, false) if has("uploadId") => ApiOperation::AbortUpload,
        (&Method::DELETE, false, false) => ApiOperation::DeleteObject,
        (&Method::POST, false, _) if !query.is_empty() => {
            return Err(ApiError::with(
                ErrorCode::NotImplemented,
                "This server does not implement this operation",
            ));
        }
        (&Method::POST, false, true) => ApiOperation::PostObject,
        _ => return Err(ApiError::new(ErrorCode::MethodNotAllowed)),
    })
}

/// Returns the operation on a configuration document that the query names; `None` if it names none.
fn configuration(
    method: &Method,
    has: &dyn Fn(&str) -> bool,
    no_bucket: bool,
    no_key: bool,
) -> Option<ApiOperation> {
    use ApiOperation as O;
    /// Query parameter, and the operations that read, write and delete the document.
    type Document = (&'static str, O, Option<O>, Option<O>);
    const OF_BUCKET: [Document; 5] = [
        ("versioning", O::GetBucketVersioning, Some(O::PutBucketVersioning), None),
        ("tagging", O::GetBucketTags, Some(O::PutBucketTags), Some(O::DeleteBucketTags)),
        ("cors", O::GetBucketCors, Some(O::PutBucketCors), Some(O::DeleteBucketCors)),
        ("lifecycle", O::GetBucketLifecycle, Some(O::PutBucketLifecycle), Some(O::DeleteBucketLifecycle)),
        ("acl", O::GetBucketAcl, Some(O::PutBucketAcl), None),
    ];
    const OF_OBJECT: [Document; 2] = [
        ("tagging", O::GetObjectTags, Some(O::PutObjectTags), Some(O::DeleteObjectTags)),
        ("acl", O::GetObjectAcl, Some(O::PutObjectAcl), None),
    ];
    let all: &[Document] = match (no_bucket, no_key) {
        (true, _) => &[],
        (false, true) => &OF_BUCKET,
        (false, false) => &OF_OBJECT,
    };
    if *method == Method::GET && no_key && !no_bucket && UNCONFIGURED.iter().any(|(name, _)| has(name)) {
        return Some(O::GetUnconfigured);
    }
    let (_, get, put, delete) = all.iter().find(|(name, ..)| has(name))?;
    match *method {
        Method::GET => Some(*get),
        Method::PUT => *put,
        Method::DELETE => *delete,
        _ => None,
    }
}

/// Returns the bucket of a virtual-host request, whose host is `BUCKET.localhost`; `None` for a path-style request.
fn virtual_host(parts: &Parts) -> Option<String> {
    let host = parts.headers.get(HOST)?.to_str().ok()?;
    let name = host.split(':').next()?;
    name.strip_suffix(".localhost").filter(|b| !b.is_empty()).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(
        method: &str,
        uri: &str,
        headers: &[(&'static str, &'static str)],
    ) -> Result<(ApiOperation, String, String), &'static str> {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        route(&parts).map(|r| (r.operation, r.bucket, r.key)).map_err(|e| e.code.name())
    }

    #[test]
    fn an_empty_bucket_name_does_not_list_the_buckets() {
        for uri in ["//", "//b", "//b/k", "///"] {
            for method in ["GET", "HEAD", "PUT", "DELETE"] {
                assert_eq!(routed(method, uri, &[]), Err("InvalidBucketName"), "{method} {uri}");
            }
        }
    }

    #[test]
    fn requests_map_to_operations() {
        let object = |op, bucket: &str, key: &str| Ok((op, bucket.to_string(), key.to_string()));
        assert_eq!(routed("GET", "/", &[]), object(ApiOperation::ListBuckets, "", ""));
        assert_eq!(routed("GET", "/b/a%20b/c", &[]), object(ApiOperation::GetObject, "b", "a b/c"));
        assert_eq!(routed("GET", "/b/?list-type=2", &[]), object(ApiOperation::ListObjectsV2, "b", ""));
        assert_eq!(
            routed("PUT", "/k", &[("host", "bkt.localhost:1")]),
            object(ApiOperation::PutObject, "bkt", "k")
        );
        assert_eq!(
            routed("PUT", "/b/k", &[("x-amz-copy-source", "b/x")]),
            object(ApiOperation::CopyObject, "b", "k")
        );
        assert_eq!(routed("GET", "/b?versions", &[]), object(ApiOperation::ListVersions, "b", ""));
        assert_eq!(routed("GET", "/b/k?attributes", &[]), object(ApiOperation::GetAttributes, "b", "k"));
        assert_eq!(routed("POST", "/b/k?restore", &[]), Err("NotImplemented"));
        assert_eq!(routed("POST", "/b/k", &[]), Err("MethodNotAllowed"));
        assert_eq!(routed("GET", "/b/%zz", &[]), Err("InvalidURI"));
        assert_eq!(routed("GET", &format!("/b/{}", "k".repeat(1025)), &[]), Err("KeyTooLongError"));
    }
}
