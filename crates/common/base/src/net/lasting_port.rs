//! Ports for servers that end and start again.

use std::io;
use std::net::TcpListener;

use crate::rng::entropy;

/// Returns the first port that the system gives to connections: `ip_local_port_range` of Linux, and its default.
fn first_of_connections() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768)
}

/// Listens on a free port of 127.0.0.1 that the system does not give to connections. Another port may be taken by a
/// connection of any process while its server is down, even by a client that connects to the server again.
///
/// # Errors
/// If there is no free port.
pub fn listen_on_lasting_port() -> io::Result<TcpListener> {
    let ports = 10_000..first_of_connections().max(10_001);
    let chosen = (0..100).find_map(|_| {
        let port = ports.start + (entropy() % u64::from(ports.end - ports.start)) as u16;
        TcpListener::bind(("127.0.0.1", port)).ok()
    });
    chosen.map_or_else(|| TcpListener::bind("127.0.0.1:0"), Ok)
}
