//! A fixed amount of work, whose instructions and system calls `benches/counts.py` counts with callgrind: requests of
//! the S3 store, one after the other on one connection, against the server in memory or the server at an address.
//!
//!     counts get|put REQUESTS SIZE [ADDRESS]
//!
//! The client runs on the main thread and the server in memory on other threads, so that callgrind counts them
//! separately. The counts of one request are the difference between a run of many requests and a run of few.

#![allow(clippy::print_stdout, reason = "prints its results")]

use std::net::TcpListener;
use std::sync::Arc;

use bytes::Bytes;
use plimsoll_engine::store::http::Route;
use plimsoll_engine::store::s3::S3Store;
use plimsoll_engine::store::{Body, Connection, Ignore, Request, Store};
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_s3::url::StoreUrl;
use plimsoll_server::accounts::Accounts;
use plimsoll_server::{Parts, ServerSettings, ServerState};

const KEY: &str = "counts/0000000042";

type Failed = Box<dyn std::error::Error>;

/// Starts the server in memory, and returns its address.
fn serve(credentials: Credentials) -> Result<String, Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let shared = ServerState::new(Parts {
        settings: ServerSettings { threads: 1, ..ServerSettings::default() },
        accounts: Accounts::single(credentials),
        tls: None,
        timing_log: None,
        observers: Vec::new(),
    });
    std::thread::spawn(move || {
        // The server runs until the process ends.
        let (_sender, shutdown) = tokio::sync::watch::channel(false);
        plimsoll_emulator::memory::serve::serve(
            listener,
            &shared,
            None,
            None,
            std::time::Duration::from_secs(86_400),
            &shutdown,
        )
    });
    Ok(address)
}

async fn ask(connection: &mut dyn Connection, request: Request<'_>) -> Result<u64, Failed> {
    Ok(connection.execute(request, &mut Ignore).await?.bytes)
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().collect();
    let ([_, kind, requests, size] | [_, kind, requests, size, _]) = arguments.as_slice() else {
        return Err("usage: counts get|put REQUESTS SIZE [ADDRESS]".into());
    };
    let (requests, size): (u64, usize) = (requests.parse()?, size.parse()?);
    let credentials = Credentials::new("counts", "counts-secret", None);
    let address =
        arguments.get(4).map_or_else(|| serve(credentials.clone()), |address| Ok(address.clone()))?;
    let text = format!("s3://counts?endpoint=http://{address}&provider=embedded");
    let StoreUrl::S3(url) = plimsoll_s3::url::parse(&text, &|_| None)? else {
        return Err("not a URL of S3".into());
    };
    let source = CredentialSource::fixed(credentials);
    let store: Arc<dyn Store> = Arc::new(S3Store::open(*url, &text, Some(source), Route::default())?);
    let content = Bytes::from(vec![b'x'; size]);
    let body = || Body::Whole(content.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bytes = runtime.block_on(async {
        let mut connection = store.connection(0);
        // It exists after the first run against a server.
        let _ = ask(connection.as_mut(), Request::CreateBucket).await;
        ask(connection.as_mut(), Request::Put { key: KEY, body: body() }).await?;
        let mut bytes = 0;
        for _ in 0..requests {
            bytes += match kind.as_str() {
                "get" => ask(connection.as_mut(), Request::Get { key: KEY, range: None }).await?,
                "put" => ask(connection.as_mut(), Request::Put { key: KEY, body: body() }).await?,
                other => return Err(format!("'{other}' is neither get nor put").into()),
            };
        }
        Ok::<u64, Failed>(bytes)
    })?;
    if bytes != requests * size as u64 {
        return Err(format!("{bytes} bytes instead of {requests} times {size}").into());
    }
    println!("{requests} requests, {bytes} bytes");
    Ok(())
}
