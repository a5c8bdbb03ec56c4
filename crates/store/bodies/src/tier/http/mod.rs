//! The HTTP client of the backends: the connections of the instrument, kept open between requests.

mod body;
mod pool;
mod signing;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method};
use hyper::body::Body;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use plimsoll_base::net::connection::{ConnectError, HttpConnection, ResolvedEndpoint};
use plimsoll_base::net::http1::HttpError as Broken;
use plimsoll_base::net::http1::outgoing::Payload;
use plimsoll_base::net::tls::client_config;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::ServerName;

use self::body::ReceivedBody;
use self::pool::{Host, Link, Pool};
pub use self::signing::Signing;

/// Longest time to connect, with the lookup of the name and the TLS handshake.
const CONNECT: Duration = Duration::from_secs(3);

/// Value of the header `User-Agent`.
const AGENT: &str = concat!("plimsoll-gateway/", env!("CARGO_PKG_VERSION"));

/// Creates clients whose requests take at most a given time, with their responses.
#[derive(Debug)]
pub struct Connector {
    /// Longest time of a request.
    pub timeout: Duration,
    /// Signs requests; `None` if the client of the backend does, or nobody.
    pub signing: Option<Arc<Signing>>,
}

impl Connector {
    /// Creates a client.
    pub fn client(&self) -> HttpClient {
        HttpClient::new(Client {
            timeout: self.timeout,
            signing: self.signing.clone(),
            pool: Arc::default(),
            tls: OnceLock::new(),
        })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.client())
    }
}

/// A client with its idle connections.
#[derive(Debug)]
struct Client {
    timeout: Duration,
    signing: Option<Arc<Signing>>,
    pool: Arc<Pool>,
    /// TLS configuration, made for the first request that needs it.
    tls: OnceLock<Arc<ClientConfig>>,
}

fn failure(kind: HttpErrorKind, text: impl Into<String>) -> HttpError {
    HttpError::new(kind, io::Error::other(text.into()))
}

fn late(what: &str) -> HttpError {
    HttpError::new(
        HttpErrorKind::Timeout,
        io::Error::new(io::ErrorKind::TimedOut, format!("{what} timed out")),
    )
}

/// Returns the failure of an exchange, whose kind says whether the request may be repeated.
fn broken(error: Broken) -> HttpError {
    let kind = match &error {
        Broken::Closed => HttpErrorKind::Request,
        Broken::Io(source) => match source.kind() {
            io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
            io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => HttpErrorKind::Interrupted,
            _ => HttpErrorKind::Unknown,
        },
        Broken::Invalid(_) | Broken::Unexpected => HttpErrorKind::Decode,
    };
    HttpError::new(kind, error)
}

/// Returns the pieces of a body, which is complete.
fn pieces(mut body: HttpRequestBody) -> Vec<Bytes> {
    let mut context = Context::from_waker(Waker::noop());
    let mut pieces = Vec::new();
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
        pieces.extend(frame.into_data());
    }
    pieces
}

/// Adds the headers that every request has.
fn complete(parts: &mut Parts, host: &Host, bytes: u64) -> Result<(), HttpError> {
    if !parts.headers.contains_key(HOST) {
        let value = HeaderValue::from_str(&host.authority);
        parts.headers.insert(HOST, value.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?);
    }
    parts.headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    if bytes > 0 || matches!(parts.method, Method::PUT | Method::POST) {
        parts.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(bytes));
    }
    Ok(())
}

impl Client {
    fn tls(&self) -> Result<Arc<ClientConfig>, HttpError> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = client_config(None).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        // Unlike the instrument, which measures full handshakes.
        let mut config = (*config).clone();
        config.resumption = Resumption::default();
        Ok(Arc::clone(self.tls.get_or_init(|| Arc::new(config))))
    }

    /// Opens a connection to one of the addresses of a host.
    async fn connect(&self, host: &Host) -> Result<HttpConnection, HttpError> {
        let connecting = |error: ConnectError| HttpError::new(HttpErrorKind::Connect, error);
        let tls = if host.is_tls {
            let name = ServerName::try_from(host.name.clone());
            let name = name.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            Some((self.tls()?, name))
        } else {
            None
        };
        let found = tokio::net::lookup_host((host.name.as_str(), host.port)).await;
        let addresses: Vec<_> =
            found.map_err(|error| HttpError::new(HttpErrorKind::Connect, error))?.collect();
        let target = ResolvedEndpoint { tls, addresses: addresses.into() };
        let (first, count) = (self.pool.turn(), target.addresses.len());
        let mut last = failure(HttpErrorKind::Connect, "the host name has no address");
        for index in 0..count {
            // An address that does not answer leaves time for others.
            let opening =
                timeout(CONNECT / count.min(3) as u32, HttpConnection::open(&target, first + index, true));
            match opening.await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => last = connecting(error),
                Err(_) => last = late("the connection"),
            }
        }
        Err(last)
    }

    /// Returns an open connection to a host.
    async fn link(&self, host: &Host, until: Instant) -> Result<Link, HttpError> {
        while let Some(mut idle) = self.pool.take(host) {
            if idle.connection.is_alive().await {
                idle.timer.as_mut().reset(until);
                return Ok(idle);
            }
        }
        let connected = timeout(CONNECT, self.connect(host)).await;
        let connection = connected.unwrap_or_else(|_| Err(late("the connection")))?;
        Ok(Link { connection, timer: Box::pin(sleep_until(until)) })
    }
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let until = Instant::now() + self.timeout;
        let host =
            Host::of(request.uri()).ok_or_else(|| failure(HttpErrorKind::Unknown, "the URL has no host"))?;
        let (mut parts, body) = request.into_parts();
        let pieces = pieces(body);
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        complete(&mut parts, &host, bytes)?;
        if let Some(signing) = &self.signing {
            signing.sign(&mut parts, &pieces).await?;
        }
        let payload = Payload::pieces(bytes, Box::new(pieces.into_iter()));
        let request = http::Request::from_parts(parts, payload).into();
        let Link { mut connection, mut timer } = self.link(&host, until).await?;
        let head = tokio::select! {
            biased;
            head = connection.send(request) => head.map_err(broken)?,
            () = timer.as_mut() => return Err(late("the request")),
        };
        let parts = head.parts();
        connection.reuse(head);
        let body = ReceivedBody::new(Link { connection, timer }, host, Arc::clone(&self.pool));
        Ok(http::Response::from_parts(parts, HttpResponseBody::new(body)))
    }
}
