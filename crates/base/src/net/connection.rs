//! An HTTP/1.1 connection that belongs to one worker and records timestamps at the socket.
//!
//! hyper implements the protocol. This module connects, times the TCP and TLS handshakes separately, and records the
//! times of the first and last byte in each direction. It polls hyper's connection from the task that waits for the
//! response, so that an operation needs one wake-up and no background task.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::client_limits::{self, connect_timeout};
use super::socket::{SocketTimes, TimedSocket};
use super::stamps::{Socket, Stamped, Stamps};
use crate::clock::now_ns;

/// A request body: empty, one buffer, or buffers that an iterator produces.
pub struct Payload {
    next: Option<Bytes>,
    more: Option<Box<dyn Iterator<Item = Bytes>>>,
    remaining: u64,
}

impl Payload {
    /// Returns an empty body.
    pub fn empty() -> Payload {
        Payload { next: None, more: None, remaining: 0 }
    }

    /// Returns a body of one buffer.
    pub fn whole(data: Bytes) -> Payload {
        Payload { remaining: data.len() as u64, next: Some(data).filter(|d| !d.is_empty()), more: None }
    }

    /// Returns a body of `len` bytes that consists of `pieces`.
    pub fn pieces(len: u64, mut pieces: Box<dyn Iterator<Item = Bytes>>) -> Payload {
        Payload { next: pieces.next(), more: Some(pieces), remaining: len }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.next.take() else { return Poll::Ready(None) };
        self.remaining = self.remaining.saturating_sub(piece.len() as u64);
        self.next = self.more.as_mut().and_then(Iterator::next);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

/// The addresses of an endpoint and the server name that its certificate must match.
#[derive(Clone)]
pub struct ResolvedEndpoint {
    /// TLS configuration and server name; `None` for plain TCP.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Addresses of the endpoint. Connections are spread over them in turn.
    pub addresses: Arc<[SocketAddr]>,
}

/// Failure to open a connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The TCP connection failed or timed out.
    #[error("could not connect to {address}: {source}")]
    Tcp {
        /// Address of the endpoint.
        address: SocketAddr,
        /// Error from the operating system, or a timeout.
        source: io::Error,
    },
    /// The TLS handshake failed or timed out.
    #[error("TLS handshake with {address} failed: {source}")]
    Tls {
        /// Address of the endpoint.
        address: SocketAddr,
        /// Error from the handshake, or a timeout.
        source: io::Error,
    },
    /// hyper could not start HTTP on the connection.
    #[error("HTTP connection to {address} failed: {source}")]
    Http {
        /// Address of the endpoint.
        address: SocketAddr,
        /// Error from hyper.
        source: hyper::Error,
    },
}

/// A waker between hyper and the task that polls it.
///
/// Request, response and body pass through channels between hyper's connection and our side of it. Each channel
/// wakes the task although that same task is polling already. The gate turns a wake-up during a poll into another
/// pass of that poll. Otherwise the task would be rescheduled, about twice per operation.
struct Gate {
    inside: AtomicBool,
    again: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.inside.load(Ordering::Relaxed) {
            self.again.store(true, Ordering::Relaxed);
        } else {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

impl Gate {
    /// Calls `step` until it is ready, or until a call causes no wake-up.
    fn poll<T>(
        &self,
        waker: &Waker,
        cx: &Context<'_>,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        {
            let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
            if !task.will_wake(cx.waker()) {
                task.clone_from(cx.waker());
            }
        }
        let mut inner = Context::from_waker(waker);
        self.inside.store(true, Ordering::Relaxed);
        let result = loop {
            self.again.store(false, Ordering::Relaxed);
            let result = step(&mut inner);
            if result.is_ready() || !self.again.load(Ordering::Relaxed) {
                break result;
            }
        };
        self.inside.store(false, Ordering::Relaxed);
        result
    }
}

/// An open connection, which serves one request at a time.
pub struct HttpConnection {
    sender: http1::SendRequest<Payload>,
    /// hyper's side of the connection; `None` once it is closed, which makes pending requests fail.
    driver: Option<Driver>,
    vectored: bool,
    gate: Arc<Gate>,
    waker: Waker,
    stamps: Rc<Stamps>,
    times: Rc<SocketTimes>,
    /// Duration of the TCP handshake, in nanoseconds.
    pub connect_ns: u64,
    /// Duration of the TLS handshake, in nanoseconds; 0 without TLS.
    pub tls_ns: u64,
}

thread_local! {
    static HANDSHAKES: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of handshakes that are in progress on the calling thread.
pub fn handshakes() -> usize {
    HANDSHAKES.get()
}

/// Counts a handshake while it exists.
struct Handshake;

impl Handshake {
    fn begin() -> Handshake {
        HANDSHAKES.set(HANDSHAKES.get() + 1);
        Handshake
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        HANDSHAKES.set(HANDSHAKES.get() - 1);
    }
}

/// Size of hyper's read buffer, in bytes: large enough to read a small object with its headers in one call, and a large
/// body in few calls.
const READ_BUFFER: usize = 256 * 1024;

impl HttpConnection {
    /// Connects to address number `turn`, modulo the number of addresses. If `vectored` is true, bodies are written
    /// without a copy, which suits large bodies; else they are copied behind the headers and sent in one write, which
    /// suits small ones.
    ///
    /// # Errors
    /// If a handshake fails or times out; see [`ConnectError`].
    pub async fn open(
        target: &ResolvedEndpoint,
        turn: usize,
        vectored: bool,
    ) -> Result<HttpConnection, ConnectError> {
        let address = target.addresses[turn % target.addresses.len()];
        let _handshake = Handshake::begin();
        let begin = now_ns();
        let slow = |step: &str| io::Error::new(io::ErrorKind::TimedOut, format!("the {step} timed out"));
        let connecting = timeout(connect_timeout(), TcpStream::connect(address)).await;
        let tcp = connecting
            .unwrap_or_else(|_| Err(slow("TCP handshake")))
            .map_err(|source| ConnectError::Tcp { address, source })?;
        let connected = now_ns();
        let timed = tcp.set_nodelay(true).and_then(|()| TimedSocket::new(tcp.into_std()?, true));
        let tcp = timed.map_err(|source| ConnectError::Tcp { address, source })?;
        let times = tcp.times();
        let (socket, tls_ns) = if let Some((config, name)) = &target.tls {
            let handshake = TlsConnector::from(Arc::clone(config)).connect(name.clone(), tcp);
            let tls = timeout(connect_timeout(), handshake).await;
            let tls = tls
                .unwrap_or_else(|_| Err(slow("TLS handshake")))
                .map_err(|source| ConnectError::Tls { address, source })?;
            (Socket::Tls(Box::new(tls)), now_ns() - connected)
        } else {
            (Socket::Plain(tcp), 0)
        };
        let stamps = Rc::new(Stamps::default());
        let io = TokioIo::new(Stamped::new(socket, Rc::clone(&times), Rc::clone(&stamps)));
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(READ_BUFFER)
            .writev(vectored)
            .handshake(io)
            .await
            .map_err(|source| ConnectError::Http { address, source })?;
        let gate = Arc::new(Gate {
            inside: AtomicBool::new(false),
            again: AtomicBool::new(false),
            task: Mutex::new(Waker::noop().clone()),
        });
        let waker = Waker::from(Arc::clone(&gate));
        Ok(HttpConnection {
            sender,
            driver: Some(driver),
            vectored,
            gate,
            waker,
            stamps,
            times,
            connect_ns: connected - begin,
            tls_ns,
        })
    }

    /// Returns true if the connection can take another request, as far as the client knows.
    pub fn is_open(&self) -> bool {
        self.driver.is_some() && !self.sender.is_closed()
    }

    /// Returns true if the connection writes bodies without a copy.
    pub fn is_vectored(&self) -> bool {
        self.vectored
    }

    /// Returns the times at which bytes of the current request passed the socket.
    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// # Errors
    /// If the connection breaks, or the peer sends invalid HTTP.
    pub async fn send(&mut self, request: Request<Payload>) -> Result<Response<Incoming>, hyper::Error> {
        self.stamps.reset();
        self.times.first.set(true);
        let HttpConnection { sender, driver, gate, waker, .. } = self;
        if !sender.is_ready() {
            poll_fn(|cx| {
                gate.poll(waker, cx, |cx| {
                    drive(driver, cx);
                    sender.poll_ready(cx)
                })
            })
            .await?;
        }
        let mut answer = pin!(sender.send_request(request));
        poll_fn(|cx| {
            gate.poll(waker, cx, |cx| {
                // The first poll passes the request to the driver, which then writes it.
                if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                    return Poll::Ready(answer);
                }
                drive(driver, cx);
                answer.as_mut().poll(cx)
            })
        })
        .await
    }

    /// Returns the next piece of a response body, or `None` at its end.
    ///
    /// # Errors
    /// If the connection breaks before the end of the body.
    pub async fn next_piece(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, hyper::Error> {
        if body.is_end_stream() {
            return Ok(None);
        }
        let HttpConnection { driver, gate, waker, .. } = self;
        poll_fn(|cx| {
            gate.poll(waker, cx, |cx| {
                loop {
                    let mut frame = Pin::new(&mut *body).poll_frame(cx);
                    if frame.is_pending() {
                        drive(driver, cx);
                        frame = Pin::new(&mut *body).poll_frame(cx);
                    }
                    return match frame {
                        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                            Ok(data) => Poll::Ready(Ok(Some(data))),
                            Err(_trailers) => continue,
                        },
                        Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error)),
                        Poll::Ready(None) => Poll::Ready(Ok(None)),
                        Poll::Pending => Poll::Pending,
                    };
                }
            })
        })
        .await
    }
}

type Driver = http1::Connection<TokioIo<Stamped>, Payload>;

fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    // Ignore the driver's error: the request or the body reports the same one.
    if driver.as_mut().is_some_and(|d| Pin::new(d).poll(cx).is_ready()) {
        *driver = None;
    }
}

/// Resolves a host name to its addresses, in the resolver's order and without duplicates.
///
/// # Errors
/// If the name has no address, or the resolver does not respond before the global deadline.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    use std::net::ToSocketAddrs;
    // Names under .localhost are loopback names (RFC 6761, 6.3), but not every resolver knows them.
    let host = if host.ends_with(".localhost") { "localhost" } else { host };
    // The system's resolver has no deadline. If it is late, its thread is abandoned.
    let (sender, receiver) = std::sync::mpsc::channel();
    let name = host.to_string();
    std::thread::spawn(move || {
        sender.send((name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>))
    });
    let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "the resolver did not respond in time"));
    let mut addresses = Vec::new();
    for address in receiver.recv_timeout(client_limits::timeout()).unwrap_or_else(late)? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(io::Error::other("the host name has no address")) } else { Ok(addresses) }
}
