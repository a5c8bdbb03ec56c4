//! Timestamps of the first and last byte in each direction of one request, with and without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::cells::{Flag, Number};
use super::socket::{SocketTimes, TimedSocket};

/// Times at which bytes passed the socket since the last reset, in nanoseconds of the monotonic clock; 0 if none
/// passed. With TLS, decrypted bytes have the times of the socket's last read.
#[derive(Debug, Default)]
pub struct Stamps {
    /// Time just before the first byte was written.
    pub first_write: Number,
    /// Time just before the last byte was written.
    pub last_write: Number,
    /// Time at which the first byte arrived.
    pub first_read: Number,
    /// Time at which the last byte arrived.
    pub last_read: Number,
    /// Time from the arrival of the last byte until the process read it, in nanoseconds.
    pub client_delay_ns: Number,
    /// True if the kernel took all arrival times, false if the process took any.
    pub by_kernel: Flag,
}

impl Stamps {
    /// Forgets all times, before a request.
    pub fn reset(&self) {
        for cell in [&self.first_write, &self.last_write, &self.first_read, &self.last_read] {
            cell.set(0);
        }
        self.client_delay_ns.set(0);
        self.by_kernel.set(true);
    }

    fn mark(first: &Number, last: &Number, at_ns: u64) {
        if first.get() == 0 {
            first.set(at_ns);
        }
        last.set(at_ns);
    }

    fn mark_read(&self, times: &SocketTimes) {
        // A response cannot arrive before its request: a clock was set in between, and only the process's time is
        // right.
        let (arrived, delay) = (times.arrived_ns.get(), times.delay_ns.get());
        let possible = arrived >= self.first_write.get();
        let (at, delay) = if possible { (arrived, delay) } else { (arrived + delay, 0) };
        Stamps::mark(&self.first_read, &self.last_read, at);
        self.client_delay_ns.set(delay);
        self.by_kernel.set(self.by_kernel.get() && times.by_kernel.get() && possible);
    }
}

/// A plain or encrypted socket.
pub enum Socket {
    /// TCP without encryption.
    Plain(TimedSocket),
    /// TLS over TCP.
    Tls(Box<TlsStream<TimedSocket>>),
}

/// A socket that records timestamps whenever bytes pass.
pub struct Stamped {
    socket: Socket,
    times: Arc<SocketTimes>,
    stamps: Arc<Stamps>,
}

impl Stamped {
    /// Wraps a socket. `times` are those of the TCP socket; `stamps` receives the timestamps.
    pub fn new(socket: Socket, times: Arc<SocketTimes>, stamps: Arc<Stamps>) -> Stamped {
        Stamped { socket, times, stamps }
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
            self.stamps.mark_read(&self.times);
        }
        result
    }
}

impl Stamped {
    fn record_write(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(n)) = &result
            && *n > 0
        {
            let at = self.times.written_ns.get();
            Stamps::mark(&self.stamps.first_write, &self.stamps.last_write, at);
        }
        result
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_write(cx, buf),
            Socket::Tls(s) => Pin::new(s).poll_write(cx, buf),
        };
        self.record_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = match &mut self.socket {
            Socket::Plain(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Socket::Tls(s) => Pin::new(s).poll_write_vectored(cx, bufs),
        };
        self.record_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(s) => s.is_write_vectored(),
            Socket::Tls(s) => s.is_write_vectored(),
        }
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
