//! Idle connections, kept for later requests.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use http::Uri;
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::net::connection::HttpConnection;
use tokio::runtime::{Handle, Id};
use tokio::time::Sleep;

/// Longest time that a connection stays idle, in nanoseconds.
const IDLE_NS: u64 = 60 * SECOND;
/// Most idle connections to a host, in one runtime.
const MAX_IDLE: usize = 256;

/// The server of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// Name or address, without brackets.
    pub name: String,
    /// Port of the server.
    pub port: u16,
    /// True for HTTPS.
    pub is_tls: bool,
    /// Name and port, as in the header `Host`.
    pub authority: String,
}

impl Host {
    /// Returns the server of a URL; `None` if the URL has none.
    pub fn of(uri: &Uri) -> Option<Host> {
        let authority = uri.authority()?;
        let is_tls = uri.scheme_str() == Some("https");
        let usual = if is_tls { 443 } else { 80 };
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().unwrap_or(usual);
        // Credentials in a URL are not part of the host.
        let shown = authority.as_str().rsplit('@').next().unwrap_or_default();
        Some(Host { name: name.into(), port, is_tls, authority: shown.into() })
    }
}

/// A connection, and the timer of its requests. The timer stays registered between them: a new one would wake up the
/// thread.
pub struct Link {
    /// Connection to the server.
    pub connection: HttpConnection,
    /// Timer of the request.
    pub timer: Pin<Box<Sleep>>,
}

/// A connection, and the time since which it is idle.
struct Idle {
    link: Link,
    since_ns: u64,
}

impl Idle {
    fn is_fresh(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) < IDLE_NS
    }
}

/// Idle connections by runtime and host: a connection belongs to the runtime that opened it.
#[derive(Default)]
pub struct Pool {
    idle: Mutex<HashMap<(Id, Host), Vec<Idle>>>,
    turns: AtomicUsize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Pool {
    /// Takes the connection that was used last; `None` if there is none.
    pub fn take(&self, host: &Host) -> Option<Link> {
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = all.get_mut(&(Handle::current().id(), host.clone()))?.pop()?;
        idle.is_fresh(now_ns()).then_some(idle.link)
    }

    /// Keeps a connection for another request, if it can take one.
    pub fn give(&self, host: &Host, link: Link) {
        // A body may be dropped outside a runtime.
        let Ok(runtime) = Handle::try_current() else { return };
        if !link.connection.is_open() {
            return;
        }
        let now_ns = now_ns();
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = all.entry((runtime.id(), host.clone())).or_default();
        // The oldest are the first.
        if of_host.len() >= MAX_IDLE || of_host.first().is_some_and(|oldest| !oldest.is_fresh(now_ns)) {
            of_host.remove(0);
        }
        of_host.push(Idle { link, since_ns: now_ns });
    }

    /// Returns the number of the next connection, which selects its address.
    pub fn turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }
}
