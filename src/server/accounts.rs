//! Accounts: access keys, their secrets, and the buckets that they may read or write.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::ApiError;
use super::route::{Operation, Route};
use crate::s3::credentials::Credentials;

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
    /// Identifier of the owner of all buckets and objects.
    pub owner: String,
    by_key: HashMap<String, Arc<Account>>,
    /// Rights of requests without a signature, which never include writes.
    anonymous: Rights,
}

impl Accounts {
    /// Creates accounts. The first one owns all buckets and objects. `public` names the buckets that everybody may
    /// read.
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

    /// Returns the rights of requests without a signature.
    pub fn anonymous(&self) -> &Rights {
        &self.anonymous
    }

    /// Returns true if requests without a signature may read some bucket.
    pub fn has_public_buckets(&self) -> bool {
        !self.anonymous.buckets.is_empty()
    }
}

/// Checks that `rights` allow an operation on its bucket and, for a copy, on the bucket of the source.
///
/// # Errors
/// Returns `AccessDenied`.
pub fn check(rights: &Rights, route: &Route, copy_source: Option<&str>) -> Result<(), ApiError> {
    let allowed = match route.operation {
        Operation::ListBuckets | Operation::Preflight => true,
        operation => rights.cover(&route.bucket) && (rights.write || !operation.writes()),
    };
    let source = copy_source.map(|source| source.strip_prefix('/').unwrap_or(source));
    let source = source.and_then(|source| source.split(['/', '%']).next());
    if allowed && source.is_none_or(|bucket| rights.cover(bucket)) {
        return Ok(());
    }
    Err(ApiError::new("AccessDenied"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(rights: &Rights, operation: Operation, bucket: &str, source: Option<&str>) -> bool {
        let route = Route { operation, bucket: bucket.into(), key: "k".into(), query: Vec::new() };
        check(rights, &route, source).is_ok()
    }

    #[test]
    fn rights_are_checked_for_the_target_and_the_source() {
        let reader = Rights { buckets: vec!["a".into(), "logs-*".into()], write: false };
        assert!(allowed(&reader, Operation::GetObject, "a", None));
        assert!(allowed(&reader, Operation::ListObjectsV2, "logs-1", None));
        assert!(!allowed(&reader, Operation::GetObject, "ab", None));
        assert!(!allowed(&reader, Operation::PutObject, "a", None));
        let writer = Rights { buckets: vec!["a".into()], write: true };
        assert!(allowed(&writer, Operation::CopyObject, "a", Some("/a/k")));
        assert!(!allowed(&writer, Operation::CopyObject, "a", Some("b/k")));
        assert!(!allowed(&writer, Operation::CopyObject, "a", Some("b%2Fk")));
    }
}
