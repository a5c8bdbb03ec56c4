//! Idle connections, kept for later requests.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

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
struct Kept {
    idle: HashMap<(Id, Host), Vec<Idle>>,
    /// Runtimes with a task that closes connections.
    swept: HashSet<Id>,
}

/// Idle connections of all runtimes.
#[derive(Default)]
pub struct Pool {
    kept: Mutex<Kept>,
    turns: AtomicUsize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

/// Closes the connections of a runtime that were idle for too long.
struct Sweep {
    pool: Weak<Pool>,
    runtime: Id,
}

impl Sweep {
    /// Continues until the runtime has no idle connection.
    async fn run(self) {
        loop {
            #[allow(clippy::disallowed_methods)]
            tokio::time::sleep(Duration::from_nanos(IDLE_NS)).await;
            let Some(pool) = self.pool.upgrade() else { return };
            if !pool.close_idle(self.runtime, now_ns()) {
                return;
            }
        }
    }
}

impl Drop for Sweep {
    /// A runtime that ends takes its connections along.
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.close_idle(self.runtime, u64::MAX);
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connections of a runtime that are idle for too long at a monotonic time in nanoseconds. Returns true
    /// if some are left; else the sweep of the runtime has ended.
    pub(super) fn close_idle(&self, runtime: Id, now_ns: u64) -> bool {
        let mut kept = self.lock();
        kept.idle.retain(|(of, _), idle| {
            if *of == runtime {
                idle.retain(|one| one.is_fresh(now_ns));
            }
            !idle.is_empty()
        });
        let has_some = kept.idle.keys().any(|(of, _)| *of == runtime);
        if !has_some {
            kept.swept.remove(&runtime);
        }
        has_some
    }

    /// Takes the connection that was used last; `None` if there is none.
    pub fn take(&self, host: &Host) -> Option<Link> {
        let mut kept = self.lock();
        let idle = kept.idle.get_mut(&(Handle::current().id(), host.clone()))?.pop()?;
        idle.is_fresh(now_ns()).then_some(idle.link)
    }

    /// Keeps a connection for another request, if it can take one.
    pub fn give(self: &Arc<Pool>, host: &Host, link: Link) {
        // A body may be dropped outside a runtime.
        let Ok(runtime) = Handle::try_current() else { return };
        if !link.connection.is_open() {
            return;
        }
        let now_ns = now_ns();
        let mut kept = self.lock();
        let of_host = kept.idle.entry((runtime.id(), host.clone())).or_default();
        // The oldest are the first.
        if of_host.len() >= MAX_IDLE {
            of_host.remove(0);
        }
        of_host.push(Idle { link, since_ns: now_ns });
        // Without it, the connections of a burst would stay open until the next one.
        if kept.swept.insert(runtime.id()) {
            runtime.spawn(Sweep { pool: Arc::downgrade(self), runtime: runtime.id() }.run());
        }
    }

    /// Returns the number of the next connection, which selects its address.
    pub fn turn(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }
}
