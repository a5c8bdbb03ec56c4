//! Resumable uploads to a server that closes the connection within a chunk, keeps fewer bytes than it received, or is
//! briefly unavailable.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::support::block_on;
use plimsoll_engine::store::gcs::GcsStore;
use plimsoll_engine::store::http::Route;
use plimsoll_engine::store::{Body, Failure, Ignore, Reply, Request, Store};
use plimsoll_s3::checksum::Algorithm;
use plimsoll_s3::url::{StoreUrl, parse};

/// Unit of chunk sizes in bytes: Google Cloud Storage accepts multiples of 256 KiB.
const UNIT: usize = 256 * 1024;

/// Behaviour of the server for the next upload request.
#[derive(Clone, Copy)]
enum Behaviour {
    /// Receives and keeps this number of units, then closes the connection.
    Break(usize),
    /// Receives all bytes but keeps only this number of units.
    Keep(usize),
    /// Responds with 503 Service Unavailable.
    Unavailable,
    /// Receives and keeps all bytes.
    Take,
}

/// Everything that the server recorded.
#[derive(Default)]
struct Seen {
    /// Bytes of the object that the server kept.
    kept: Vec<u8>,
    /// `Content-Range` of every request to the session.
    ranges: Vec<String>,
}

/// The parts of a request head that the server uses.
struct Head {
    line: String,
    length: usize,
    range: String,
}

fn head(reader: &mut BufReader<TcpStream>) -> Option<Head> {
    let mut head = Head { line: String::new(), length: 0, range: String::new() };
    if reader.read_line(&mut head.line).ok()? == 0 {
        return None;
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", n)) => head.length = n.parse().ok()?,
            Some(("content-range", range)) => head.range = range.to_string(),
            _ if line.is_empty() => return Some(head),
            _ => {}
        }
    }
}

fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
}

/// Reports the number of bytes kept so far.
fn send_progress(stream: &mut TcpStream, kept: usize) {
    // If no byte was kept, the response has no Range header.
    let range = if kept > 0 { format!("range: bytes=0-{}\r\n", kept - 1) } else { String::new() };
    answer(stream, "308 Resume Incomplete", &range, "");
}

/// Serves one upload session. `total` is the length of the object in bytes.
fn serve(listener: &TcpListener, behaviours: &[Behaviour], total: usize, seen: &Mutex<Seen>) {
    let mut behaviours = behaviours.iter().copied();
    while let Ok((stream, _)) = listener.accept() {
        let mut stream = stream;
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(head) = head(&mut reader) {
            if head.line.starts_with("POST /stop") {
                return;
            }
            if head.line.starts_with("POST") {
                reader.read_exact(&mut vec![0; head.length]).unwrap();
                answer(&mut stream, "200 OK", "location: /session?upload_id=1\r\n", "");
                continue;
            }
            let mut seen = seen.lock().unwrap();
            seen.ranges.push(head.range.clone());
            if head.range.starts_with("bytes */") {
                send_progress(&mut stream, seen.kept.len());
                continue;
            }
            let from: usize = head.range["bytes ".len()..].split('-').next().unwrap().parse().unwrap();
            assert_eq!(from, seen.kept.len(), "the client resumes at the first missing byte");
            let behaviour = behaviours.next().unwrap_or(Behaviour::Take);
            let mut take = |n: usize, seen: &mut Seen| {
                let mut data = vec![0; n];
                reader.read_exact(&mut data).unwrap();
                seen.kept.extend(data);
            };
            match behaviour {
                Behaviour::Break(units) => {
                    take((units * UNIT).min(head.length), &mut seen);
                    break;
                }
                Behaviour::Keep(units) => {
                    take(head.length, &mut seen);
                    seen.kept.truncate(from + units * UNIT);
                    send_progress(&mut stream, seen.kept.len());
                }
                Behaviour::Unavailable => {
                    reader.read_exact(&mut vec![0; head.length]).unwrap();
                    answer(&mut stream, "503 Service Unavailable", "", "");
                }
                Behaviour::Take => {
                    take(head.length, &mut seen);
                    if seen.kept.len() < total {
                        send_progress(&mut stream, seen.kept.len());
                        continue;
                    }
                    let sum = Algorithm::Crc32c.of(&seen.kept);
                    let object =
                        format!("{{\"size\": \"{total}\", \"generation\": \"1\", \"crc32c\": \"{sum}\"}}");
                    answer(&mut stream, "200 OK", "content-type: application/json\r\n", &object);
                }
            }
        }
    }
}

/// Uploads an object of `units` units to a server with this behaviour. Returns the content, the bytes that the server
/// kept, the Content-Range of each request, and the result.
fn upload(
    units: usize,
    chunk: &str,
    behaviours: &[Behaviour],
) -> (Vec<u8>, Vec<u8>, Vec<String>, Result<Reply, Failure>) {
    let content: Vec<u8> = (0..units * UNIT).map(|i| (i % 249) as u8).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (behaviours, recorded, total) = (behaviours.to_vec(), Arc::clone(&seen), content.len());
    let server = std::thread::spawn(move || serve(&listener, &behaviours, total, &recorded));
    let text = format!("gs://bucket?sign=off&upload=resumable{chunk}&endpoint=http://127.0.0.1:{port}");
    let Ok(StoreUrl::Gcs(url)) = parse(&text, &|_| None) else { panic!("{text}") };
    let store = GcsStore::open(*url, &text, None, Route::default()).unwrap();
    let body = Body::Whole(content.clone().into());
    let result =
        block_on(async { store.connection(0).execute(Request::Put { key: "k", body }, &mut Ignore).await });
    let mut stop = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stop.write_all(b"POST /stop HTTP/1.1\r\n\r\n").unwrap();
    server.join().expect("an assertion in the server failed");
    let seen = seen.lock().unwrap();
    (content, seen.kept.clone(), seen.ranges.clone(), result)
}

#[test]
fn an_upload_resumes_after_its_connection_breaks() {
    let (content, kept, ranges, result) = upload(8, "", &[Behaviour::Break(3), Behaviour::Break(2)]);
    let reply = result.unwrap();
    assert!(kept == content && reply.bytes == content.len() as u64);
    assert_eq!(reply.timings.reconnects, 2);
    let total = content.len();
    let from = |units: usize| format!("bytes {}-{}/{total}", units * UNIT, total - 1);
    let query = format!("bytes */{total}");
    assert_eq!(ranges, [from(0), query.clone(), from(3), query, from(5)]);
}

#[test]
fn bytes_that_the_server_did_not_keep_are_sent_again() {
    let (content, kept, ranges, result) = upload(
        6,
        "&chunk=512KiB",
        &[Behaviour::Keep(1), Behaviour::Take, Behaviour::Keep(0), Behaviour::Take],
    );
    result.unwrap();
    assert!(kept == content, "{ranges:?}");
    assert!(
        ranges.iter().all(|r| !r.starts_with("bytes */")),
        "no request failed, so the client sent no status query"
    );
}

#[test]
fn an_upload_survives_a_briefly_unavailable_store() {
    let (content, kept, ranges, result) =
        upload(4, "", &[Behaviour::Unavailable, Behaviour::Break(0), Behaviour::Unavailable]);
    result.unwrap();
    assert!(kept == content, "{ranges:?}");
}

#[test]
fn an_upload_without_progress_fails() {
    let (_, kept, ranges, result) = upload(4, "", &[Behaviour::Break(0); 40]);
    let failure = result.map(|_| ()).unwrap_err();
    assert!(kept.is_empty() && ranges.len() < 20, "{failure} {ranges:?}");
}
