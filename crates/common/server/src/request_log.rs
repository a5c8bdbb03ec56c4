//! The access log: one JSON object per request. `plimsoll replay`, `fit` and `cost from-log` read it, too.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use plimsoll_base::clock::wall_now;
use serde::Serialize;

use super::observer::{FinishedRequest, RequestObserver};
use super::operation::ApiOperation;

/// Writer of the access log.
pub struct RequestLog {
    path: PathBuf,
    file: Mutex<File>,
    proxies: Proxies,
    /// First error in writing a line.
    failure: OnceLock<io::Error>,
}

/// A line of the log.
#[derive(Serialize)]
struct Line<'a> {
    /// Time at which the response was ready.
    time: String,
    id: &'a str,
    client: Option<IpAddr>,
    operation: Option<&'static str>,
    method: &'a str,
    path: &'a str,
    bucket: &'a str,
    key: &'a str,
    /// Number of the part and id of its upload.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upload: Option<&'a str>,
    access_key: &'a str,
    status: u16,
    bytes_in: u64,
    bytes_out: u64,
    /// Size of the object of which the response has a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    object_bytes: Option<u64>,
    /// First byte of this range.
    #[serde(skip_serializing_if = "Option::is_none")]
    range_start: Option<u64>,
    duration_ms: f64,
}

/// Returns the value of a parameter of a raw query; `None` if it has none.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// Returns the first byte of a range, from a `Content-Range` such as `bytes 0-6/4096`.
fn range_start(range: &str) -> Option<u64> {
    range.trim_start_matches("bytes").trim_start().split_once('-')?.0.parse().ok()
}

impl RequestLog {
    /// Opens the file for appending, and creates it if necessary.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path, proxies: Proxies) -> io::Result<RequestLog> {
        Ok(RequestLog::of(path, open(path)?, proxies))
    }

    /// Creates the file.
    ///
    /// # Errors
    /// If the file exists, or cannot be created.
    pub fn create(path: &Path) -> io::Result<RequestLog> {
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        Ok(RequestLog::of(path, file, Proxies::default()))
    }

    fn of(path: &Path, file: File, proxies: Proxies) -> RequestLog {
        RequestLog { path: path.to_path_buf(), file: Mutex::new(file), proxies, failure: OnceLock::new() }
    }

    /// Returns the first error in writing a line, since which lines may be missing.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
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
        let is_part =
            matches!(request.operation, Some(ApiOperation::UploadPart | ApiOperation::UploadPartCopy));
        let of_part = |name| parameter(request.query, name).filter(|_| is_part);
        let line = Line {
            time: wall_now().to_string(),
            id: request.id,
            client: request.peer.map(|peer| self.proxies.client(peer, request.forwarded_for)),
            operation: request.operation.map(ApiOperation::name),
            method: request.method.as_str(),
            path: request.path,
            bucket: request.bucket,
            key: request.key,
            part: of_part("partNumber").and_then(|number| number.parse().ok()),
            upload: of_part("uploadId"),
            access_key: request.access_key,
            status: request.status,
            bytes_in: request.bytes_in,
            bytes_out: request.bytes_out,
            object_bytes: request.content_range.and_then(|range| range.rsplit_once('/')?.1.parse().ok()),
            range_start: request.content_range.and_then(range_start),
            duration_ms: request.duration_ns as f64 / 1e6,
        };
        let Ok(mut text) = serde_json::to_string(&line) else { return };
        text.push('\n');
        // A full disk loses lines, not requests.
        let written = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
        if let Err(error) = written {
            let _ = self.failure.set(error);
        }
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

    #[test]
    fn a_part_and_a_range_are_described_without_the_signature() {
        let path = std::env::temp_dir().join(format!("plimsoll-request-log-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let log = RequestLog::create(&path).unwrap();
        let finished = |operation, query, content_range| {
            log.finished(&FinishedRequest {
                id: "1",
                operation: Some(operation),
                peer: None,
                forwarded_for: "",
                method: &http::Method::GET,
                path: "/b/k",
                query,
                access_key: "me",
                bucket: "b",
                key: "k",
                status: 206,
                bytes_in: 0,
                copied: None,
                bytes_out: 7,
                content_range,
                duration_ns: 1_500_000,
            });
        };
        finished(ApiOperation::UploadPart, "partNumber=3&uploadId=u1&X-Amz-Signature=5ec2e7", None);
        finished(ApiOperation::GetObject, "X-Amz-Signature=5ec2e7&partNumber=3", Some("bytes 5-11/4096"));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["part"], &lines[0]["upload"]), (&3.into(), &"u1".into()));
        assert_eq!((&lines[1]["part"], &lines[1]["object_bytes"]), (&serde_json::Value::Null, &4096.into()));
        assert_eq!(
            [&lines[0]["range_start"], &lines[1]["range_start"]],
            [&serde_json::Value::Null, &5.into()]
        );
        assert!(!text.contains("5ec2e7"), "{text}");
        assert!(RequestLog::create(&path).is_err(), "an existing file is kept");
        std::fs::remove_file(&path).unwrap();
    }
}
