//! HTTP transport of the stores. Each connection slot reuses one HTTP connection. If that connection turns out
//! to be closed before any byte of the response arrives, the request is sent once more on a new connection (law
//! of measurement 8).

pub mod cache_status;
pub mod reading;
pub mod relay;
pub mod tokens;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::ServerName;

use super::{Body, ErrorClass, Failure, Ignore, Timings};
use plimsoll_base::clock::now_ns;
use plimsoll_base::net::connection::{ConnectError, HttpConnection, ResolvedEndpoint, resolve};
use plimsoll_base::net::http1::HttpError;
use plimsoll_base::net::http1::head::Head;
use plimsoll_base::net::http1::outgoing::{Outgoing, Payload};
use plimsoll_base::net::tls::{TlsError, client_config};
use plimsoll_recorder::store_facts::RelayFacts;
use reading::{Reading, SHORT_BODY, broken};
use relay::{Relay, Relayed};

/// A request that is ready to be sent.
pub type Prepared = Outgoing;

/// The reason why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The endpoint's host name does not resolve.
    #[error("endpoint host '{host}' does not resolve: {reason}; check endpoint= and region= of the store")]
    Resolve {
        /// Host name of the endpoint.
        host: String,
        /// Error message of the resolver.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The host is not a valid name for a certificate.
    #[error("'{0}' is not a valid TLS server name; check the host of the store")]
    ServerName(String),
    /// The URL or the token of the relay is invalid.
    #[error("--relay: {0}")]
    Relay(String),
}

/// Route of a store's requests.
#[derive(Clone, Copy, Default)]
pub struct Route<'a> {
    /// PEM file of certificate authorities to trust; `None` for those of the system.
    pub ca_bundle: Option<&'a Path>,
    /// Relay that sends the requests; `None` to send them from this process.
    pub relay: Option<&'a Arc<Relay>>,
}

/// A place to which requests are sent: the store, or a relay that forwards them.
#[derive(Clone)]
pub struct Destination {
    /// Addresses and TLS settings.
    pub target: ResolvedEndpoint,
    /// Relay at these addresses, and true if the store itself uses TLS; `None` if they are those of the store.
    relay: Option<(Arc<Relay>, bool)>,
}

impl Destination {
    /// Returns the socket addresses as text.
    pub fn addresses(&self) -> Vec<String> {
        self.target.addresses.iter().map(ToString::to_string).collect()
    }

    /// Returns the properties of the relay's responses; `None` without a relay.
    pub fn seen(&self) -> Option<RelayFacts> {
        self.relay.as_ref().map(|(relay, _)| relay.seen())
    }
}

/// Resolves a host and prepares TLS if `tls` is true. With a relay, only the relay resolves the host.
///
/// # Errors
/// Returns an [`OpenError`] if the host does not resolve or TLS cannot be set up.
pub fn target_of(host: &str, port: u16, tls: bool, route: Route<'_>) -> Result<Destination, OpenError> {
    if let Some(relay) = route.relay {
        return Ok(Destination { target: relay.target().clone(), relay: Some((Arc::clone(relay), tls)) });
    }
    let addresses: Arc<[SocketAddr]> = resolve(host, port)
        .map_err(|e| OpenError::Resolve { host: host.to_string(), reason: e.to_string() })?
        .into();
    let tls = if tls {
        let name =
            ServerName::try_from(host.to_string()).map_err(|_| OpenError::ServerName(host.to_string()))?;
        Some((client_config(route.ca_bundle)?, name))
    } else {
        None
    };
    Ok(Destination { target: ResolvedEndpoint { tls, addresses }, relay: None })
}

/// Converts a body to the payload of an HTTP request.
pub fn payload_of(body: Option<Body>) -> Payload {
    match body {
        None => Payload::empty(),
        Some(Body::Whole(data)) => Payload::whole(data),
        Some(body) => Payload::pieces(body.len(), body.pieces()),
    }
}

/// Maximum size in bytes of a body that is copied after the request head and sent in one write. Larger bodies
/// are sent without a copy.
const LARGE_BODY: u64 = 32 * 1024;

/// Beginning of the messages about a relay that cannot be reached.
pub const RELAY: &str = "the relay: ";

/// Options for sending a request.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// Size of the body in bytes.
    pub bytes: u64,
    /// True if the request may be sent again when the reused connection turns out to be closed.
    pub idempotent: bool,
}

/// The HTTP transport of one connection slot. It reuses a connection if it can.
pub struct HttpTransport {
    destination: Destination,
    /// Number of the next connection, which selects its address.
    turn: usize,
    /// Number of the address of the last connection.
    address: usize,
    connection: Option<Box<HttpConnection>>,
}

/// A response whose body has not been read yet.
pub struct Answer {
    /// Connection that receives the response.
    pub connection: Box<HttpConnection>,
    /// Status and headers of the response.
    pub head: Head,
    /// Durations that the relay measured; `None` without a relay.
    pub relayed: Option<Relayed>,
}

impl Answer {
    fn of(connection: Box<HttpConnection>, head: Head) -> Answer {
        Answer { connection, head, relayed: None }
    }
}

/// The reason why there is no response.
pub enum Unsent {
    /// The reused connection was closed before any byte of the response; the request may be sent again.
    ConnectionClosed,
    /// The request failed.
    Failed(Failure),
}

