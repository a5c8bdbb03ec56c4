//! The S3 protocol as a server, generic over the [`service`] that stores the objects.
//!
//! Each connection stays on one thread. [`route`] maps a request to an operation, [`auth`] verifies its signature and
//! [`body`] its body, and [`ops`] executes it on the service. `emulator` has the service of
//! `plimsoll serve`, and `objects` the service of the gateway. `calibrate` compares the figures of the client with the
//! [`timing_log`]. The engine cannot import this crate: the instrument shares only the wire format with the
//! server that it measures.

use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;
pub use tokio_rustls::rustls::ServerConfig;

pub mod accepts;
pub mod accounts;
pub mod auth;
pub mod body;
pub mod conditions;
pub mod config;
pub mod connection_limit;
pub mod connections;
pub mod credentials;
pub mod error;
pub mod error_code;
pub mod exchange;
pub mod expiry;
pub mod express;
pub mod features;
pub mod form;
pub mod forward;
pub mod handler;
mod head_scan;
pub mod header_case;
pub mod incoming;
pub mod limits;
pub mod metrics;
mod names;
pub mod observer;
pub mod operation;
pub mod ops;
mod pace;
pub mod paging;
pub mod payload;
pub mod query;
pub mod request_kind;
pub mod request_log;
pub mod reserve;
pub mod response;
pub mod route;
pub mod service;
pub mod shutdown;
mod signing_key;
pub mod timestamps;
pub mod timing_log;
pub mod versions;

use accounts::Accounts;
use connections::{Candidates, Connections, Registration, TICK_NS, Timeouts};
use handler::{Handler, Plain};
use header_case::HeaderCase;
use limits::{MAX_DOCUMENTS, MAX_HEAD_BYTES, MAX_UNSENT_BYTES};
use observer::RequestObserver;
use plimsoll_base::clock::{SECOND, Timer, now_ns};
use plimsoll_base::net::encode::hex;
use plimsoll_base::net::socket::TimedSocket;
use reserve::Memory;
use service::ObjectService;
use timestamps::{ConnectionTimestamps, Stamped};
use timing_log::TimingLog;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Region of buckets created without a location constraint; signatures for any region are accepted.
    pub region: String,
    /// Number of threads that serve connections.
    pub threads: usize,
    /// Maximum number of open connections. At the limit, a new one replaces the one that has been idle longest.
    pub max_connections: usize,
    /// Number of file descriptors that a connection may need: its socket, and what its request opens.
    pub descriptors_per_connection: usize,
    /// Timeouts of connections that make no progress.
    pub timeouts: Timeouts,
    /// Limit in bytes on objects, uploads and incoming bodies; a write that would exceed it gets 503 SlowDown.
    pub memory_limit: u64,
    /// Maximum size of a single upload in bytes (S3: 5 GiB).
    pub max_body: u64,
    /// Lifetime of a directory bucket session in seconds (S3: 300).
    pub session_life_s: u32,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        ServerSettings {
            region: "us-east-1".into(),
            threads,
            max_connections: 16_384,
            descriptors_per_connection: 1,
            timeouts: Timeouts::default(),
            memory_limit: u64::MAX,
            max_body: 5 << 30,
            session_life_s: 300,
        }
    }
}

/// Components that [`run`] builds a server from.
pub struct Parts {
    /// Settings of the server.
    pub settings: ServerSettings,
    /// Accounts that may send requests.
    pub accounts: Accounts,
    /// TLS configuration; `None` for plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    /// Access log; `None` if requests are not logged.
    pub timing_log: Option<TimingLog>,
    /// Observers of finished requests.
    pub observers: Vec<Arc<dyn RequestObserver>>,
}

/// State shared by all connections, without the service.
pub struct ServerState {
    /// Settings of the server.
    pub settings: ServerSettings,
    accounts: RwLock<Arc<Accounts>>,
    /// Limit on the memory that clients make the server use.
    pub memory: Arc<Memory>,
    /// Limit on the memory of documents that are being sent, such as listings.
    pub documents: Arc<Memory>,
    /// Sessions of directory buckets.
    pub sessions: express::Sessions,
    /// Access log; `None` if requests are not logged.
    pub timing_log: Option<TimingLog>,
    /// Observers of finished requests.
    pub observers: Vec<Arc<dyn RequestObserver>>,
    tls: RwLock<Option<TlsAcceptor>>,
    requests: AtomicU64,
    /// Letters of the header `ETag`; `None` for lower case, which is valid too.
    header_case: Option<HeaderCase>,
}

