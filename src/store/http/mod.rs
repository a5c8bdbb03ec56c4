//! What the connections of all HTTP stores share: one connection each, kept from request to request, replaced once under a request that it
//! swallowed (law of measurement, 8).

pub mod reading;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use http::response::Parts;
use hyper::body::Incoming;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{Body, ErrorClass, Failure, Timings};
use crate::clock::now_ns;
use crate::net::connection::{ConnectError, HttpConnection, Payload, Target, resolve};
use crate::net::tls::{TlsError, client_config};
use reading::broken;

/// A request made ready.
pub type Prepared = hyper::Request<Payload>;

/// Why a store could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The endpoint's name does not resolve.
    #[error("endpoint host '{host}' does not resolve ({reason}); check endpoint= and region= of the store")]
    Resolve {
        /// Host name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The host cannot be in a certificate.
    #[error("'{0}' is not a name that a certificate can bear")]
    ServerName(String),
}

/// Addresses of a host, and TLS where it is spoken.
///
/// # Errors
/// See [`OpenError`].
pub fn target_of(host: &str, port: u16, tls: bool, ca_bundle: Option<&Path>) -> Result<Target, OpenError> {
    let addresses: Arc<[SocketAddr]> = resolve(host, port)
        .map_err(|e| OpenError::Resolve { host: host.to_string(), reason: e.to_string() })?
        .into();
    let tls = if tls {
        let name =
            ServerName::try_from(host.to_string()).map_err(|_| OpenError::ServerName(host.to_string()))?;
        Some((client_config(ca_bundle)?, name))
    } else {
        None
    };
    Ok(Target { tls, addresses })
}

/// A body as the connection sends it.
pub fn payload_of(body: Option<Body>) -> Payload {
    match body {
        None => Payload::empty(),
        Some(Body::Whole(data)) => Payload::whole(data),
        Some(body) => Payload::pieces(body.len(), body.pieces()),
    }
}

/// Bodies beyond this are not worth copying behind their head.
const LARGE_BODY: u64 = 32 * 1024;

/// How a request is to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// Bytes of its body.
    pub bytes: u64,
    /// Whether it may be sent again when a kept connection turns out to be closed.
    pub idempotent: bool,
}

/// One connection's connection.
pub struct Wire {
    target: Target,
    turn: usize,
    connection: Option<Box<HttpConnection>>,
}

/// An answer whose body is still to be read.
pub struct Answer {
    /// Where it comes from.
    pub connection: Box<HttpConnection>,
    /// Its head.
    pub head: Parts,
    /// Its body.
    pub body: Incoming,
}

impl Answer {
    fn of(connection: Box<HttpConnection>, answer: hyper::Response<Incoming>) -> Answer {
        let (head, body) = answer.into_parts();
        Answer { connection, head, body }
    }
}

/// Why there is no answer.
pub enum Unsent {
    /// The kept connection was closed before it took the request.
    Swallowed,
    /// It failed.
    Failed(Failure),
}

impl Wire {
    /// A wire to `target`; its first connection goes to address number `turn`.
    pub fn new(target: Target, turn: usize) -> Wire {
        Wire { target, turn, connection: None }
    }

    async fn connect(
        &mut self,
        vectored: bool,
        timings: &mut Timings,
    ) -> Result<Box<HttpConnection>, Failure> {
        let opened = HttpConnection::open(&self.target, self.turn, vectored).await;
        // The next connection of this connection tries the endpoint's next address.
        self.turn += 1;
        match opened {
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
                    ConnectError::Http { .. } => ErrorClass::Reset,
                };
                Err(Failure::new(class, error.to_string(), *timings))
            }
        }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// [`Unsent::Swallowed`] when the kept connection turned out to be closed and the request may be made anew for [`Wire::send_anew`];
    /// else the failure.
    pub async fn send(
        &mut self,
        request: Prepared,
        sending: Sending,
        timings: &mut Timings,
    ) -> Result<Answer, Unsent> {
        let vectored = sending.bytes > LARGE_BODY;
        if vectored && self.connection.as_ref().is_some_and(|c| !c.is_vectored()) {
            // A connection made for small bodies would copy every large one.
            self.connection = None;
        }
        let Some(mut connection) = self.connection.take().filter(|c| c.is_open()) else {
            return self.send_anew(request, sending, timings).await.map_err(Unsent::Failed);
        };
        match connection.send(request).await {
            Ok(answer) => Ok(Answer::of(connection, answer)),
            Err(_) if connection.stamps().first_read.get() == 0 && sending.idempotent => {
                timings.reconnects += 1;
                Err(Unsent::Swallowed)
            }
            Err(error) => Err(Unsent::Failed(broken(&error, timings))),
        }
    }

    /// Sends a request on a new connection.
    ///
    /// # Errors
    /// When none comes about, or it breaks.
    pub async fn send_anew(
        &mut self,
        request: Prepared,
        sending: Sending,
        timings: &mut Timings,
    ) -> Result<Answer, Failure> {
        let mut connection = self.connect(sending.bytes > LARGE_BODY, timings).await?;
        match connection.send(request).await {
            Ok(answer) => Ok(Answer::of(connection, answer)),
            Err(error) => Err(broken(&error, timings)),
        }
    }

    /// Keeps the connection of an answer for the next request, where it can be used again: it was read to its end (or `whole` says
    /// that it was), and the server does not close it.
    pub fn keep(&mut self, answer: Answer, whole: bool) {
        let closing = answer.head.headers.get(hyper::header::CONNECTION).is_some_and(|v| v == "close");
        if !closing && (whole || hyper::body::Body::is_end_stream(&answer.body)) {
            self.connection = Some(answer.connection);
        }
    }
}
