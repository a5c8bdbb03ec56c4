//! A TCP socket that knows when the kernel received its bytes and when the process sent them.
//!
//! The kernel records the time at which each packet arrived (`SO_TIMESTAMPING`, Linux documentation
//! `networking/timestamping`). A read returns the time of the packet that holds its last byte. Unlike the time at
//! which the process runs again, it does not include the delay of a busy or paused machine. If the kernel refuses the
//! option, reads have the time of the process.

use std::io::{self, IoSlice, Write};
use std::mem::size_of;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::cells::{Flag, Number};
use crate::clock::{SECOND, now_ns, wall};

/// Size in bytes of the first read of a message. A read returns the arrival time of its last byte, so a small first
/// read yields the arrival time of the first bytes.
const FIRST_READ: usize = 4 * 1024;

static PROCESS_CLOCK: AtomicBool = AtomicBool::new(false);

/// Makes all new sockets use the time of the process instead of that of the kernel, to show the difference.
pub fn use_process_clock() {
    PROCESS_CLOCK.store(true, Ordering::Relaxed);
}

/// Times of the last read and write of a socket, in nanoseconds on the monotonic clock.
#[derive(Debug, Default)]
pub struct SocketTimes {
    /// Time at which the bytes of the last read arrived; 0 before the first read.
    pub arrived_ns: Number,
    /// Time from the arrival of these bytes until the process read them, in nanoseconds; 0 with the process clock.
    pub delay_ns: Number,
    /// True if the kernel took the arrival time, false if the process did.
    pub by_kernel: Flag,
    /// Time just before the system call of the last write; 0 before the first write.
    pub written_ns: Number,
    /// True if the next read is the first of a message and should be small.
    pub first: Flag,
}

/// A TCP socket that records [`SocketTimes`].
pub struct TimedSocket {
    fd: AsyncFd<TcpStream>,
    times: Arc<SocketTimes>,
    timed: bool,
    kernel: bool,
}

impl TimedSocket {
    /// Wraps a connected socket. Records times only if `timed` is true. It must be called inside a runtime with I/O
    /// enabled.
    ///
    /// # Errors
    /// If the socket cannot be registered with the runtime.
    #[allow(unsafe_code)]
    pub fn new(stream: TcpStream, timed: bool) -> io::Result<TimedSocket> {
        stream.set_nonblocking(true)?;
        let kernel = timed && !PROCESS_CLOCK.load(Ordering::Relaxed) && enable_timestamps(&stream).is_ok();
        // SAFETY: a `TcpStream` always names the one open descriptor that it owns, and `AsyncFd` owns the stream.
        let fd = unsafe { AsyncFd::register(stream) }?;
        Ok(TimedSocket { fd, times: Arc::default(), timed, kernel })
    }

    /// Returns the times of the last read and write.
    pub fn times(&self) -> Arc<SocketTimes> {
        Arc::clone(&self.times)
    }

    /// Limits the bytes that the kernel accepts before it has sent them, so that a peer that does not read holds little
    /// memory of this machine.
    ///
    /// # Errors
    /// If the kernel refuses the option.
    pub fn limit_unsent(&self, bytes: u32) -> io::Result<()> {
        set_option(self.fd.get_ref(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
    }

    /// Makes the close of the socket send RST instead of FIN.
    ///
    /// # Errors
    /// If the kernel refuses the option.
    pub fn reset_on_close(&self) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_linger(self.fd.get_ref(), Some(std::time::Duration::ZERO))?)
    }

    /// Records the arrival of bytes that the process has just read. `kernel_ns` is the kernel's timestamp on the wall
    /// clock, if there is one.
    fn arrived(&self, kernel_ns: Option<u64>) {
        let now = now_ns();
        // A time in the future, or before an earlier read, means that somebody has just set the wall clock.
        let possible = self.times.arrived_ns.get()..=now;
        let kernel = kernel_ns.map(wall::to_monotonic).filter(|at| possible.contains(at));
        let at = kernel.unwrap_or(now);
        self.times.arrived_ns.set(at);
        self.times.delay_ns.set(now - at);
        self.times.by_kernel.set(kernel.is_some());
    }