impl ServerState {
    /// Creates the state of a server.
    pub fn new(parts: Parts) -> Arc<ServerState> {
        let secret = parts.accounts.find(&parts.accounts.owner).map_or("", |a| a.credentials.secret_key());
        Arc::new(ServerState {
            sessions: express::Sessions::new(parts.settings.session_life_s, secret),
            memory: Memory::new(parts.settings.memory_limit),
            documents: Memory::new(parts.settings.memory_limit.min(MAX_DOCUMENTS)),
            tls: RwLock::new(parts.tls.map(TlsAcceptor::from)),
            accounts: RwLock::new(Arc::new(parts.accounts)),
            settings: parts.settings,
            timing_log: parts.timing_log,
            observers: parts.observers,
            requests: AtomicU64::new(0),
            header_case: HeaderCase::new().ok(),
        })
    }

    /// Returns the accounts.
    pub fn accounts(&self) -> Arc<Accounts> {
        Arc::clone(&self.accounts.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the accounts; requests that have been authenticated continue.
    pub fn set_accounts(&self, accounts: Accounts) {
        *self.accounts.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(accounts);
    }

    /// Replaces the TLS configuration of new connections.
    pub fn set_tls(&self, config: Arc<ServerConfig>) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(TlsAcceptor::from(config));
    }

    /// Returns the TLS configuration of new connections; `None` without TLS.
    pub fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a new request id of 16 hexadecimal digits.
    pub fn request_id(&self) -> String {
        let mut id = hex(&(self.requests.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes());
        id.make_ascii_uppercase();
        id
    }
}

/// Serves connections on `listener` with `service` until `shutdown` becomes true, then waits at most two seconds for
/// open requests.
///
/// # Errors
/// Returns an error if the listener, a timer or a thread cannot be set up, or if the timing log cannot be written.
pub fn run<S: ObjectService>(
    listener: TcpListener,
    shared: &Arc<ServerState>,
    service: &Arc<S>,
    shutdown: &watch::Receiver<bool>,
) -> io::Result<()> {
    run_with(listener, shared, &Arc::new(Plain(Arc::clone(service))), shutdown)
}

/// Does the same as [`run`] with a handler.
///
/// # Errors
/// Returns the same errors as [`run`].
pub fn run_with<H: Handler>(
    listener: TcpListener,
    shared: &Arc<ServerState>,
    handler: &Arc<H>,
    shutdown: &watch::Receiver<bool>,
) -> io::Result<()> {
    let usable = descriptors().saturating_sub(SPARE_DESCRIPTORS);
    let most =
        shared.settings.max_connections.min(usable / shared.settings.descriptors_per_connection.max(1));
    let connections = Connections::new(shared.settings.timeouts, most);
    listener.set_nonblocking(true)?;
    let mut threads = Vec::new();
    let mut queues = Vec::new();
    for index in 0..shared.settings.threads.max(1) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (shared, handler, shutdown) = (Arc::clone(shared), Arc::clone(handler), shutdown.clone());
        let thread = std::thread::Builder::new().name(format!("serve-{index}"));
        threads.push(thread.spawn(move || serve_thread(&shared, &handler, receiver, shutdown))?);
        queues.push(sender);
    }
    let result = accept(listener, &connections, &queues, shutdown.clone());
    drop(queues);
    for thread in threads {
        let _ = thread.join();
    }
    if let Some(timing_log) = &shared.timing_log {
        timing_log.finish()?;
    }
    result
}

/// Threads of each runtime for reads and writes of files, which hold a buffer each.
const FILE_THREADS: usize = 64;

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(FILE_THREADS).build()
}

/// File descriptors reserved for listeners, logs, timers and runtimes; connections use the rest.
const SPARE_DESCRIPTORS: usize = 128;

/// Raises the soft limit on open files to the hard limit and returns the limit in effect.
fn descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    current.map_or(usize::MAX, |files| files as usize)
}

type Accepted = (std::net::TcpStream, Registration);

/// Longest pause of the accept loop after a failed `accept`, in nanoseconds.
const MAX_PAUSE_NS: u64 = SECOND;