impl HttpTransport {
    /// Creates the transport to `destination`. Its first connection uses address number `turn`, modulo the number of
    /// addresses.
    pub fn new(destination: Destination, turn: usize) -> HttpTransport {
        HttpTransport { destination, turn, address: 0, connection: None }
    }

    /// Returns the number of the address of the last connection; `None` if there is only one, or if a relay connects.
    pub fn address(&self) -> Option<usize> {
        let has_several = self.destination.relay.is_none() && self.destination.target.addresses.len() > 1;
        has_several.then_some(self.address)
    }

    async fn connect(
        &mut self,
        vectored: bool,
        timings: &mut Timings,
    ) -> Result<Box<HttpConnection>, Failure> {
        let turn = self.turn;
        self.address = turn % self.destination.target.addresses.len();
        // The next connection of this slot uses the endpoint's next address.
        self.turn += 1;
        match HttpConnection::open(&self.destination.target, turn, vectored).await {
            Ok(connection) => {
                timings.connections += 1;
                timings.connect_ns += connection.connect_ns;
                timings.tls_ns += connection.tls_ns;
                Ok(Box::new(connection))
            }
            Err(error) => {
                timings.end_ns = now_ns();
                let class = match &error {
                    ConnectError::Tcp { .. } => ErrorClass::Connect,
                    ConnectError::Tls { .. } => ErrorClass::Tls,
                };
                let place = if self.destination.relay.is_some() { RELAY } else { "" };
                Err(Failure::new(class, format!("{place}{error}"), *timings))
            }
        }
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// # Errors
    /// Returns [`Unsent::ConnectionClosed`] if the reused connection turned out to be closed and the request may be
    /// prepared again for [`HttpTransport::send_on_new_connection`]; otherwise the failure.
    pub async fn send(
        &mut self,
        request: Prepared,
        sending: Sending,
        timings: &mut Timings,
    ) -> Result<Answer, Unsent> {
        let vectored = sending.bytes > LARGE_BODY;
        if vectored && self.connection.as_ref().is_some_and(|c| !c.is_vectored()) {
            // A connection opened for small bodies would copy every large body.
            self.connection = None;
        }
        let Some(mut connection) = self.connection.take().filter(|c| c.is_open()) else {
            return self.send_on_new_connection(request, sending, timings).await.map_err(Unsent::Failed);
        };
        let sent = match self.wrap(request) {
            Ok(request) => connection.send(request).await,
            Err(error) => return Err(Unsent::Failed(broken(&error, timings))),
        };
        match sent {
            Ok(head) if self.destination.relay.is_none() => Ok(Answer::of(connection, head)),
            Ok(head) => self.unwrap(Answer::of(connection, head), timings).await.map_err(Unsent::Failed),
            Err(_) if connection.stamps().first_read.get() == 0 && sending.idempotent => {
                timings.reconnects += 1;
                Err(Unsent::ConnectionClosed)
            }
            Err(error) => Err(Unsent::Failed(broken(&error, timings))),
        }
    }

    /// Sends a request on a new connection and waits for the head of the response.
    ///
    /// # Errors
    /// Fails if the connection cannot be established or breaks.
    pub async fn send_on_new_connection(
        &mut self,
        request: Prepared,
        sending: Sending,
        timings: &mut Timings,
    ) -> Result<Answer, Failure> {
        let mut connection = self.connect(sending.bytes > LARGE_BODY, timings).await?;
        let request = self.wrap(request).map_err(|error| broken(&error, timings))?;
        match connection.send(request).await {
            Ok(answer) => self.unwrap(Answer::of(connection, answer), timings).await,
            Err(error) => Err(broken(&error, timings)),
        }
    }

    fn wrap(&self, request: Prepared) -> Result<Prepared, HttpError> {
        let Some((relay, tls)) = &self.destination.relay else { return Ok(request) };
        let request = request.into_request().ok_or(HttpError::Invalid("the request for the relay"))?;
        Ok(relay.wrap(request, *tls).into())
    }

    /// Restores the store's response from that of a relay.
    async fn unwrap(&self, mut answer: Answer, timings: &mut Timings) -> Result<Answer, Failure> {
        let Some((relay, _)) = &self.destination.relay else { return Ok(answer) };
        answer.relayed = relay.unwrap(&mut answer.head);
        if answer.relayed.is_some() {
            return Ok(answer);
        }
        let status = answer.head.status();
        let mut reading = Reading { answer: &mut answer, timings, observer: &mut Ignore };
        let text = reading.excerpt(SHORT_BODY).await?;
        let error = serde_json::from_slice::<serde_json::Value>(&text).ok();
        let message = error.as_ref().and_then(|error| error["error"].as_str()).unwrap_or("no message");
        Err(reading.answered(format!("{status} Relay"), format!("the relay failed: {message}")))
    }

    /// Keeps the connection of a response for the next request, if it is reusable: the response was read to its
    /// end, and the server does not close the connection.
    pub fn keep(&mut self, answer: Answer) {
        let Answer { mut connection, head, .. } = answer;
        if connection.is_open() {
            connection.reuse(head);
            self.connection = Some(connection);
        }
    }
}
