//! The local endpoint: a store in memory, or one that passes requests on.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;

use super::child::Address;
use super::counter::Counter;
use super::upstream::Upstream;
use plimsoll_base::rng::entropy;
use plimsoll_emulator::memory::MemoryService;
use plimsoll_emulator::memory::serve::serve_from;
use plimsoll_s3::credentials::Credentials;
use plimsoll_server::accounts::Accounts;
use plimsoll_server::handler::Forwarding;
use plimsoll_server::observer::RequestObserver;
use plimsoll_server::shutdown::listen_on;
use plimsoll_server::{Parts, ServerSettings, ServerState, run_with};

/// The store behind the endpoint.
#[derive(Clone)]
pub enum Backend {
    /// A store in memory with one bucket, which holds at most this many bytes.
    Memory {
        /// Name of the bucket.
        bucket: String,
        /// Limit in bytes.
        limit: u64,
    },
    /// Another store, to which requests are passed on, with at most this many bytes of bodies in memory.
    Upstream {
        /// Store that gets the requests.
        to: Arc<Upstream>,
        /// Limit in bytes.
        limit: u64,
    },
}

/// A running endpoint.
pub struct Endpoint {
    /// Address for clients.
    pub address: Address,
    /// Store in memory; `None` if requests are passed on.
    memory: Option<Arc<MemoryService>>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<io::Result<()>>,
}

/// Returns an unguessable word.
fn word() -> String {
    (0..3).map(|_| format!("{:016x}", entropy())).collect()
}

impl Endpoint {
    /// Starts an endpoint at `listen`, whose requests `counter` counts.
    ///
    /// # Errors
    /// If the address or the name of the bucket cannot be used.
    pub fn start(listen: &str, backend: Backend, counter: Arc<Counter>) -> io::Result<Endpoint> {
        let listener = listen_on(listen)?;
        let credentials = Credentials::new(&format!("METER{}", &word()[..15].to_uppercase()), &word(), None);
        let (bucket, region, memory_limit) = match &backend {
            Backend::Memory { bucket, limit } => (bucket.clone(), "us-east-1".to_string(), *limit),
            Backend::Upstream { to, limit } => (to.bucket().to_string(), to.region().to_string(), *limit),
        };
        let address = Address {
            host: listener.local_addr()?.to_string(),
            bucket,
            region: region.clone(),
            credentials: credentials.clone(),
        };
        let shared = ServerState::new(Parts {
            settings: ServerSettings { region, memory_limit, ..ServerSettings::default() },
            accounts: Accounts::single(credentials),
            tls: None,
            timing_log: None,
            observers: vec![counter as Arc<dyn RequestObserver>],
        });
        let (stop, stopped) = watch::channel(false);
        let memory = match &backend {
            Backend::Memory { bucket, .. } => {
                let service = MemoryService::new(&shared.memory).with_bucket(bucket);
                Some(Arc::new(service.map_err(|e| io::Error::other(format!("{e:?}")))?))
            }
            Backend::Upstream { .. } => None,
        };
        let service = memory.clone();
        let thread =
            std::thread::Builder::new().name("endpoint".into()).spawn(move || match (backend, service) {
                (Backend::Upstream { to, .. }, _) => {
                    run_with(listener, &shared, &Arc::new(Forwarding(to)), &stopped)
                }
                (_, Some(service)) => serve_from(listener, &shared, service, None, &stopped),
                (_, None) => Ok(()),
            })?;
        Ok(Endpoint { address, memory, stop, thread })
    }

    /// Returns the number of objects and the sum of their sizes in bytes; `None` if requests are passed on.
    pub fn stored(&self) -> Option<(u64, u64)> {
        self.memory.as_ref().map(|memory| memory.stored())
    }

    /// Ends the endpoint after its open requests.
    ///
    /// # Errors
    /// If the endpoint failed.
    pub fn stop(self) -> io::Result<()> {
        let _ = self.stop.send(true);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
    }
}
