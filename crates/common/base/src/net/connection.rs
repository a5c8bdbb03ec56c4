//! An HTTP/1.1 connection that belongs to one worker and records timestamps at the socket.
//!
//! This module connects, times the TCP and TLS handshakes separately, moves bytes between the socket and
//! [`super::http1`], and records the times of the first and last byte in each direction. The task that waits for a
//! response polls the socket itself, so that an operation needs one wake-up and no background task.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::client_limits::{self, connect_timeout};
use super::http1::HttpError;
use super::http1::framing::Step;
use super::http1::head::Head;
use super::http1::outgoing::{Outgoing, Payload};
use super::http1::receiver::Receiver;
use super::socket::{SocketTimes, TimedSocket};
use super::stamps::{Socket, Stamped, Stamps};
use crate::clock::now_ns;

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
}

/// A request that is being written.
struct Sending {
    /// Head of the request, and the body if it is copied behind the head.
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that are written.
    written: usize,
    /// Piece of the body that is written after the buffer.
    piece: Bytes,
    /// Rest of the body.
    payload: Payload,
}

/// An open connection, which serves one request at a time.
pub struct HttpConnection {
    socket: Stamped,
    stamps: Arc<Stamps>,
    times: Arc<SocketTimes>,
    vectored: bool,
    sending: Option<Sending>,
    receiver: Receiver,
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
        let stamps = Arc::new(Stamps::default());
        Ok(HttpConnection {
            socket: Stamped::new(socket, Arc::clone(&times), Arc::clone(&stamps)),
            stamps,
            times,
            vectored,
            sending: None,
            receiver: Receiver::default(),
            connect_ns: connected - begin,
            tls_ns,
        })
    }

    /// Returns true if the connection can take another request, as far as the client knows: the response has been read
    /// to its end, the request was sent, and the peer keeps the connection.
    pub fn is_open(&self) -> bool {
        self.sending.is_none() && self.receiver.is_reusable()
    }

    /// Returns true if the connection writes bodies without a copy.
    pub fn is_vectored(&self) -> bool {
        self.vectored
    }

    /// Returns the times at which bytes of the current request passed the socket.
    pub fn stamps(&self) -> &Arc<Stamps> {
        &self.stamps
    }

    /// Gives the memory of a head back, for the next response.
    pub fn reuse(&mut self, head: Head) {
        self.receiver.reuse(head);
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// # Errors
    /// If the connection breaks, or the peer sends invalid HTTP.
    pub async fn send(&mut self, request: Outgoing) -> Result<Head, HttpError> {
        self.stamps.reset();
        self.times.first.set(true);
        let idle = poll_fn(|cx| Poll::Ready(self.poll_idle(cx))).await;
        let answer = match idle {
            Ok(()) => {
                self.begin(request);
                poll_fn(|cx| self.poll_head(cx)).await
            }
            Err(error) => Err(error),
        };
        if answer.is_err() {
            self.receiver.close();
        }
        answer
    }

    /// Returns the next piece of the response's body, or `None` at its end.
    ///
    /// # Errors
    /// If the connection breaks before the end of the body, or the peer sends invalid HTTP.
    pub async fn next_piece(&mut self) -> Result<Option<&[u8]>, HttpError> {
        let piece = poll_fn(|cx| self.poll_piece(cx)).await;
        if piece.is_err() {
            self.receiver.close();
        }
        Ok(piece?.map(|range| self.receiver.bytes(range)))
    }

    /// Returns true if an idle connection has received neither bytes nor its end, as far as the process can know.
    pub async fn is_alive(&mut self) -> bool {
        self.is_open() && poll_fn(|cx| Poll::Ready(self.poll_idle(cx))).await.is_ok()
    }

    /// Returns the number of bytes that are left of the response's body; `None` if the response does not say it.
    pub fn body_left(&self) -> Option<u64> {
        self.receiver.left()
    }

    /// Appends the next bytes of the response's body to `buffer`. Those that have not been received yet are read into
    /// it without a copy, until it has `most` bytes. Returns false at the end of the body.
    ///
    /// # Errors
    /// If the connection breaks before the end of the body, or the peer sends invalid HTTP.
    pub fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
        most: usize,
    ) -> Poll<Result<bool, HttpError>> {
        let room = most.saturating_sub(buffer.len());
        let direct = self.receiver.unread().filter(|_| self.sending.is_none() && room > 0);
        let polled = match direct {
            Some(left) => self
                .poll_into(cx, buffer, room.min(usize::try_from(left).unwrap_or(room)))
                .map_err(HttpError::from),
            None => self.poll_piece(cx).map_ok(|piece| {
                piece.map(|range| buffer.extend_from_slice(self.receiver.bytes(range))).is_some()
            }),
        };
        if matches!(polled, Poll::Ready(Err(_))) {
            self.receiver.close();
        }
        polled
    }

    /// Reads at most `room` bytes of a body to the end of a buffer.
    #[allow(unsafe_code)]
    fn poll_into(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
        room: usize,
    ) -> Poll<io::Result<bool>> {
        buffer.reserve(room);
        let mut space = ReadBuf::uninit(&mut buffer.spare_capacity_mut()[..room]);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut space))?;
        let read = space.filled().len();
        if read == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.receiver.skipped(read as u64);
        // SAFETY: the first `read` bytes of the spare capacity are initialized, because `ReadBuf` counts them as
        // filled.
        unsafe { buffer.set_len(buffer.len() + read) };
        Poll::Ready(Ok(true))
    }

    /// Checks that an idle connection has received neither bytes nor its end.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Result<(), HttpError> {
        match self.poll_fill(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(0)) => Err(HttpError::Closed),
            Poll::Ready(Ok(_)) => Err(HttpError::Unexpected),
            Poll::Ready(Err(error)) => Err(error.into()),
        }
    }

    fn begin(&mut self, request: Outgoing) {
        let Outgoing { head, mut payload, is_head } = request;
        self.receiver.begin(is_head);
        let mut sending =
            Sending { buffer: head, written: 0, piece: Bytes::new(), payload: Payload::empty() };
        if self.vectored {
            sending.piece = payload.take().unwrap_or_default();
            sending.payload = payload;
        } else {
            while let Some(piece) = payload.take() {
                sending.buffer.extend_from_slice(&piece);
            }
        }
        self.sending = Some(sending);
    }

    /// Writes the rest of the request.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(out) = &mut self.sending {
            let (head, socket) = (&out.buffer[out.written..], Pin::new(&mut self.socket));
            let written = match (head.is_empty(), out.piece.is_empty()) {
                (false, true) => ready!(socket.poll_write(cx, head))?,
                (true, false) => ready!(socket.poll_write(cx, &out.piece))?,
                (false, false) => {
                    let parts = [io::IoSlice::new(head), io::IoSlice::new(&out.piece)];
                    ready!(socket.poll_write_vectored(cx, &parts))?
                }
                (true, true) => match out.payload.take() {
                    Some(piece) => {
                        out.piece = piece;
                        continue;
                    }
                    None => {
                        ready!(socket.poll_flush(cx))?;
                        self.sending = None;
                        break;
                    }
                },
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(head.len());
            out.written += of_head;
            out.piece.advance(written - of_head);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads more input. Returns the number of bytes, 0 at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = ReadBuf::new(self.receiver.space());
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut space))?;
        let read = space.filled().len();
        self.receiver.received(read);
        Poll::Ready(Ok(read))
    }

    /// Gives up the rest of a request that the peer does not take.
    fn stop_sending(&mut self) {
        self.sending = None;
        self.receiver.close();
    }

    /// Writes the request and reads the head of the response.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, HttpError>> {
        let mut refused = None;
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            // The peer may have answered before it closed its side.
            self.stop_sending();
            refused = Some(error);
        }
        loop {
            if let Some(head) = self.receiver.head()? {
                return Poll::Ready(Ok(head));
            }
            match (self.poll_fill(cx), refused.take()) {
                (Poll::Ready(Ok(1..)), later) => refused = later,
                (_, Some(error)) | (Poll::Ready(Err(error)), None) => return Poll::Ready(Err(error.into())),
                (Poll::Ready(Ok(0)), None) => return Poll::Ready(Err(HttpError::Closed)),
                (Poll::Pending, None) => return Poll::Pending,
            }
        }
    }

    /// Returns the position of the next piece of the body in the input, or `None` at its end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Range<usize>>, HttpError>> {
        loop {
            match self.receiver.step()? {
                Step::Piece(range) => return Poll::Ready(Ok(Some(range))),
                Step::End => return Poll::Ready(Ok(None)),
                Step::More => {}
            }
            // A peer that has answered early may still wait for the rest of the request.
            if self.sending.is_some() && matches!(self.poll_write(cx), Poll::Ready(Err(_))) {
                self.stop_sending();
            }
            if ready!(self.poll_fill(cx))? == 0 {
                self.receiver.ended()?;
            }
        }
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
    if addresses.is_empty() {
        return Err(io::Error::other("the host name has no address"));
    }
    Ok(served_loopback(addresses))
}

