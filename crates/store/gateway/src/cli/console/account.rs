//! The accounts of administrators: all operations on all buckets.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::pages::PageRequest;
use plimsoll_s3::checksum::from_base64;

use super::Console;
use plimsoll_catalog::log::warn;

/// Time for which failed attempts count, in nanoseconds.
const WINDOW_NS: u64 = 60 * SECOND;
/// Failed attempts in this time after which none is accepted.
const MOST: usize = 10;

/// Maximum number of failed attempts that are remembered.
const REMEMBERED: usize = 10_000;

/// Failed attempts to use an account: their times on the monotonic clock, and the addresses of their clients.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<VecDeque<(u64, IpAddr)>>);

impl Attempts {
    /// Returns true if a further attempt of a client is accepted at a time. Clients elsewhere do not matter, so that
    /// nobody can keep all administrators out.
    fn allows(&self, now_ns: u64, client: IpAddr) -> bool {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|(at_ns, _)| now_ns < at_ns + WINDOW_NS);
        failed.iter().filter(|(_, other)| *other == client).count() < MOST
    }

    fn failed(&self, now_ns: u64, client: IpAddr) {
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() == REMEMBERED {
            failed.pop_front();
        }
        failed.push_back((now_ns, client));
    }
}

/// Returns the access key and the secret key of a header `Authorization` with the scheme Basic (RFC 7617).
fn parse(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    let text = String::from_utf8(from_base64(encoded.trim())?)
        .ok()
        .filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let (key, secret) = text.split_once(':')?;
    Some((key.to_string(), secret.to_string()))
}

impl Console {
    /// Returns the access key of the administrator who sends a request.
    ///
    /// # Errors
    /// A message if the request has no such account, or the network could read it.
    pub fn administrator(&self, request: &PageRequest) -> Result<String, String> {
        if !request.is_private {
            return Err("Changes need TLS (--tls-cert and --tls-key), or a browser on the machine of the gateway, such as \
                through `ssh -L` or `kubectl port-forward`."
                .into());
        }
        let account = request.authorization.as_deref().and_then(parse);
        let Some((key, secret)) = account.filter(|(key, _)| !key.is_empty()) else {
            return Err("Changes need the access key and the secret key of an administrator.".into());
        };
        if !self.attempts.allows(now_ns(), request.peer) {
            return Err("Too many failed attempts; wait a minute.".into());
        }
        if self.shared.accounts().is_administrator(&key, &secret) {
            return Ok(key);
        }
        self.attempts.failed(now_ns(), request.peer);
        warn(&format!("audit: {} has used a wrong account of an administrator", request.peer));
        Err("This is not the account of an administrator, which may write to all buckets; or its secret key is wrong."
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_a_key_and_a_secret_that_may_have_colons() {
        assert_eq!(parse("Basic YTpiOmM="), Some(("a".into(), "b:c".into())));
        assert_eq!(parse("basic  YTpiOmM="), Some(("a".into(), "b:c".into())));
        for wrong in ["Basic", "Bearer YTpiOmM=", "Basic ***", "Basic YWI=", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn attempts_are_limited_for_a_time() {
        let attempts = Attempts::default();
        let [client, other] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        (0..MOST as u64).for_each(|at_ns| attempts.failed(at_ns, client));
        assert!(!attempts.allows(WINDOW_NS - 1, client) && attempts.allows(WINDOW_NS - 1, other));
        assert!(attempts.allows(WINDOW_NS, client));
        (0..2 * REMEMBERED as u64).for_each(|at_ns| attempts.failed(at_ns, client));
        assert_eq!(attempts.0.lock().unwrap().len(), REMEMBERED);
    }
}
