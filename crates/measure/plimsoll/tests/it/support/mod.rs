//! Shared helpers: the embedded server on a free port, stores that connect to it, and the binary.
#![allow(dead_code)]

pub mod ask;
pub mod hostile;
pub mod made;
pub mod raw;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use plimsoll_base::net::tls::server_config;
use plimsoll_emulator::inject::Spec;
use plimsoll_emulator::memory::serve::serve;
use plimsoll_engine::store::http::Route;
use plimsoll_engine::store::ownership::{CreatedBucket, KeySpace};
use plimsoll_engine::store::s3::S3Store;
use plimsoll_engine::store::{Ignore, Request, Store};
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_s3::url::{StoreUrl, parse};
use plimsoll_server::accounts::Accounts;
use plimsoll_server::{Parts, ServerSettings, ServerState};
use tokio::sync::watch;

pub const ACCESS: &str = "test-access";
pub const SECRET: &str = "test-secret-never-to-be-written";

/// Length of a day of lifecycle rules.
const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

/// Returns the path of a file or folder of the repository.
pub fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(name)
}

pub fn data(name: &str) -> PathBuf {
    repository("tests/data").join(name)
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Returns a command that runs the binary with the test credentials and no others.
pub fn plimsoll(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments);
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("AWS_") || n.starts_with("PLIMSOLL_")) {
        command.env_remove(name);
    }
    command
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_ACCESS_KEY_ID", ACCESS)
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    command
}

/// Sends a signal to a process. Returns false if it has ended. The shell's own `kill` needs no program.
pub fn kill(signal: &str, pid: u32) -> bool {
    Command::new("sh").args(["-c", &format!("kill {signal} {pid}")]).status().unwrap().success()
}

/// Creates the bucket of a store whose server injects faults. Repeats the request until the bucket exists.
pub fn create_through_faults(store: &dyn Store) {
    block_on(async {
        let mut connection = store.connection(0);
        while connection
            .execute(Request::CreateBucket, &mut Ignore)
            .await
            .is_err_and(|f| !f.is_code("BucketAlreadyOwnedByYou"))
        {}
    });
}

/// Returns the key space of a whole bucket that the tests created.
pub fn everything() -> KeySpace {
    let marker = CreatedBucket::content("test");
    KeySpace::of_bucket(&CreatedBucket::proven_by(marker.as_bytes()).unwrap())
}

/// Creates an empty directory for a test. `name` must be unique among the tests.
pub fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub struct Server {
    pub address: SocketAddr,
    pub tls: bool,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<std::io::Result<()>>>,
}

impl Server {
    pub fn start(inject: &str, tls: bool) -> Server {
        Server::start_on("127.0.0.1:0", inject, tls)
    }

    pub fn start_on(address: &str, inject: &str, tls: bool) -> Server {
        Server::start_as(address, inject, tls, ServerSettings::default())
    }

    pub fn start_as(address: &str, inject: &str, tls: bool, settings: ServerSettings) -> Server {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, shutdown) = watch::channel(false);
        let config = tls.then(|| server_config(&data("tls/server.pem"), &data("tls/server.key")).unwrap());
        let parts = Parts {
            settings: ServerSettings { threads: 1, ..settings },
            accounts: Accounts::single(Credentials::new(ACCESS, SECRET, None)),
            tls: config,
            timing_log: None,
            observers: Vec::new(),
        };
        let shared = ServerState::new(parts);
        let faults = (!inject.is_empty()).then(|| Spec::parse(inject).unwrap());
        let thread = std::thread::spawn(move || serve(listener, &shared, faults, None, DAY, &shutdown));
        Server { address, tls, stop, thread: Some(thread) }
    }

    /// Returns the URL of the server. The name `localhost` has two addresses on many systems, and stores use both.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.address.port())
    }

    pub fn store_with(&self, parameters: &str, credentials: Credentials) -> Arc<dyn Store> {
        self.store_of("bucket", parameters, credentials)
    }

    pub fn store_of(&self, bucket: &str, parameters: &str, credentials: Credentials) -> Arc<dyn Store> {
        // Only a name can follow the bucket in the name of a host.
        let host = if parameters.contains("style=virtual") { "localhost" } else { "127.0.0.1" };
        let endpoint = self.endpoint().replace("127.0.0.1", host);
        let text = format!("s3://{bucket}/some/prefix?endpoint={endpoint}{parameters}");
        let Ok(StoreUrl::S3(url)) = parse(&text, &|_| None) else { panic!("{text}") };
        let sign = url.sign;
        let source = sign.then(|| CredentialSource::fixed(credentials));
        let ca = data("tls/ca.pem");
        Arc::new(S3Store::open(*url, &text, source, Route { ca_bundle: Some(&ca), relay: None }).unwrap())
    }

    pub fn store(&self, parameters: &str) -> Arc<dyn Store> {
        self.store_with(parameters, Credentials::new(ACCESS, SECRET, None))
    }

    /// Creates the bucket and returns a store for it.
    pub fn ready(&self, parameters: &str) -> Arc<dyn Store> {
        let store = self.store(parameters);
        block_on(async { store.connection(0).execute(Request::CreateBucket, &mut Ignore).await.map(|_| ()) })
            .unwrap();
        store
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server thread panicked").expect("the server failed");
        }
    }
}
