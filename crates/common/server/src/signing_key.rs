//! The signing key that the requests of a day share, derived once per thread.

use std::cell::RefCell;

use aws_lc_rs::hmac;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::derive_key;

/// A derived signing key, with what it was derived from.
struct DerivedKey {
    access_key: String,
    /// The secret key: an account may get a new one under the same access key.
    secret_key: String,
    scope: String,
    key: hmac::Key,
}

thread_local! {
    /// Last signing key derived on this thread; nearly all requests of a day share it.
    static DERIVED: RefCell<Option<DerivedKey>> = const { RefCell::new(None) };
}

/// Parts of a credential scope from which a signing key is derived.
#[derive(Debug, Clone, Copy)]
pub struct KeyScope<'a> {
    /// Date in the format `yyyyMMdd`.
    pub date: &'a str,
    /// Region of the request.
    pub region: &'a str,
    /// Service of the request.
    pub service: &'a str,
    /// The scope as text: `DATE/REGION/SERVICE/aws4_request`.
    pub text: &'a str,
}

/// Calls `then` with the signing key of an account for a scope, and returns its result. `then` must not ask for another
/// key.
pub fn with_key<T>(credentials: &Credentials, scope: KeyScope<'_>, then: impl FnOnce(&hmac::Key) -> T) -> T {
    DERIVED.with_borrow_mut(|cached| {
        let is_derived = |derived: &DerivedKey| {
            derived.scope == scope.text
                && derived.access_key == credentials.access_key
                && derived.secret_key == credentials.secret_key()
        };
        if !cached.as_ref().is_some_and(is_derived) {
            *cached = None;
        }
        let derived = cached.get_or_insert_with(|| DerivedKey {
            access_key: credentials.access_key.clone(),
            secret_key: credentials.secret_key().to_string(),
            scope: scope.text.to_string(),
            key: derive_key(credentials.secret_key(), scope.date, scope.region, scope.service),
        });
        then(&derived.key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: after a new secret was loaded for an access key, each thread accepted the old one until the
    /// next day.
    #[test]
    fn a_new_secret_of_the_same_access_key_is_used_at_once() {
        let text = "20261124/r/s3/aws4_request";
        let scope = KeyScope { date: "20261124", region: "r", service: "s3", text };
        let sign = |secret: &str| {
            let credentials = Credentials::new("key", secret, None);
            with_key(&credentials, scope, |key| hmac::sign(key, b"text").as_ref().to_vec())
        };
        let old = sign("old secret");
        assert_eq!(sign("old secret"), old);
        assert_ne!(sign("new secret"), old);
        assert_eq!(sign("old secret"), old);
    }
}
