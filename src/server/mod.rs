//! The embedded S3-compatible server (`plimsoll serve`): objects in memory, requests verified, faults on demand.
//!
//! It exists so that a bare machine has something to measure and so that the instrument can be held against
//! known access log. A connection lives on one thread; [`route`] turns a request into an operation, [`auth`] verifies who
//! sent it, [`body`] what was sent, `ops` does it on [`state`], [`inject`] decides what goes wrong, and [`access_log`] writes
//! down when each request came and left. It shares the wire (`s3`) with the client and nothing else: no
//! measuring code is imported here, and the instrument does not import this.

use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

pub mod accepts;
pub mod access_log;
pub mod auth;
pub mod body;
pub mod conditions;
pub mod connections;
pub mod error;
pub mod express;
pub mod handler;
pub mod inject;
pub mod io_stamps;
pub mod memory;
pub mod metrics;
pub mod ops;
pub mod response;
pub mod route;
pub mod state;

use crate::clock::{SECOND, Timer, now_ns};
use crate::s3::credentials::Credentials;
use access_log::AccessLog;
use connections::{Candidates, Connections, Registered, TICK_NS, Timeouts};
use inject::Injector;
use io_stamps::{ConnectionStamps, Stamped};
use metrics::ServerMetrics;
use state::State;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Region that it answers to `GetBucketLocation` with; signatures of any region are accepted.
    pub region: String,
    /// Threads that serve connections.
    pub threads: usize,
    /// Most connections. Beyond them a new one replaces the one that has been idle longest.
    pub max_connections: usize,
    /// How long connections may make no progress.
    pub timeouts: Timeouts,
    /// Bytes of objects, uploads and bodies on their way in; a write beyond them is answered 503 SlowDown.
    pub memory_limit: u64,
    /// Largest single upload in bytes (S3: 5 GiB).
    pub max_body: u64,
    /// Seconds that a session of a directory bucket lasts (S3: 300).
    pub session_life_s: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Settings {
            region: "us-east-1".into(),
            threads,
            max_connections: 16_384,
            timeouts: Timeouts::default(),
            memory_limit: u64::MAX,
            max_body: 5 << 30,
            session_life_s: 300,
        }
    }
}

/// The parts that a server is made of.
pub struct Parts {
    /// Settings.
    pub settings: Settings,
    /// The one account.
    pub credentials: Credentials,
    /// TLS, when it is spoken.
    pub tls: Option<Arc<ServerConfig>>,
    /// What goes wrong on purpose.
    pub injector: Option<Injector>,
    /// Where every request is written down.
    pub access_log: Option<AccessLog>,
    /// What is counted for Prometheus.
    pub metrics: Option<ServerMetrics>,
}

/// What all connections share.
pub struct Shared {
    /// Settings.
    pub settings: Settings,
    /// The one account.
    pub credentials: Credentials,
    /// Buckets and objects.
    pub state: State,
    /// Sessions of directory buckets.
    pub sessions: express::Sessions,
    /// What goes wrong on purpose.
    pub injector: Option<Injector>,
    /// Where every request is written down.
    pub access_log: Option<AccessLog>,
    /// What is counted for Prometheus.
    pub metrics: Option<ServerMetrics>,
    tls: Option<TlsAcceptor>,
    requests: AtomicU64,
}

