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
}

/// Returns the signing key of an account for a scope, whose text is `text`.
pub fn key_for(credentials: &Credentials, scope: KeyScope<'_>, text: &str) -> hmac::Key {
    DERIVED.with_borrow_mut(|cached| {
        if let Some(cached) = cached
            && cached.scope == text
            && cached.access_key == credentials.access_key
            && cached.secret_key == credentials.secret_key()
        {
            return cached.key.clone();
        }
        let key = derive_key(credentials.secret_key(), scope.date, scope.region, scope.service);
        *cached = Some(DerivedKey {
            access_key: credentials.access_key.clone(),
            secret_key: credentials.secret_key().to_string(),
            scope: text.to_string(),
            key: key.clone(),
        });
        key
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: after a new secret was loaded for an access key, each thread accepted the old one until the
    /// next day.
    #[test]
    fn a_new_secret_of_the_same_access_key_is_used_at_once() {
        let scope = KeyScope { date: "20261124", region: "r", service: "s3" };
        let sign = |secret: &str| {
            let key = key_for(&Credentials::new("key", secret, None), scope, "20261124/r/s3/aws4_request");
            hmac::sign(&key, b"text").as_ref().to_vec()
        };
        let old = sign("old secret");
        assert_eq!(sign("old secret"), old);
        assert_ne!(sign("new secret"), old);
        assert_eq!(sign("old secret"), old);
    }
}