/// Returns the addresses, and of several loopback addresses only those that accept a connection, if any does. A local
/// server often listens on one of 127.0.0.1 and ::1; half of the connections to `localhost` would be refused.
fn served_loopback(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if addresses.len() == 1 || !addresses.iter().all(|address| address.ip().is_loopback()) {
        return addresses;
    }
    let is_served = |address: &&SocketAddr| {
        std::net::TcpStream::connect_timeout(address, client_limits::timeout()).is_ok()
    };
    let served: Vec<_> = addresses.iter().filter(is_served).copied().collect();
    if served.is_empty() { addresses } else { served }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: with a server at one of the addresses of `localhost`, half of the connections were refused.
    #[test]
    fn of_several_loopback_addresses_those_without_a_server_are_left_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let served = listener.local_addr().unwrap();
        // No other test listens there.
        let closed = SocketAddr::from(([127, 0, 0, 3], served.port()));
        assert_eq!(served_loopback(vec![closed, served]), [served]);
        assert_eq!(served_loopback(vec![closed]), [closed], "one address is not probed");
        let others = vec![closed, "192.0.2.1:9".parse().unwrap()];
        assert_eq!(served_loopback(others.clone()), others, "only loopback addresses are probed");
        drop(listener);
        assert_eq!(served_loopback(vec![closed, served]), [closed, served], "if none answers, all stay");
    }
}
