//! Servers that misbehave on purpose. Each connection has its own thread. A server stops when its [`Peer`] is dropped.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A kind of misbehaving server.
pub struct Hostile {
    /// Name of the server in test messages.
    pub name: &'static str,
    /// Answers one request. Returns true if the connection stays open.
    answer: fn(&mut TcpStream, &Heard, &Shared) -> bool,
}

/// All misbehaving servers. A new server needs one line here.
pub const SERVERS: &[Hostile] = &[
    Hostile { name: "endless body", answer: endless_body },
    Hostile { name: "wrong length", answer: wrong_length },
    Hostile { name: "repeated token", answer: repeated_token },
    Hostile { name: "endless listing", answer: endless_listing },
    Hostile { name: "huge headers", answer: huge_headers },
    Hostile { name: "redirect", answer: redirect },
    Hostile { name: "reset at each byte", answer: reset_at_each_byte },
    Hostile { name: "slow drip", answer: slow_drip },
    Hostile { name: "silence", answer: silence },
    Hostile { name: "keys with ../", answer: dotted_keys },
    Hostile { name: "foreign keys", answer: foreign_keys },
    Hostile { name: "control characters", answer: control_characters },
    Hostile { name: "no HTTP", answer: no_http },
    Hostile { name: "many elements", answer: many_elements },
];

/// A parsed request.
struct Heard {
    method: String,
    target: String,
    body: Vec<u8>,
}

impl Heard {
    /// Returns true if the request lists objects (S3 or Google Cloud Storage).
    fn lists(&self) -> bool {
        self.method == "GET" && (self.target.contains("list-type=2") || self.target.contains("/o?"))
    }
}

/// State that all connections of a server share.
#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    connections: AtomicUsize,
    requests: AtomicUsize,
    deleted: Mutex<Vec<String>>,
    astray: Mutex<Option<u16>>,
}

/// A running server.
pub struct Peer {
    pub port: u16,
    shared: Arc<Shared>,
    /// A second listener. The server `redirect` redirects to it.
    elsewhere: TcpListener,
}

impl Peer {
    pub fn start(hostile: &'static Hostile) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        *shared.astray.lock().unwrap() = Some(elsewhere.local_addr().unwrap().port());
        let answer = hostile.answer;
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.ended.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || serve(stream, answer, &shared));
            }
        });
        Peer { port, shared, elsewhere }
    }

    /// Returns the keys outside `plimsoll/` that a client asked to delete.
    pub fn foreign_deletions(&self) -> Vec<String> {
        let deleted = self.shared.deleted.lock().unwrap();
        deleted
            .iter()
            .filter(|key| !key.contains("/plimsoll/") && !key.starts_with("plimsoll/"))
            .cloned()
            .collect()
    }

    /// Returns true if a client followed a redirect to another host.
    pub fn led_astray(&self) -> bool {
        self.elsewhere.accept().is_ok()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(mut stream: TcpStream, answer: fn(&mut TcpStream, &Heard, &Shared) -> bool, shared: &Shared) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let _ = stream.set_write_timeout(Some(Duration::from_secs(60)));
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let mut buffer = Vec::new();
    while let Some(heard) = hear(&mut stream, &mut buffer) {
        note_deletions(&heard, shared);
        shared.requests.fetch_add(1, Ordering::Relaxed);
        if !answer(&mut stream, &heard, shared) {
            return;
        }
    }
}

/// Reads one request.
fn hear(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Heard> {
    let mut piece = [0; 65536];
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        let n = stream.read(&mut piece).ok().filter(|n| *n > 0)?;
        buffer.extend_from_slice(&piece[..n]);
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let length = head
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
        })
        .unwrap_or(0);
    while buffer.len() < end + length {
        let n = stream.read(&mut piece).ok().filter(|n| *n > 0)?;
        buffer.extend_from_slice(&piece[..n]);
    }
    let body = buffer[end..end + length].to_vec();
    buffer.drain(..end + length);
    let mut words = head.split(' ');
    Some(Heard { method: words.next()?.into(), target: words.next()?.into(), body })
}

fn note_deletions(heard: &Heard, shared: &Shared) {
    let mut deleted = shared.deleted.lock().unwrap();
    if heard.method == "DELETE" && heard.target.trim_matches('/').contains('/') {
        deleted.push(heard.target.clone());
    }
    if heard.target.contains("delete=") {
        let body = String::from_utf8_lossy(&heard.body).into_owned();
        deleted
            .extend(body.split("<Key>").skip(1).filter_map(|k| Some(k.split_once("</Key>")?.0.to_string())));
    }
}

fn send(stream: &mut TcpStream, status: &str, body: &str) -> bool {
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nETag: \"0123456789abcdef0123456789abcdef\"\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).is_ok()
}

