//! Times of an operation.

/// Timestamps and durations of one operation, in nanoseconds on the monotonic clock; 0 if the event did not
/// happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Time just before the request is sent, after signing and hashing.
    pub start_ns: u64,
    /// Time of the first byte of the response.
    pub first_byte_ns: u64,
    /// Time of the first byte of the object's content: sent for a put, received for a get.
    pub body_first_ns: u64,
    /// Time of the last byte of the object's content.
    pub body_last_ns: u64,
    /// Time of the last byte of the response, which ends the operation.
    pub end_ns: u64,
    /// True if the kernel took the arrival times, false if the process took them.
    pub by_kernel: bool,
    /// Total duration of the operation's TCP handshakes; 0 if it opened no connection.
    pub connect_ns: u64,
    /// Total duration of the operation's TLS handshakes; 0 if it opened no TLS connection.
    pub tls_ns: u64,
    /// Duration from the arrival of the last byte until the process read it, in microseconds.
    pub client_delay_us: u32,
    /// Number of connections opened.
    pub connections: u32,
    /// Number of requests sent again because the reused connection was closed, plus resumptions of a
    /// resumable upload.
    pub reconnects: u32,
}

impl Timings {
    /// Adds the connections and reconnects of an earlier request of the same operation.
    pub fn add_connections(&mut self, earlier: &Timings) {
        self.connections += earlier.connections;
        self.reconnects += earlier.reconnects;
        self.connect_ns += earlier.connect_ns;
        self.tls_ns += earlier.tls_ns;
    }
}
