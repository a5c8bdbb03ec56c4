//! Directory buckets (S3 Express One Zone): sessions, and the rules that differ from other buckets (S3 user guide,
//! "Directory buckets"; API reference, CreateSession).
//!
//! A bucket whose name ends in `--x-s3` is a directory bucket. Requests to its objects are signed with the credentials
//! of a session, which belongs to one bucket, is read-only or read-write, and expires. Bucket management, copies and
//! CreateSession are signed with the account's own credentials; a session gives access to its bucket only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;

use super::error::{ApiError, ErrorCode};
use super::reserve::OVERHEAD;
use super::reserve::{Memory, Reservation};
use super::response::{ServerResponse, xml};
use super::route::{ApiOperation, Route};
use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::{hex, parse_query};
use plimsoll_base::provider::zone::is_directory;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::sha256;
use plimsoll_s3::xml::XmlWriter;

/// A session: its credentials, bucket, mode and expiry time.
#[derive(Debug)]
pub struct Session {
    /// Temporary credentials of the session.
    pub credentials: Credentials,
    bucket: String,
    reads_only: bool,
    ends: jiff::Timestamp,
    _memory: Reservation,
}

/// Sessions by access key, including recently expired ones.
#[derive(Debug)]
pub struct Sessions {
    life_s: u32,
    secret: [u8; 32],
    open: Mutex<(u64, HashMap<String, Arc<Session>>)>,
}

impl Sessions {
    /// Creates an empty set of sessions; each session will last `life_s` seconds. Their secrets depend on the secret
    /// key of the account.
    pub fn new(life_s: u32, account_secret: &str) -> Sessions {
        let seed = format!("{account_secret}/{}", wall_now().as_nanosecond());
        Sessions { life_s, secret: sha256(seed.as_bytes()), open: Mutex::default() }
    }

    /// Returns the session with this access key, or `None` if there is none.
    pub fn find(&self, access_key: &str) -> Option<Arc<Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).1.get(access_key).cloned()
    }

    /// Creates a session for a bucket.
    fn make(&self, bucket: &str, reads_only: bool, memory: Reservation) -> Arc<Session> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.0 += 1;
        let derive = |purpose: &str| {
            let text = [self.secret.as_slice(), purpose.as_bytes(), &open.0.to_le_bytes()].concat();
            hex(&sha256(&text))
        };
        let access_key = format!("SESSION{}", &derive("access")[..13].to_uppercase());
        let token = derive("token");
        let credentials = Credentials::new(&access_key, &derive("secret"), Some(&token));
        let ends = wall_now() + jiff::SignedDuration::from_secs(i64::from(self.life_s));
        let session =
            Arc::new(Session { credentials, bucket: bucket.into(), reads_only, ends, _memory: memory });
        // Keep expired sessions for 600 s: their requests get ExpiredToken, those of removed ones InvalidAccessKeyId.
        let cutoff = wall_now() - jiff::SignedDuration::from_secs(600);
        open.1.retain(|_, s| s.ends > cutoff);
        open.1.insert(access_key, Arc::clone(&session));
        session
    }
}

impl Session {
    /// Checks that the request carries the token of the session and that the session allows the operation.
    ///
    /// # Errors
    /// Returns `InvalidToken` for a wrong or missing token, `ExpiredToken` for an expired session, and
    /// `AccessDenied` for another bucket or an operation that the session does not allow.
    pub fn allows(&self, parts: &Parts, route: &Route) -> Result<(), ApiError> {
        let header = parts.headers.get("x-amz-s3session-token").and_then(|v| v.to_str().ok());
        let in_query = || {
            let pairs = parse_query(parts.uri.query().unwrap_or(""))?;
            pairs.into_iter().find(|(n, _)| n.eq_ignore_ascii_case("x-amz-s3session-token")).map(|(_, v)| v)
        };
        let token = header.map(str::to_string).or_else(in_query);
        if token.is_none() || token != self.credentials.session_token {
            return Err(ApiError::new(ErrorCode::InvalidToken));
        }
        if wall_now() >= self.ends {
            return Err(ApiError::new(ErrorCode::ExpiredToken));
        }
        let denied = |reason: &str| Err(ApiError::with(ErrorCode::AccessDenied, reason));
        if route.bucket != self.bucket {
            return denied("The session belongs to another bucket");
        }
        match needs(route.operation) {
            Needs::Account => denied("This operation requires the account's own credentials, not a session"),
            Needs::Write if self.reads_only => denied("The session was created in ReadOnly mode"),
            Needs::Either | Needs::Read | Needs::Write => Ok(()),
        }
    }
}

/// Credentials that an operation on a directory bucket requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// The account's own credentials.
    Account,
    /// A session of the bucket, or the account's own credentials.
    Either,
    /// A session of the bucket in either mode.
    Read,
    /// A session of the bucket in ReadWrite mode.
    Write,
}