    /// Calls `write` until the socket accepts bytes, and records the time before the successful call.
    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        mut write: impl FnMut(&mut &TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.fd.poll_write_ready(cx))?;
            let before = if self.timed { now_ns() } else { 0 };
            match write(&mut self.fd.get_ref()) {
                Ok(written) => {
                    // A partial write means that the socket is full; the next attempt would fail.
                    if written > 0 && written < len {
                        guard.clear_ready();
                    }
                    self.times.written_ns.set(before);
                    return Poll::Ready(Ok(written));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncRead for TimedSocket {
    #[allow(unsafe_code)]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            // SAFETY: `receive` only writes to the memory and never makes it uninitialized.
            let space = unsafe { buf.unfilled_mut() };
            let len =
                if self.timed && self.times.first.get() { space.len().min(FIRST_READ) } else { space.len() };
            match receive(self.fd.get_ref(), &mut space[..len], self.kernel) {
                Ok((read, kernel_ns)) => {
                    // A partial read means that the socket is empty; the next attempt would fail.
                    if read > 0 && read < len {
                        guard.clear_ready();
                    }
                    if read > 0 && self.timed {
                        self.times.first.set(false);
                        self.arrived(kernel_ns);
                    }
                    // SAFETY: the kernel has written `read` bytes to the start of the unfilled part.
                    unsafe { buf.assume_init(read) };
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncWrite for TimedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, buf.len(), |stream| stream.write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|b| b.len()).sum();
        self.poll_write_with(cx, len, |stream| stream.write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.get_ref().shutdown(std::net::Shutdown::Write)?;
        Poll::Ready(Ok(()))
    }
}

/// Makes the kernel deliver the arrival time of the packets of a socket.
///
/// # Errors
/// If the kernel refuses the option.
pub fn enable_timestamps(stream: &TcpStream) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option(stream, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}

/// Sets an option of a socket, given by its level and name, whose value is an integer.
#[allow(unsafe_code)]
fn set_option(
    stream: &TcpStream,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_uint,
) -> io::Result<()> {
    // SAFETY: the option takes an `unsigned int`, whose address and size are passed.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_uint>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ancillary data of a read: the header of a message and the three timestamps of `SCM_TIMESTAMPING`, of which the
/// first is that of the kernel. There is room for a second message.
#[repr(C, align(8))]
struct Control([u8; 128]);

/// Reads from a socket. Returns the number of bytes and, if `timed` is true and the kernel recorded it, the arrival
/// time of the last byte in nanoseconds on the wall clock.
///
/// # Errors
/// As `recvmsg(2)`; `WouldBlock` if there are no bytes.
#[allow(unsafe_code)]
pub fn receive(
    stream: &TcpStream,
    space: &mut [std::mem::MaybeUninit<u8>],
    timed: bool,
) -> io::Result<(usize, Option<u64>)> {
    let mut control = std::mem::MaybeUninit::<Control>::uninit();
    let mut part = libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() };
    // SAFETY: all fields of `msghdr` are integers or pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if timed {
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Control>() as _;
    }
    // SAFETY: `part` and `control` describe memory that outlives the call and that nothing else uses.
    let read = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has set the length of the ancillary data that it has written.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: `header` points into `control`, which is aligned for it, and the kernel has written the header.
        let kind = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if kind == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
            // SAFETY: the kernel has written three `timespec`s after a header of this type.
            let at = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
            let known = at.tv_sec > 0;
            return Ok((read as usize, known.then(|| at.tv_sec as u64 * SECOND + at.tv_nsec as u64)));
        }
        // SAFETY: `header` is a header of `message`, whose ancillary data is in `control`.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok((read as usize, None))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::io::AsyncReadExt;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(future)
    }

    #[test]
    fn bytes_have_the_time_of_their_arrival_and_not_of_their_read() {
        block_on(async {
            let (client, mut server) = pair();
            let mut socket = TimedSocket::new(client, true).unwrap();
            let times = socket.times();
            let mut buffer = [0; 16];
            let mut timed = false;
            // The kernel enables its timestamps in the background, so the first packets may have none.
            for _ in 0..1_000 {
                let before = now_ns();
                server.write_all(b"x").unwrap();
                let sent = now_ns();
                let mut timer = crate::clock::Timer::new().unwrap();
                timer.until(sent + 2_000_000).await.unwrap();
                assert_eq!(socket.read(&mut buffer).await.unwrap(), 1);
                let read = now_ns();
                assert!(times.arrived_ns.get() >= before && times.arrived_ns.get() <= read);
                if times.by_kernel.get() {
                    assert!(times.delay_ns.get() >= 2_000_000, "read 2 ms after its arrival");
                    assert!(times.arrived_ns.get() <= read - 2_000_000);
                    timed = true;
                    break;
                }
            }
            assert!(timed, "the kernel never recorded a time");
        });
    }

    #[test]
    fn a_time_outside_the_possible_range_is_replaced_by_that_of_the_process() {
        block_on(async {
            let (client, _server) = pair();
            let socket = TimedSocket::new(client, true).unwrap();
            let before = now_ns();
            socket.arrived(Some(u64::MAX / 2));
            assert!(socket.times.arrived_ns.get() >= before && !socket.times.by_kernel.get());
            socket.arrived(Some(1));
            assert!(socket.times.arrived_ns.get() >= before && !socket.times.by_kernel.get());
        });
    }

    #[test]
    fn all_bytes_and_the_end_of_the_stream_are_read() {
        block_on(async {
            let (client, mut server) = pair();
            let mut socket = TimedSocket::new(client, true).unwrap();
            let sent: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
            let content = sent.clone();
            let writer = std::thread::spawn(move || server.write_all(&content));
            socket.times().first.set(true);
            let mut received = Vec::new();
            socket.read_to_end(&mut received).await.unwrap();
            writer.join().unwrap().unwrap();
            assert!(received == sent);
        });
    }
}
