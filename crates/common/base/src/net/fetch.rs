//! One HTTP request on a new connection, with limits on time and size, for credential chains and collectors of metrics.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;

use super::client_limits::{self, MAX_CREDENTIAL_BYTES};
use super::connection::{ConnectError, HttpConnection, ResolvedEndpoint, resolve};
use super::http1::outgoing::Payload;

/// Maximum duration of one request.
const MAX_FETCH: Duration = Duration::from_secs(10);

/// Sends one request on a new connection and returns the response, for credential chains, which are asynchronous.
/// Blocks the calling thread, so it must not run during measured operations.
pub async fn fetch(request: http::Request<Bytes>) -> Result<http::Response<Bytes>, String> {
    fetch_blocking(request)
}

/// Sends one request on a new connection and returns the response.
pub fn fetch_blocking(request: http::Request<Bytes>) -> Result<http::Response<Bytes>, String> {
    fetch_within(Duration::from_secs(1), request)
}

/// Sends one request on a new connection that the server must accept within a time, and returns the response. The
/// system repeats a lost request for a connection after 1, 3 and 7 s.
///
/// # Errors
/// A message if there was no answer.
pub fn fetch_within(
    accepted: Duration,
    request: http::Request<Bytes>,
) -> Result<http::Response<Bytes>, String> {
    let work = move || -> Result<http::Response<Bytes>, String> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let exchange = async {
            let uri = request.uri().clone();
            let host = uri.host().ok_or("the URL has no host")?.to_string();
            let tls = uri.scheme_str() == Some("https");
            let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
            let addresses: Arc<[SocketAddr]> = resolve(&host, port).map_err(|e| e.to_string())?.into();
            let tls = if tls {
                let name = ServerName::try_from(host.clone()).map_err(|e| e.to_string())?;
                Some((super::tls::client_config(None).map_err(|e| e.to_string())?, name))
            } else {
                None
            };
            let target = ResolvedEndpoint { tls, addresses };
            // A handshake also ends after the global deadline, which may be shorter.
            let connecting = async {
                loop {
                    match HttpConnection::open(&target, 0, true).await {
                        Err(ConnectError::Tcp { source, .. }) if source.kind() == ErrorKind::TimedOut => {}
                        result => return result,
                    }
                }
            };
            let connected = timeout(accepted, connecting).await;
            let mut connection = connected
                .map_err(|_| format!("{host} did not accept a connection within {} s", accepted.as_secs()))?
                .map_err(|e| e.to_string())?;
            let (mut parts, body) = request.into_parts();
            if !parts.headers.contains_key("host") {
                let host = uri.authority().map(|a| a.as_str()).unwrap_or_default();
                parts.headers.insert("host", host.parse().map_err(|_| "the URL has an invalid host")?);
            }
            parts.uri = uri
                .path_and_query()
                .map_or("/", |p| p.as_str())
                .parse()
                .map_err(|_| "the URL has an invalid path")?;
            let answer = connection.send(Request::from_parts(parts, Payload::whole(body)).into()).await;
            let head = answer.map_err(|e| e.to_string())?.parts();
            let mut collected = Vec::new();
            while let Some(piece) = connection.next_piece().await.map_err(|e| e.to_string())? {
                if collected.len() + piece.len() > MAX_CREDENTIAL_BYTES {
                    return Err(format!("the response of {host} exceeds {MAX_CREDENTIAL_BYTES} bytes"));
                }
                collected.extend_from_slice(piece);
            }
            Ok::<_, String>(http::Response::from_parts(head, Bytes::from(collected)))
        };
        let limit = MAX_FETCH.min(client_limits::timeout());
        runtime
            .block_on(async { timeout(limit, exchange).await })
            .map_err(|_| format!("no response within {} s", limit.as_secs_f64()))?
    };
    std::thread::spawn(work).join().unwrap_or_else(|_| Err("the request thread panicked".into()))
}
