//! The least that a client on this machine can do and still measure: GET requests on 64 connections, each signed with
//! SigV4, timed by the kernel, compared byte by byte, and recorded in a histogram. It has one loop over epoll and no
//! runtime, and it assumes that every response looks like the first one, so it is no instrument.
//!
//!     floor ADDRESS BUCKET KEY SECONDS
//!
//! The object must contain only the letter `x`. The credentials are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
//! `benches/run.py --only floor` compares it with `plimsoll` and wrk.

#![allow(clippy::print_stdout, reason = "prints its results")]

use std::io::Write;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

use hdrhistogram::Histogram;
use plimsoll_base::clock::{SECOND, now_ns, wall};
use plimsoll_base::net::socket::{enable_timestamps, receive};
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::{EMPTY_SHA256, Signer};
use rustix::event::epoll;

const CONNECTIONS: usize = 64;
/// Size of the read buffer in bytes, at least the size of a response.
const BUFFER: usize = 64 * 1024;

type Failed = Box<dyn std::error::Error>;

/// A connection with a request in flight.
struct Slot {
    stream: TcpStream,
    sent_ns: u64,
    received: usize,
    buffer: Vec<MaybeUninit<u8>>,
}

/// The object that is read, and the state that all connections share.
struct Client {
    signer: Signer,
    credentials: Credentials,
    host: String,
    path: String,
    request: String,
    latencies: Histogram<u64>,
    /// Length of a response, and where its body begins; 0 before the first one.
    length: usize,
    body: usize,
    /// Expected content of the object.
    content: Vec<u8>,
}

impl Client {
    fn send(&mut self, slot: &mut Slot) -> std::io::Result<()> {
        let headers = [("host", self.host.as_str()), ("x-amz-content-sha256", EMPTY_SHA256)];
        let signed = self.signer.sign(&self.credentials, "GET", &self.path, "", &headers, EMPTY_SHA256);
        self.request.clear();
        for part in ["GET ", &self.path, " HTTP/1.1\r\nhost: ", &self.host, "\r\nauthorization: "] {
            self.request.push_str(part);
        }
        for part in [signed.authorization, "\r\nx-amz-date: ", signed.date_time] {
            self.request.push_str(part);
        }
        for part in ["\r\nx-amz-content-sha256: ", EMPTY_SHA256, "\r\n\r\n"] {
            self.request.push_str(part);
        }
        (slot.received, slot.sent_ns) = (0, now_ns());
        slot.stream.write_all(self.request.as_bytes())
    }

    /// Reads what has arrived. Returns true if the response is complete and correct.
    fn read(&mut self, slot: &mut Slot) -> Result<bool, Failed> {
        let (read, arrived) = receive(&slot.stream, &mut slot.buffer[slot.received..], true)?;
        slot.received += read;
        let bytes = initialized(&slot.buffer[..slot.received]);
        if self.length == 0 {
            let head =
                bytes.windows(4).position(|end| end == b"\r\n\r\n").ok_or("a head that is too long")?;
            let text = std::str::from_utf8(&bytes[..head])?.to_ascii_lowercase();
            if !text.starts_with("http/1.1 200") {
                return Err(text.into());
            }
            let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
            self.body = head + 4;
            self.length = self.body + length.ok_or("no length")?.parse::<usize>()?;
            self.content = vec![b'x'; self.length - self.body];
        }
        if read == 0 || slot.received > self.length {
            return Err("a response unlike the first".into());
        }
        if slot.received < self.length {
            return Ok(false);
        }
        if bytes[self.body..] != self.content {
            return Err("wrong content".into());
        }
        let arrived = arrived.map_or_else(now_ns, wall::to_monotonic);
        self.latencies.record(arrived.saturating_sub(slot.sent_ns).max(1))?;
        Ok(true)
    }
}

/// Returns bytes that are initialized.
#[allow(unsafe_code)]
fn initialized(bytes: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: the buffer is created from zeros, so all of its bytes are initialized.
    unsafe { &*(std::ptr::from_ref(bytes) as *const [u8]) }
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, bucket, key, seconds] = arguments.as_slice() else {
        return Err("usage: floor ADDRESS BUCKET KEY SECONDS".into());
    };
    let address: SocketAddr = address.parse()?;
    let own = |name: &str| std::env::var(name);
    let mut client = Client {
        signer: Signer::new("us-east-1", "s3"),
        credentials: Credentials::new(&own("AWS_ACCESS_KEY_ID")?, &own("AWS_SECRET_ACCESS_KEY")?, None),
        host: address.to_string(),
        path: format!("/{bucket}/{key}"),
        request: String::with_capacity(1024),
        latencies: Histogram::new_with_bounds(1, 100 * SECOND, 3)?,
        length: 0,
        body: 0,
        content: Vec::new(),
    };
    let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut slots = Vec::new();
    for number in 0..CONNECTIONS {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        enable_timestamps(&stream)?;
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&events, stream.as_fd(), data, epoll::EventFlags::IN)?;
        slots.push(Slot { stream, sent_ns: 0, received: 0, buffer: vec![MaybeUninit::new(0); BUFFER] });
        client.send(&mut slots[number])?;
    }
    let end_ns = now_ns() + seconds.parse::<u64>()? * SECOND;
    let mut ready = Vec::with_capacity(CONNECTIONS);
    while now_ns() < end_ns {
        ready.clear();
        epoll::wait(&events, rustix::buffer::spare_capacity(&mut ready), None)?;
        for event in &ready {
            let slot = &mut slots[event.data.u64() as usize];
            if client.read(slot)? {
                client.send(slot)?;
            }
        }
    }
    println!(
        "{} requests, p50 {} us",
        client.latencies.len(),
        client.latencies.value_at_quantile(0.5) / 1000
    );
    Ok(())
}