impl Shared {
    /// A fresh request id: 16 hexadecimal digits.
    pub fn request_id(&self) -> String {
        format!("{:016X}", self.requests.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Serves on `listener` until `shutdown` turns true, then lets open requests finish for at most two seconds.
///
/// # Errors
/// When the listener or a thread cannot be set up.
pub fn run(listener: TcpListener, parts: Parts, shutdown: &watch::Receiver<bool>) -> io::Result<()> {
    let shared = Arc::new(Shared {
        state: State::new(parts.settings.memory_limit),
        tls: parts.tls.map(TlsAcceptor::from),
        sessions: express::Sessions::new(parts.settings.session_life_s, &parts.credentials),
        settings: parts.settings,
        credentials: parts.credentials,
        injector: parts.injector,
        access_log: parts.access_log,
        metrics: parts.metrics,
        requests: AtomicU64::new(0),
    });
    let most = shared.settings.max_connections.min(descriptors().saturating_sub(SPARE_DESCRIPTORS));
    let connections = Connections::new(shared.settings.timeouts, most);
    listener.set_nonblocking(true)?;
    let mut threads = Vec::new();
    let mut queues = Vec::new();
    for index in 0..shared.settings.threads.max(1) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (shared, shutdown) = (Arc::clone(&shared), shutdown.clone());
        let thread = std::thread::Builder::new().name(format!("serve-{index}"));
        threads.push(thread.spawn(move || serve_thread(&shared, receiver, shutdown))?);
        queues.push(sender);
    }
    let result = accept(listener, &connections, &queues, shutdown.clone());
    drop(queues);
    for thread in threads {
        let _ = thread.join();
    }
    if let Some(access_log) = &shared.access_log {
        access_log.flush()?;
    }
    result
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Descriptors that are not left to connections: the listeners, logs, timers and runtimes.
const SPARE_DESCRIPTORS: usize = 128;

/// Raises the limit of open files as far as the process may, and returns it.
fn descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    current.map_or(usize::MAX, |files| files as usize)
}

type Accepted = (std::net::TcpStream, Registered);

/// Longest pause of the accept loop while the system has no descriptors left.
const LONGEST_PAUSE_NS: u64 = SECOND;

/// Accepts connections, deals them out to the threads, and closes those that are overdue or make room for others.
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
                // Out of descriptors or memory, or an aborted handshake. Make room, and leave the machine to others.
                connections.evict(&mut candidates);
                pause_ns = (2 * pause_ns).clamp(SECOND / 100, LONGEST_PAUSE_NS);
                pause.until(now_ns() + pause_ns).await?;
                continue;
            };
            pause_ns = 0;
            if connections.is_full() && !connections.evict(&mut candidates) {
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

fn serve_thread(
    shared: &Arc<Shared>,
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
            let (shared, shutdown) = (Arc::clone(shared), shutdown.clone());
            let (open, idle) = (Rc::clone(&open), Rc::clone(&idle));
            open.set(open.get() + 1);
            tokio::task::spawn_local(async move {
                // A broken connection is the client's affair; the next one is served as usual.
                let _ = connection(&shared, stream, registered, shutdown).await;
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

/// Largest head of a request; a larger one is answered 431 (S3 itself allows 8 KiB).
const LARGEST_HEAD: usize = 256 * 1024;

async fn connection(
    shared: &Arc<Shared>,
    stream: std::net::TcpStream,
    registered: Registered,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let stream = tokio::net::TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let stamps = Rc::new(ConnectionStamps::new(Arc::clone(shared), registered));
    let stamped = match &shared.tls {
        Some(acceptor) => {
            stamps.registered.read();
            let stream = tokio::select! {
                stream = acceptor.accept(stream) => stream?,
                () = stamps.registered.doomed() => return Ok(()),
            };
            stamps.registered.answered();
            Stamped::tls(stream, Rc::clone(&stamps))
        }
        None => Stamped::plain(stream, Rc::clone(&stamps)),
    };
    let service = service_fn(|request| handler::handle(shared, &stamps, request));
    let serving = http1::Builder::new()
        .max_buf_size(LARGEST_HEAD)
        .max_header_size(LARGEST_HEAD)
        .header_read_timeout(None)
        .half_close(false)
        .serve_connection(TokioIo::new(stamped), service);
    let mut serving = std::pin::pin!(serving);
    let doomed = stamps.registered.doomed();
    let served = tokio::select! {
        biased;
        served = serving.as_mut() => served,
        () = doomed => return Ok(()),
        _ = shutdown.wait_for(|stop| *stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    served.map_err(io::Error::other)
}
