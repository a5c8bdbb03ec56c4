//! The server side of a socket: records when the first byte of a request arrived and when the last byte of its response
//! was sent, the phase of the connection and the size of the request head.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::ServerState;
use super::connection_limit::{ConnectionLimit, Place};
use super::connections::Registration;
use super::head_scan::HeadScan;
use super::reserve::Reservation;
use super::response::Gate;
use super::timing_log::TimingEntry;
use plimsoll_base::net::socket::{SocketTimes, TimedSocket};

/// Timestamps and other state of one connection. It keeps the log entry of the last request until the next
/// request starts or the connection ends, because only then is it certain that the last byte of the response was
/// written.
pub struct ConnectionTimestamps {
    shared: Arc<ServerState>,
    watched: bool,
    between_requests: Cell<bool>,
    received_ns: Cell<u64>,
    last_write_ns: Cell<u64>,
    pending: RefCell<Option<TimingEntry>>,
    reset: Cell<bool>,
    /// Number of bytes of [`CONTINUE`] still to be written.
    interim: Cell<usize>,
    head_bytes: Cell<usize>,
    scan: RefCell<HeadScan>,
    /// True if the head of the current request certainly has no `Content-Length`.
    has_no_length: Cell<bool>,
    /// Memory reserved for a head above [`USUAL_HEAD`].
    head: RefCell<Option<Reservation>>,
    /// Place of the connection among those that are served, if their number is limited.
    place: RefCell<Option<Place>>,
    /// Entry of the connection in the registry.
    pub registered: Registration,
    /// Gate of the streams of response bodies.
    pub gate: Rc<Gate>,
    /// Address of the other end; `None` if nobody needs it.
    pub peer: Option<IpAddr>,
}

/// Interim response that lets a client send its body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Size in bytes above which a request head counts against the memory limit.
const USUAL_HEAD: usize = 16 * 1024;

impl ConnectionTimestamps {
    /// Creates the state of a new connection. Takes timestamps only if the handler, the timing log or an observer needs
    /// them.
    pub fn new(
        shared: Arc<ServerState>,
        registered: Registration,
        needed: bool,
        peer: Option<IpAddr>,
    ) -> ConnectionTimestamps {
        let watched = needed || shared.timing_log.is_some() || !shared.observers.is_empty();
        ConnectionTimestamps {
            shared,
            watched,
            between_requests: Cell::new(true),
            received_ns: Cell::new(0),
            last_write_ns: Cell::new(0),
            pending: RefCell::new(None),
            reset: Cell::new(false),
            interim: Cell::new(0),
            head_bytes: Cell::new(0),
            scan: RefCell::default(),
            has_no_length: Cell::new(false),
            head: RefCell::new(None),
            place: RefCell::new(None),
            registered,
            peer,
            gate: Rc::default(),
        }
    }

    /// Returns true if a limit allows the connection to be served. The first call takes a place for the connection.
    pub fn is_within(&self, limit: &ConnectionLimit) -> bool {
        let mut place = self.place.borrow_mut();
        if place.is_none() {
            *place = limit.take();
        }
        place.is_some()
    }

    /// Schedules `100 Continue` before the response. hyper sends it only when a body is read, and an
    /// empty body is never read.
    pub fn send_continue(&self) {
        self.interim.set(CONTINUE.len());
    }

    /// Records that the head of a request is complete, and releases its memory.
    pub fn head_complete(&self) {
        self.registered.works();
        self.head_bytes.set(0);
        self.has_no_length.set(self.scan.borrow_mut().end_without_length());
        if self.head.borrow().is_some() {
            self.head.borrow_mut().take();
        }
    }

    /// Adds `bytes` to the size of the current head; reserves memory once the head exceeds [`USUAL_HEAD`].
    fn grow_head(&self, bytes: usize) -> io::Result<()> {
        if !self.registered.in_head() {
            return Ok(());
        }
        let size = self.head_bytes.get() + bytes;
        self.head_bytes.set(size);
        if size > USUAL_HEAD && self.head.borrow().is_none() {
            let reserved = self.shared.memory.reserve(super::limits::MAX_HEAD_BYTES as u64);
            *self.head.borrow_mut() =
                Some(reserved.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?);
        }
        Ok(())
    }

    fn read(&self, bytes: &[u8], times: &SocketTimes) -> io::Result<()> {
        let was_in_head = self.registered.in_head();
        self.registered.read(bytes.len());
        if self.registered.in_head() {
            let mut scan = self.scan.borrow_mut();
            if !was_in_head {
                scan.begin();
            }
            scan.read(bytes);
        }
        self.note_read(times);
        self.grow_head(bytes.len())
    }