fn refuse(stream: &mut TcpStream) -> bool {
    send(stream, "403 Forbidden", "<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
}

fn listing(keys: &[&str], token: Option<&str>) -> String {
    let mut text = String::from("<ListBucketResult>");
    for key in keys {
        text += &format!("<Contents><Key>{key}</Key><Size>1</Size><ETag>\"x\"</ETag></Contents>");
    }
    if let Some(token) = token {
        text +=
            &format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>");
    }
    text + "</ListBucketResult>"
}

/// Sends a response body that never ends.
fn endless_body(stream: &mut TcpStream, _: &Heard, shared: &Shared) -> bool {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("10000\r\n{}\r\n", "<a/>".repeat(16384));
    let mut open = true;
    while open && !shared.ended.load(Ordering::Relaxed) {
        open = stream.write_all(chunk.as_bytes()).is_ok();
    }
    false
}

/// Sends less than its Content-Length announces.
fn wrong_length(stream: &mut TcpStream, _: &Heard, _: &Shared) -> bool {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<ListBucketResult>");
    false
}

fn repeated_token(stream: &mut TcpStream, heard: &Heard, _: &Shared) -> bool {
    if heard.lists() { send(stream, "200 OK", &listing(&[], Some("again"))) } else { refuse(stream) }
}

/// Returns empty pages for ever, each with a new continuation token.
fn endless_listing(stream: &mut TcpStream, heard: &Heard, shared: &Shared) -> bool {
    let token = shared.requests.load(Ordering::Relaxed).to_string();
    if heard.lists() { send(stream, "200 OK", &listing(&[], Some(&token))) } else { refuse(stream) }
}

fn huge_headers(stream: &mut TcpStream, _: &Heard, _: &Shared) -> bool {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
    let line = format!("X-Filler: {}\r\n", "x".repeat(8000));
    for _ in 0..2000 {
        if stream.write_all(line.as_bytes()).is_err() {
            return false;
        }
    }
    false
}

fn redirect(stream: &mut TcpStream, _: &Heard, shared: &Shared) -> bool {
    let port = shared.astray.lock().unwrap().unwrap_or(1);
    let head = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:{port}/elsewhere\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).is_ok()
}

/// Resets the n-th connection after n bytes of a valid response.
fn reset_at_each_byte(stream: &mut TcpStream, _: &Heard, shared: &Shared) -> bool {
    let body = listing(&[], None);
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let n = shared.connections.load(Ordering::Relaxed) % text.len();
    let _ = stream.write_all(&text.as_bytes()[..n]);
    // With a linger time of zero the kernel sends a reset when the socket is closed.
    let _ = rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO));
    false
}

/// Sends one byte at a time, with a pause of 200 ms after each.
fn slow_drip(stream: &mut TcpStream, _: &Heard, shared: &Shared) -> bool {
    let body = listing(&[], None);
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let mut nothing = [0; 1];
    for byte in text.bytes() {
        if shared.ended.load(Ordering::Relaxed) || stream.write_all(&[byte]).is_err() {
            return false;
        }
        // The read pauses: the client sends no further request, so the read times out.
        if stream.read(&mut nothing).is_ok() {
            return false;
        }
    }
    false
}

fn silence(stream: &mut TcpStream, _: &Heard, _: &Shared) -> bool {
    let _ = stream.read(&mut [0; 1]);
    false
}

fn dotted_keys(stream: &mut TcpStream, heard: &Heard, _: &Shared) -> bool {
    let keys = ["../../../../etc/passwd", "some/prefix/../../thesis.txt", "/etc/passwd"];
    if heard.lists() { send(stream, "200 OK", &listing(&keys, None)) } else { refuse(stream) }
}

/// Accepts every write, ignores the prefix of listings, and lists objects of another owner.
fn foreign_keys(stream: &mut TcpStream, heard: &Heard, _: &Shared) -> bool {
    match heard.method.as_str() {
        _ if heard.lists() => send(stream, "200 OK", &listing(&["thesis.txt", "photos/wedding.jpg"], None)),
        // Creating the bucket fails: another account owns it.
        "PUT" if heard.target.matches('/').count() == 1 => {
            send(stream, "409 Conflict", "<Error><Code>BucketAlreadyExists</Code></Error>")
        }
        "PUT" => send(stream, "200 OK", ""),
        "POST" => send(stream, "200 OK", "<DeleteResult></DeleteResult>"),
        "DELETE" => send(stream, "204 No Content", ""),
        _ => send(stream, "404 Not Found", "<Error><Code>NoSuchKey</Code></Error>"),
    }
}

fn control_characters(stream: &mut TcpStream, _: &Heard, _: &Shared) -> bool {
    let body = "<Error><Code>Odd\u{1b}[2JCode\u{9b}31m</Code><Message>first\nsecond\u{1b}]0;title\u{7}\u{202e}</Message></Error>";
    send(stream, "400 Bad\u{1b}Request", body)
}

fn no_http(stream: &mut TcpStream, _: &Heard, _: &Shared) -> bool {
    let _ = stream.write_all(b"220 smtp.example.org ESMTP\r\n");
    false
}

/// Sends 12 MiB of XML elements in one response.
fn many_elements(stream: &mut TcpStream, heard: &Heard, _: &Shared) -> bool {
    if !heard.lists() {
        return refuse(stream);
    }
    send(stream, "200 OK", &format!("<ListBucketResult><x>{}</x></ListBucketResult>", "<a/>".repeat(3 << 20)))
}
