//! Resumable uploads to a server that breaks off in the middle of a chunk, keeps less than it took, or is away for a moment.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::support::block_on;
use plimsoll::s3::checksum::Algorithm;
use plimsoll::store::gcs::GcsStore;
use plimsoll::store::url::{StoreUrl, parse};
use plimsoll::store::{Body, Failure, Ignore, Reply, Request, Store};

const UNIT: usize = 256 * 1024;

/// What the server does with the next bytes that are sent to it.
#[derive(Clone, Copy)]
enum Deed {
    /// Takes so many units, keeps them, and closes the connection.
    Break(usize),
    /// Takes everything and keeps so many units of it.
    Keep(usize),
    /// Answers 503.
    Away,
    /// Takes everything.
    Take,
}

#[derive(Default)]
struct Seen {
    kept: Vec<u8>,
    /// `Content-Range` of every request to the session.
    ranges: Vec<String>,
}

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

fn standing(stream: &mut TcpStream, kept: usize) {
    // Without a byte kept there is no Range at all.
    let range = if kept > 0 { format!("range: bytes=0-{}\r\n", kept - 1) } else { String::new() };
    answer(stream, "308 Resume Incomplete", &range, "");
}

/// Serves one session; `total` is the length of the object.
fn serve(listener: &TcpListener, deeds: &[Deed], total: usize, seen: &Mutex<Seen>) {
    let mut deeds = deeds.iter().copied();
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
                standing(&mut stream, seen.kept.len());
                continue;
            }
            let from: usize = head.range["bytes ".len()..].split('-').next().unwrap().parse().unwrap();
            assert_eq!(from, seen.kept.len(), "it goes on where the server stands");
            let deed = deeds.next().unwrap_or(Deed::Take);
            let mut take = |n: usize, seen: &mut Seen| {
                let mut data = vec![0; n];
                reader.read_exact(&mut data).unwrap();
                seen.kept.extend(data);
            };
            match deed {
                Deed::Break(units) => {
                    take((units * UNIT).min(head.length), &mut seen);
                    break;
                }
                Deed::Keep(units) => {
                    take(head.length, &mut seen);
                    seen.kept.truncate(from + units * UNIT);
                    standing(&mut stream, seen.kept.len());
                }
                Deed::Away => {
                    reader.read_exact(&mut vec![0; head.length]).unwrap();
                    answer(&mut stream, "503 Service Unavailable", "", "");
                }
                Deed::Take => {
                    take(head.length, &mut seen);
                    if seen.kept.len() < total {
                        standing(&mut stream, seen.kept.len());
                        continue;
                    }
                    let sum = Algorithm::Crc32c.of(&seen.kept);
                    let made =
                        format!("{{\"size\": \"{total}\", \"generation\": \"1\", \"crc32c\": \"{sum}\"}}");
                    answer(&mut stream, "200 OK", "content-type: application/json\r\n", &made);
                }
            }
        }
    }
}

/// Uploads an object of so many units through a server that does these deeds; what it kept, what it was asked, how it ended.
fn upload(
    units: usize,
    chunk: &str,
    deeds: &[Deed],
) -> (Vec<u8>, Vec<u8>, Vec<String>, Result<Reply, Failure>) {
    let content: Vec<u8> = (0..units * UNIT).map(|i| (i % 249) as u8).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (deeds, theirs, total) = (deeds.to_vec(), Arc::clone(&seen), content.len());
    let server = std::thread::spawn(move || serve(&listener, &deeds, total, &theirs));
    let text = format!("gs://bucket?sign=off&upload=resumable{chunk}&endpoint=http://127.0.0.1:{port}");
    let Ok(StoreUrl::Gcs(url)) = parse(&text, &|_| None) else { panic!("{text}") };
    let store = GcsStore::open(*url, &text, None, None).unwrap();
    let body = Body::Whole(content.clone().into());
    let result =
        block_on(async { store.connection(0).execute(Request::Put { key: "k", body }, &mut Ignore).await });
    let mut stop = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stop.write_all(b"POST /stop HTTP/1.1\r\n\r\n").unwrap();
    server.join().expect("the server saw nothing wrong");
    let seen = seen.lock().unwrap();
    (content, seen.kept.clone(), seen.ranges.clone(), result)
}

#[test]
fn an_upload_goes_on_after_its_connection_broke() {
    let (content, kept, ranges, result) = upload(8, "", &[Deed::Break(3), Deed::Break(2)]);
    let reply = result.unwrap();
    assert!(kept == content && reply.bytes == content.len() as u64);
    assert_eq!(reply.timings.reconnects, 2);
    let total = content.len();
    let from = |units: usize| format!("bytes {}-{}/{total}", units * UNIT, total - 1);
    let asked = format!("bytes */{total}");
    assert_eq!(ranges, [from(0), asked.clone(), from(3), asked, from(5)]);
}

#[test]
fn what_the_server_did_not_keep_is_sent_again() {
    let (content, kept, ranges, result) =
        upload(6, "&chunk=512KiB", &[Deed::Keep(1), Deed::Take, Deed::Keep(0), Deed::Take]);
    result.unwrap();
    assert!(kept == content, "{ranges:?}");
    assert!(ranges.iter().all(|r| !r.starts_with("bytes */")), "nothing failed, so nothing was asked");
}

#[test]
fn a_store_that_is_away_for_a_moment_loses_nothing() {
    let (content, kept, ranges, result) = upload(4, "", &[Deed::Away, Deed::Break(0), Deed::Away]);
    result.unwrap();
    assert!(kept == content, "{ranges:?}");
}

#[test]
fn an_upload_that_gets_nowhere_ends() {
    let (_, kept, ranges, result) = upload(4, "", &[Deed::Break(0); 40]);
    let failure = result.map(|_| ()).unwrap_err();
    assert!(kept.is_empty() && ranges.len() < 20, "{failure} {ranges:?}");
}