    /// Returns true if the length of the body may be declared twice, when there is a `Transfer-Encoding`.
    pub fn may_have_length(&self) -> bool {
        !self.has_no_length.get()
    }

    fn note_read(&self, times: &SocketTimes) {
        if self.watched && self.between_requests.get() {
            self.settle();
            self.received_ns.set(times.arrived_ns.get());
            self.between_requests.set(false);
        }
    }

    fn wrote(&self, bytes: usize, times: &SocketTimes) {
        self.registered.wrote(bytes);
        if self.watched {
            self.last_write_ns.set(times.written_ns.get());
        }
    }

    /// Returns true if the connection takes timestamps.
    pub fn is_timed(&self) -> bool {
        self.watched
    }

    /// Returns the arrival time of the current request's first byte in nanoseconds; 0 if no timestamps are taken.
    pub fn received_ns(&self) -> u64 {
        self.received_ns.get()
    }

    /// Records that the response is ready: later writes belong to it, and `entry` is its log entry.
    pub fn answered(&self, entry: Option<TimingEntry>) {
        self.registered.answered();
        *self.pending.borrow_mut() = entry;
        self.between_requests.set(true);
    }

    /// Makes the next write reset the TCP connection.
    pub fn break_connection(&self) {
        self.reset.set(true);
    }

    fn settle(&self) {
        if let Some(mut entry) = self.pending.borrow_mut().take()
            && let Some(timing_log) = &self.shared.timing_log
        {
            entry.last_byte_ns = self.last_write_ns.get();
            timing_log.write(&entry);
        }
    }
}

impl Drop for ConnectionTimestamps {
    fn drop(&mut self) {
        self.settle();
    }
}

enum Socket {
    Plain(TimedSocket),
    Tls(Box<TlsStream<TimedSocket>>),
}

/// A socket that records its reads and writes and can reset its connection.
pub struct Stamped {
    socket: Socket,
    times: Arc<SocketTimes>,
    stamps: Rc<ConnectionTimestamps>,
}

impl Stamped {
    /// Wraps a plain TCP stream.
    pub fn plain(stream: TimedSocket, stamps: Rc<ConnectionTimestamps>) -> Stamped {
        Stamped { times: stream.times(), socket: Socket::Plain(stream), stamps }
    }

    /// Wraps a TLS stream.
    pub fn tls(stream: TlsStream<TimedSocket>, stamps: Rc<ConnectionTimestamps>) -> Stamped {
        Stamped { times: stream.get_ref().0.times(), socket: Socket::Tls(Box::new(stream)), stamps }
    }

    fn check_reset(&self) -> io::Result<()> {
        if !self.stamps.reset.get() {
            return Ok(());
        }
        let tcp = match &self.socket {
            Socket::Plain(stream) => stream,
            Socket::Tls(stream) => stream.get_ref().0,
        };
        // With a linger time of zero, closing the socket sends RST instead of FIN.
        let _ = tcp.reset_on_close();
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(bytes @ 1..)) => self.stamps.wrote(bytes, &self.times),
            Poll::Pending => self.stamps.registered.blocked(),
            Poll::Ready(_) => {}
        }
        result
    }

    fn flushed(&self, result: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        match result {
            Poll::Pending => self.stamps.registered.blocked(),
            Poll::Ready(_) => {
                self.stamps.registered.flushed();
                self.stamps.gate.open();
            }
        }
        result
    }

    fn poll_write_bare(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_write(cx, buf),
            Socket::Tls(s) => Pin::new(s).poll_write(cx, buf),
        }
    }

    /// Writes the rest of a scheduled interim response, which precedes all other output.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.stamps.interim.get() > 0 {
            let left = self.stamps.interim.get();
            match self.poll_write_bare(cx, &CONTINUE[CONTINUE.len() - left..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => self.stamps.interim.set(left - n),
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stamped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        self.times.first.set(self.stamps.between_requests.get());
        let result = match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_read(cx, buf),
            Socket::Tls(s) => Pin::new(s).poll_read(cx, buf),
        };
        let bytes = &buf.filled()[before..];
        if !bytes.is_empty() {
            self.stamps.read(bytes, &self.times)?;
        }
        result
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check_reset()?;
        ready!(self.poll_interim(cx))?;
        let result = self.poll_write_bare(cx, buf);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_reset()?;
        ready!(self.poll_interim(cx))?;
        let result = match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Socket::Tls(s) => Pin::new(s).poll_write_vectored(cx, bufs),
        };
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_flush(cx),
            Socket::Tls(s) => Pin::new(s).poll_flush(cx),
        };
        self.flushed(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_shutdown(cx),
            Socket::Tls(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}
