//! The server's end of a socket: notes when a request's first byte came and when its answer's last byte left.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::Shared;
use super::truth::Entry;
use crate::clock::now_ns;

/// What one connection notes. The truth of a request is complete only when its last byte has left, which is known for
/// sure when the next request begins or the connection ends; until then its entry is kept here.
pub struct ConnectionStamps {
    shared: Arc<Shared>,
    watched: bool,
    between_requests: Cell<bool>,
    received_ns: Cell<u64>,
    last_write_ns: Cell<u64>,
    pending: RefCell<Option<Entry>>,
    reset: Cell<bool>,
}

impl ConnectionStamps {
    /// Stamps are taken only where someone reads them: with a truth log or an injector.
    pub fn new(shared: Arc<Shared>) -> ConnectionStamps {
        let watched = shared.truth.is_some() || shared.injector.is_some();
        ConnectionStamps {
            shared,
            watched,
            between_requests: Cell::new(true),
            received_ns: Cell::new(0),
            last_write_ns: Cell::new(0),
            pending: RefCell::new(None),
            reset: Cell::new(false),
        }
    }

    fn read(&self) {
        if self.watched && self.between_requests.get() {
            self.settle();
            self.received_ns.set(now_ns());
            self.between_requests.set(false);
        }
    }

    fn wrote(&self) {
        if self.watched {
            self.last_write_ns.set(now_ns());
        }
    }

    /// When the current request's first byte came.
    pub fn received_ns(&self) -> u64 {
        self.received_ns.get()
    }

    /// The answer is ready; what is written from now on belongs to it.
    pub fn answered(&self, entry: Option<Entry>) {
        *self.pending.borrow_mut() = entry;
        self.between_requests.set(true);
    }

    /// From the next write on, the connection breaks with a TCP reset.
    pub fn break_connection(&self) {
        self.reset.set(true);
    }

    fn settle(&self) {
        if let Some(mut entry) = self.pending.borrow_mut().take()
            && let Some(truth) = &self.shared.truth
        {
            entry.last_byte_ns = self.last_write_ns.get();
            truth.write(&entry);
        }
    }
}

impl Drop for ConnectionStamps {
    fn drop(&mut self) {
        self.settle();
    }
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A socket that notes when bytes pass, and can break on command.
pub struct Stamped {
    socket: Socket,
    stamps: Rc<ConnectionStamps>,
}

impl Stamped {
    /// Over TCP.
    pub fn plain(stream: TcpStream, stamps: Rc<ConnectionStamps>) -> Stamped {
        Stamped { socket: Socket::Plain(stream), stamps }
    }

    /// Over TLS.
    pub fn tls(stream: TlsStream<TcpStream>, stamps: Rc<ConnectionStamps>) -> Stamped {
        Stamped { socket: Socket::Tls(Box::new(stream)), stamps }
    }

    fn check_reset(&self) -> io::Result<()> {
        if !self.stamps.reset.get() {
            return Ok(());
        }
        let tcp = match &self.socket {
            Socket::Plain(stream) => stream,
            Socket::Tls(stream) => stream.get_ref().0,
        };
        // With a linger of zero, closing sends RST instead of FIN.
        let _ = tcp.set_zero_linger();
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(result, Poll::Ready(Ok(1..))) {
            self.stamps.wrote();
        }
        result
    }
}

impl AsyncRead for Stamped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_read(cx, buf),
            Socket::Tls(s) => Pin::new(s).poll_read(cx, buf),
        };
        if buf.filled().len() > before {
            self.stamps.read();
        }
        result
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check_reset()?;
        let result = match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_write(cx, buf),
            Socket::Tls(s) => Pin::new(s).poll_write(cx, buf),
        };
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_reset()?;
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
        match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_flush(cx),
            Socket::Tls(s) => Pin::new(s).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_shutdown(cx),
            Socket::Tls(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}
