//! Accounts: access keys, their secrets, and the buckets that they may read or write.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::error::{ApiError, ErrorCode};
use super::route::{ApiOperation, Route};
use super::service::ObjectService;
use plimsoll_s3::credentials::Credentials;

/// Buckets that an account may use, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Names of buckets, in which a final `*` stands for any text.
    pub buckets: Vec<String>,
    /// True if the account may write.
    pub write: bool,
}

impl Rights {
    /// Returns the rights to read and write all buckets.
    pub fn all() -> Rights {
        Rights { buckets: vec!["*".into()], write: true }
    }

    /// Returns true if the rights are those of an administrator: all operations on all buckets.
    pub fn are_unlimited(&self) -> bool {
        self.write && self.buckets.iter().any(|bucket| bucket == "*")
    }

    /// Returns true if the rights include this bucket.
    pub fn cover(&self, bucket: &str) -> bool {
        self.buckets.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => bucket.starts_with(prefix),
            None => pattern == bucket,
        })
    }
}

/// An access key with its rights.
#[derive(Debug, Clone)]
pub struct Account {
    /// Access key and secret.
    pub credentials: Credentials,
    /// Rights of the account.
    pub rights: Rights,
}

/// All accounts of a server.
#[derive(Debug, Clone)]
pub struct Accounts {
    /// Access key of the first account, which owns all buckets of a service that has only one owner.
    pub owner: String,
    by_key: HashMap<String, Arc<Account>>,
    /// Rights of requests without a signature, which never include writes.
    anonymous: Rights,
}

impl Accounts {
    /// Creates the accounts of a server. Everybody may read the buckets in `public`.
    pub fn new(accounts: Vec<Account>, public: Vec<String>) -> Accounts {
        Accounts {
            owner: accounts.first().map(|a| a.credentials.access_key.clone()).unwrap_or_default(),
            by_key: accounts.into_iter().map(|a| (a.credentials.access_key.clone(), Arc::new(a))).collect(),
            anonymous: Rights { buckets: public, write: false },
        }
    }

    /// Creates a single account with all rights.
    pub fn single(credentials: Credentials) -> Accounts {
        Accounts::new(vec![Account { credentials, rights: Rights::all() }], Vec::new())
    }

    /// Returns the account with this access key; `None` if there is none.
    pub fn find(&self, access_key: &str) -> Option<&Arc<Account>> {
        self.by_key.get(access_key)
    }

    /// Returns true if this is the secret key of an account with the rights of an administrator. The time that it takes
    /// does not depend on the position of a wrong character.
    pub fn is_administrator(&self, access_key: &str, secret_key: &str) -> bool {
        let account = self.find(access_key).filter(|account| account.rights.are_unlimited());
        account.is_some_and(|account| {
            let secret = account.credentials.secret_key().as_bytes();
            verify_slices_are_equal(secret, secret_key.as_bytes()).is_ok()
        })
    }

    /// Returns the rights of requests without a signature.
    pub fn anonymous(&self) -> &Rights {
        &self.anonymous
    }
}

/// Returns true if `rights` allow an operation on its bucket. The source of a copy is checked when it is opened.
pub fn allow(rights: &Rights, route: &Route) -> bool {
    match route.operation {
        ApiOperation::Preflight => true,
        operation => rights.cover(&route.bucket) && (rights.write || !operation.writes()),
    }
}

/// Checks that a client may execute an operation: its rights allow it, it owns the bucket, or an access control list of
/// the bucket or object allows it. `client` is the access key, or empty for a request without a signature.
///
/// # Errors
/// Returns `AccessDenied`, or `NoSuchBucket`.
pub async fn check<S: ObjectService>(
    service: &S,
    rights: &Rights,
    client: &str,
    route: &Route,
) -> Result<(), ApiError> {
    use ApiOperation as O;
    let is_authenticated = !client.is_empty();
    let denied = || ApiError::new(ErrorCode::AccessDenied);
    if allow(rights, route) || (route.operation == O::ListBuckets && is_authenticated) {
        return Ok(());
    }
    if route.operation == O::ListBuckets || !service.features().acls {
        return Err(denied());
    }
    if route.operation == O::CreateBucket {
        return if is_authenticated && rights.write { Ok(()) } else { Err(denied()) };
    }
    let bucket = service.bucket(&route.bucket).await?;
    let info = bucket.as_ref();
    if is_authenticated && info.owner == client {
        return Ok(());
    }
    let allowed = match route.operation {
        O::ListObjects | O::ListObjectsV2 | O::ListVersions | O::ListUploads | O::HeadBucket => {
            info.acl.allows(false, is_authenticated)
        }
        O::PutObject
        | O::PostObject
        | O::CopyObject
        | O::DeleteObject
        | O::DeleteObjects
        | O::CreateUpload
        | O::UploadPart
        | O::UploadPartCopy
        | O::CompleteUpload => info.acl.allows(true, is_authenticated),
        O::GetObject | O::HeadObject | O::GetAttributes => {
            let version = route.parameter("versionId").filter(|version| !version.is_empty());
            match service.open(&bucket, &route.key, version).await {
                Ok(object) => object.as_ref().acl.allows(false, is_authenticated),
                // Only a client that may list the bucket learns that there is no such object.
                Err(_) => info.acl.allows(false, is_authenticated),
            }
        }
        _ => false,
    };
    if allowed { Ok(()) } else { Err(denied()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(rights: &Rights, operation: ApiOperation, bucket: &str) -> bool {
        let route = Route { operation, bucket: bucket.into(), key: "k".into(), query: Vec::new() };
        allow(rights, &route)
    }

    #[test]
    fn only_an_account_with_all_rights_is_an_administrator() {
        let account = |key: &str, buckets: &str, write: bool| Account {
            credentials: Credentials::new(key, "secret", None),
            rights: Rights { buckets: vec![buckets.into()], write },
        };
        let accounts = [account("all", "*", true), account("reader", "*", false), account("one", "a*", true)];
        let accounts = Accounts::new(accounts.to_vec(), Vec::new());
        assert!(accounts.is_administrator("all", "secret"));
        for (key, secret) in
            [("all", "secre"), ("all", ""), ("reader", "secret"), ("one", "secret"), ("", "")]
        {
            assert!(!accounts.is_administrator(key, secret), "{key} {secret}");
        }
    }

    #[test]
    fn rights_cover_buckets_and_writes() {
        let reader = Rights { buckets: vec!["a".into(), "logs-*".into()], write: false };
        assert!(allowed(&reader, ApiOperation::GetObject, "a"));
        assert!(allowed(&reader, ApiOperation::ListObjectsV2, "logs-1"));
        assert!(!allowed(&reader, ApiOperation::GetObject, "ab"));
        assert!(!allowed(&reader, ApiOperation::PutObject, "a"));
        let writer = Rights { buckets: vec!["a".into()], write: true };
        assert!(
            allowed(&writer, ApiOperation::PutObject, "a") && !allowed(&writer, ApiOperation::PutObject, "b")
        );
    }
}