/// Accepts connections, distributes them over the threads, and closes those that time out or make room for others.
fn accept(
    listener: TcpListener,
    connections: &Arc<Connections>,
    queues: &[mpsc::UnboundedSender<Accepted>],
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    runtime()?.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (mut tick, mut pause) = (Timer::new()?, Timer::new()?);
        let mut candidates = Candidates::new();
        let (mut turn, mut pause_ns) = (0, 0);
        let mut next_sweep = now_ns() + TICK_NS;
        loop {
            let accepted = tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => return Ok(()),
                swept = tick.until(next_sweep) => {
                    swept?;
                    connections.sweep(now_ns());
                    next_sweep = now_ns() + TICK_NS;
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // The system is out of descriptors or memory, or the client aborted the handshake. Close a connection
                // and pause, so that other processes can continue.
                connections.evict(&mut candidates);
                pause_ns = (2 * pause_ns).clamp(SECOND / 100, MAX_PAUSE_NS);
                pause.until(now_ns() + pause_ns).await?;
                continue;
            };
            pause_ns = 0;
            // A connection that was selected needs a moment to close. Without waiting for it, a burst of connections
            // would take all file descriptors.
            while connections.is_full() {
                let one_leaves = connections.one_leaves();
                if !connections.evict(&mut candidates) && !connections.is_closing() {
                    break;
                }
                tokio::select! {
                    _ = shutdown.wait_for(|stop| *stop) => return Ok(()),
                    () = one_leaves => {}
                    swept = tick.until(next_sweep) => {
                        swept?;
                        connections.sweep(now_ns());
                        next_sweep = now_ns() + TICK_NS;
                    }
                }
            }
            if connections.is_full() {
                drop(stream);
                continue;
            }
            if let Ok(stream) = stream.into_std() {
                let _ = queues[turn % queues.len()].send((stream, connections.register()));
                turn += 1;
            }
        }
    })
}

fn serve_thread<H: Handler>(
    shared: &Arc<ServerState>,
    handler: &Arc<H>,
    mut queue: mpsc::UnboundedReceiver<Accepted>,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = runtime()?;
    let local = LocalSet::new();
    let open = Rc::new(std::cell::Cell::new(0usize));
    let idle = Rc::new(tokio::sync::Notify::new());
    local.block_on(&runtime, async {
        loop {
            let stream = tokio::select! {
                stream = queue.recv() => stream,
                _ = shutdown.wait_for(|stop| *stop) => None,
            };
            let Some((stream, registered)) = stream else { break };
            let (shared, handler, shutdown) = (Arc::clone(shared), Arc::clone(handler), shutdown.clone());
            let (open, idle) = (Rc::clone(&open), Rc::clone(&idle));
            open.set(open.get() + 1);
            tokio::task::spawn_local(async move {
                // An error ends only this connection; the server continues with the others.
                let _ = connection(&shared, &handler, stream, registered, shutdown).await;
                open.set(open.get() - 1);
                idle.notify_one();
            });
        }
        let grace = async {
            while open.get() > 0 {
                idle.notified().await;
            }
        };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), grace).await;
    });
    Ok(())
}

async fn connection<H: Handler>(
    shared: &Arc<ServerState>,
    handler: &Arc<H>,
    stream: std::net::TcpStream,
    registered: Registration,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let peer = if shared.observers.is_empty() { None } else { stream.peer_addr().ok().map(|peer| peer.ip()) };
    let stamps = ConnectionTimestamps::new(Arc::clone(shared), registered, handler.needs_times(), peer);
    let stamps = Rc::new(stamps);
    let stream = TimedSocket::new(stream, stamps.is_timed())?;
    // A kernel without the option serves too, with more memory for clients that do not read.
    let _ = stream.limit_unsent(MAX_UNSENT_BYTES);
    let stamped = match shared.tls() {
        Some(acceptor) => {
            stamps.registered.read(0);
            let stream = tokio::select! {
                stream = acceptor.accept(stream) => stream?,
                () = stamps.registered.wait_for_close() => return Ok(()),
            };
            stamps.registered.answered();
            Stamped::tls(stream, Rc::clone(&stamps))
        }
        None => Stamped::plain(stream, Rc::clone(&stamps)),
    };
    let service = service_fn(|request: Request<Incoming>| async {
        let is_part = request.uri().query().is_some_and(|query| query.contains("partNumber="));
        let mut answer = handler.handle(shared, &stamps, request).await?;
        if let Some(names) = shared.header_case.as_ref().filter(|_| is_part) {
            names.apply(&mut answer);
        }
        Ok::<_, io::Error>(answer.map(|body| body.gated(&stamps.gate)))
    });
    let serving = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .max_header_size(MAX_HEAD_BYTES)
        .header_read_timeout(None)
        .half_close(false)
        .serve_connection(TokioIo::new(stamped), service);
    let mut serving = std::pin::pin!(serving);
    let wait_for_close = stamps.registered.wait_for_close();
    let served = tokio::select! {
        biased;
        served = serving.as_mut() => served,
        () = wait_for_close => return Ok(()),
        _ = shutdown.wait_for(|stop| *stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    served.map_err(io::Error::other)
}