/// Returns the credentials that an operation requires (S3 API reference, CreateSession). CopyObject and UploadPartCopy
/// read a second object, which the session does not cover.
fn needs(operation: ApiOperation) -> Needs {
    use ApiOperation as O;
    match operation {
        O::ListBuckets
        | O::CreateBucket
        | O::DeleteBucket
        | O::GetBucketLocation
        | O::CreateSession
        | O::GetBucketVersioning
        | O::PutBucketVersioning
        | O::GetBucketTags
        | O::PutBucketTags
        | O::DeleteBucketTags
        | O::GetBucketCors
        | O::PutBucketCors
        | O::DeleteBucketCors
        | O::GetBucketLifecycle
        | O::PutBucketLifecycle
        | O::DeleteBucketLifecycle
        | O::GetBucketAcl
        | O::PutBucketAcl
        | O::GetUnconfigured
        | O::PutObjectAcl
        | O::CopyObject
        | O::UploadPartCopy => Needs::Account,
        O::HeadBucket => Needs::Either,
        O::GetObject
        | O::HeadObject
        | O::GetAttributes
        | O::ListObjects
        | O::ListObjectsV2
        | O::ListVersions
        | O::ListUploads
        | O::ListParts
        | O::Preflight
        | O::GetObjectAcl
        | O::GetObjectTags => Needs::Read,
        O::PutObject
        | O::DeleteObject
        | O::DeleteObjects
        | O::CreateUpload
        | O::UploadPart
        | O::CompleteUpload
        | O::PostObject
        | O::PutObjectTags
        | O::DeleteObjectTags
        | O::AbortUpload => Needs::Write,
    }
}

/// Checks that the account's own credentials may sign this operation.
///
/// # Errors
/// Returns `AccessDenied` if the operation requires a session.
pub fn without_session(route: &Route) -> Result<(), ApiError> {
    if !is_directory(&route.bucket) || matches!(needs(route.operation), Needs::Account | Needs::Either) {
        return Ok(());
    }
    Err(ApiError::with(
        ErrorCode::AccessDenied,
        "Object requests to a directory bucket require a session; call CreateSession first",
    ))
}

/// Checks the rules that apply only to directory buckets.
///
/// # Errors
/// Returns the S3 error for the rule that the request violates.
pub fn check(parts: &Parts, route: &Route) -> Result<(), ApiError> {
    if !is_directory(&route.bucket) {
        return match route.operation {
            ApiOperation::CreateSession => Err(ApiError::with(
                ErrorCode::InvalidRequest,
                "CreateSession is supported only for directory buckets (base--zone--x-s3)",
            )),
            _ => Ok(()),
        };
    }
    let refuse = |code, text: &str| Err(ApiError::with(code, text));
    if matches!(
        route.operation,
        ApiOperation::ListObjects | ApiOperation::ListVersions | ApiOperation::GetBucketLocation
    ) {
        return refuse(ErrorCode::MethodNotAllowed, "This operation is not supported for directory buckets");
    }
    if parts.headers.contains_key("content-md5") {
        return refuse(
            ErrorCode::InvalidRequest,
            "Content-MD5 is not supported for directory buckets; use a checksum",
        );
    }
    if matches!(route.operation, ApiOperation::ListObjectsV2 | ApiOperation::ListUploads) {
        let parameter = |name| route.parameter(name).unwrap_or("");
        if !parameter("start-after").is_empty() {
            return refuse(ErrorCode::InvalidArgument, "start-after is not supported for directory buckets");
        }
        if !matches!(parameter("delimiter"), "" | "/") {
            return refuse(ErrorCode::InvalidArgument, "The delimiter must be / for directory buckets");
        }
        if !parameter("prefix").is_empty() && !parameter("prefix").ends_with('/') {
            return refuse(ErrorCode::InvalidArgument, "The prefix must end in / for directory buckets");
        }
    }
    Ok(())
}

/// Handles CreateSession.
///
/// # Errors
/// Returns `InvalidArgument` for an unknown mode, or `SlowDown` if the memory limit would be exceeded.
pub fn create_session(
    sessions: &Sessions,
    parts: &Parts,
    bucket: &str,
    memory: &Arc<Memory>,
) -> Result<ServerResponse, ApiError> {
    let mode = parts.headers.get("x-amz-create-session-mode").and_then(|v| v.to_str().ok());
    let reads_only = match mode {
        None | Some("ReadWrite") => false,
        Some("ReadOnly") => true,
        Some(_) => {
            return Err(ApiError::with(
                ErrorCode::InvalidArgument,
                "The session mode must be ReadWrite or ReadOnly",
            ));
        }
    };
    let session = sessions.make(bucket, reads_only, memory.reserve(OVERHEAD)?);
    let by = &session.credentials;
    let mut writer = XmlWriter::new("CreateSessionResult");
    writer.open("Credentials").text("SessionToken", by.session_token.as_deref().unwrap_or(""));
    writer.text("SecretAccessKey", by.secret_key()).text("AccessKeyId", &by.access_key);
    writer.text("Expiration", &session.ends.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()).close();
    Ok(xml(writer.finish()))
}

/// Returns the entity tag bytes for a directory bucket, which do not reveal the MD5 of the content.
pub fn tag(md5: [u8; 16]) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&sha256(&[b"directory bucket".as_slice(), &md5].concat())[..16]);
    out
}
