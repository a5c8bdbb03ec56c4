//! The access log: one JSON object per request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use plimsoll_base::clock::wall_now;
use plimsoll_server::observer::{FinishedRequest, RequestObserver};
use serde::Serialize;

/// Writer of the access log.
pub struct RequestLog {
    path: PathBuf,
    file: Mutex<File>,
    proxies: Proxies,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    id: &'a str,
    client: Option<IpAddr>,
    operation: Option<String>,
    method: &'a str,
    path: &'a str,
    access_key: &'a str,
    status: u16,
    bytes_in: u64,
    bytes_out: u64,
    duration_ms: f64,
}

impl RequestLog {
    /// Opens the file for appending, and creates it if necessary.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path, proxies: Proxies) -> io::Result<RequestLog> {
        Ok(RequestLog { path: path.to_path_buf(), file: Mutex::new(open(path)?), proxies })
    }

    /// Opens the file again, after it was renamed.
    ///
    /// # Errors
    /// If the file cannot be opened. The old one stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        let file = open(&self.path)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }
}

/// Opens a file for appending, and creates it if necessary.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Networks whose addresses are those of proxies, which add the address of their client to `X-Forwarded-For`.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Vec<Network>);

/// A network: an address, and the number of bits that its addresses share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

/// Returns an address as 128 bits. An IPv4 address becomes an IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2).
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.trim().parse().ok().filter(|bits| *bits <= most))?;
        Some(Network { address, bits: bits + (128 - most) })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let differing = (number(self.address) ^ number(address)).leading_zeros();
        differing >= u32::from(self.bits)
    }
}

impl Proxies {
    /// Parses networks, such as `10.0.0.0/8,::1`.
    ///
    /// # Errors
    /// A message that quotes the text of a network.
    pub fn parse(text: &str) -> Result<Proxies, String> {
        let network = |one: &str| {
            Network::parse(one.trim()).ok_or_else(|| format!("'{one}' is not a network, such as 10.0.0.0/8"))
        };
        text.split(',').map(network).collect::<Result<_, _>>().map(Proxies)
    }

    fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Returns the address of the client of a request: the last address that does not belong to a proxy. The addresses
    /// to the left of it may be forged.
    fn client(&self, peer: IpAddr, forwarded_for: &str) -> IpAddr {
        let mut client = peer.to_canonical();
        for text in forwarded_for.rsplit(',') {
            if !self.contain(client) {
                break;
            }
            let Ok(address) = text.trim().parse::<IpAddr>() else { break };
            client = IpAddr::to_canonical(&address);
        }
        client
    }
}

impl RequestObserver for RequestLog {
    fn finished(&self, request: &FinishedRequest<'_>) {
        let line = Line {
            time: wall_now().to_string(),
            id: request.id,
            client: request.peer.map(|peer| self.proxies.client(peer, request.forwarded_for)),
            operation: request.operation.map(|operation| format!("{operation:?}")),
            method: request.method.as_str(),
            path: request.path,
            access_key: request.access_key,
            status: request.status,
            bytes_in: request.bytes_in,
            bytes_out: request.bytes_out,
            duration_ms: request.duration_ns as f64 / 1e6,
        };
        let Ok(mut text) = serde_json::to_string(&line) else { return };
        text.push('\n');
        // A full disk loses lines, not requests.
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proxies_are_believed() {
        let proxies = Proxies::parse("10.0.0.0/8, ::1").unwrap();
        let client =
            |peer: &str, forwarded: &str| proxies.client(peer.parse().unwrap(), forwarded).to_string();
        assert_eq!(client("192.0.2.1", "203.0.113.9"), "192.0.2.1", "the peer is not a proxy");
        assert_eq!(client("10.1.2.3", "203.0.113.9"), "203.0.113.9");
        assert_eq!(client("::1", "198.51.100.7, 203.0.113.9, 10.0.0.1"), "203.0.113.9", "the rest is forged");
        assert_eq!(client("10.1.2.3", ""), "10.1.2.3");
        assert_eq!(client("10.1.2.3", "unknown"), "10.1.2.3");
        assert_eq!(client("10.1.2.3", "10.9.9.9"), "10.9.9.9");
        for bad in ["", "10.0.0.0/33", "host", "10.0.0.0/-1"] {
            assert!(Proxies::parse(bad).is_err(), "{bad}");
        }
    }
}
