//! Compares responses as `net::http1` reads them with responses as hyper reads them: valid ones, and many that are
//! mutated. Both must return the same status, fields and body, or both refuse.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;
use plimsoll_base::net::http1::HttpError;
use plimsoll_base::net::http1::framing::Step;
use plimsoll_base::net::http1::receiver::Receiver;
use plimsoll_base::rng::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of mutated responses. `PLIMSOLL_RESPONSES` sets another one.
const MUTATED: u64 = 20_000;

/// Name and value of each field.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;
/// Status, fields and body of a response.
type Seen = (u16, Fields, Vec<u8>);

/// A peer that sends canned bytes in reads of at most `step` bytes, and then closes.
struct Canned {
    bytes: Vec<u8>,
    sent: usize,
    step: usize,
    asked: bool,
}

impl Canned {
    fn take(&mut self, room: usize) -> &[u8] {
        let end = (self.sent + self.step.min(room)).min(self.bytes.len());
        let from = std::mem::replace(&mut self.sent, end);
        &self.bytes[from..end]
    }
}

impl AsyncRead for Canned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.asked {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let room = buf.remaining();
        buf.put_slice(self.take(room));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Canned {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn by_plimsoll(bytes: &[u8], step: usize, is_head: bool) -> Result<Seen, HttpError> {
    let mut canned = Canned { bytes: bytes.to_vec(), sent: 0, step, asked: true };
    let mut receiver = Receiver::default();
    receiver.begin(is_head);
    let mut read = |receiver: &mut Receiver| {
        let space = receiver.space();
        let taken = canned.take(space.len());
        space[..taken.len()].copy_from_slice(taken);
        let length = taken.len();
        receiver.received(length);
        length
    };
    let head = loop {
        match receiver.head()? {
            Some(head) => break head,
            None if read(&mut receiver) == 0 => return Err(HttpError::Closed),
            None => {}
        }
    };
    let mut body = Vec::new();
    loop {
        match receiver.step()? {
            Step::Piece(piece) => body.extend_from_slice(receiver.bytes(piece)),
            Step::End => break,
            Step::More if read(&mut receiver) == 0 => receiver.ended()?,
            Step::More => {}
        }
    }
    let fields = head.fields().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    Ok((head.status(), sorted(fields.collect()), body))
}

async fn by_hyper(bytes: &[u8], step: usize, is_head: bool) -> Result<Seen, hyper::Error> {
    let canned = Canned { bytes: bytes.to_vec(), sent: 0, step, asked: false };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(canned)).await?;
    let mut connection = std::pin::pin!(connection);
    let request = hyper::Request::builder().method(if is_head { "HEAD" } else { "GET" }).uri("/");
    let request = request.body(String::new()).unwrap();
    let exchange = async {
        let (head, mut body) = sender.send_request(request).await?.into_parts();
        let mut content = Vec::new();
        while let Some(frame) = next(&mut body).await {
            if let Ok(data) = frame?.into_data() {
                content.extend_from_slice(&data);
            }
        }
        let fields =
            head.headers.iter().map(|(name, value)| (name.as_str().into(), value.as_bytes().to_vec()));
        Ok((head.status.as_u16(), sorted(fields.collect()), content))
    };
    let mut exchange = std::pin::pin!(exchange);
    let mut is_over = false;
    std::future::poll_fn(|cx| {
        // The exchange reports the connection's errors, too.
        if !is_over {
            is_over = connection.as_mut().poll(cx).is_ready();
        }
        exchange.as_mut().poll(cx)
    })
    .await
}

async fn next(body: &mut Incoming) -> Option<Result<hyper::body::Frame<bytes::Bytes>, hyper::Error>> {
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Sorts fields by name, because hyper groups the fields of a name.
fn sorted(mut fields: Fields) -> Fields {
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields
}

/// Reads a response in both ways. Returns true if both accept it.
fn compare(runtime: &tokio::runtime::Runtime, bytes: &[u8], step: usize, is_head: bool) -> bool {
    let ours = by_plimsoll(bytes, step, is_head);
    let theirs = runtime.block_on(by_hyper(bytes, step, is_head));
    // hyper hands a connection that changes the protocol to its user; stores do not change it.
    if matches!(&theirs, Ok((101, ..))) {
        assert!(ours.is_err());
        return false;
    }
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(bytes)),
        (Err(_), Err(_)) => {}
        _ => panic!("{:?}\nours {ours:?}\nhyper {theirs:?}", String::from_utf8_lossy(bytes)),
    }
    ours.is_ok()
}

const RESPONSES: [&str; 14] = [
    "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nx-amz-request-id: 0A1\r\nContent-Length: 11\r\n\r\nhello world",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-4/10\r\ncontent-length: 5, 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n00A \r\n0123456789\r\n0\r\nA: 1\r\nB: 2\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nx: y\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\ncontent-length: 100\r\n\r\n",
    "HTTP/1.1 404 Not Found\r\nContent-Type: application/xml\r\n\r\n<Error><Code>NoSuchKey</Code></Error>",
    "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    "HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
    "HTTP/1.1 503 Slow Down\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 500 \r\ntransfer-encoding: identity\r\n\r\nbroken",
];

/// Bytes that separate the parts of responses, and others.
const ALPHABET: &[u8] = b"\r\n\r\n\t :;,=0159afxAFX/.-+HTP\0\x0b\x7f\x80\xff\"";

/// Applies one to three random edits: another byte, a byte less or more, a part twice, or an early end.
fn mutated(draws: Stream, number: u64) -> Vec<u8> {
    let draw = |which: u64, below: usize| draws.below(number * 32 + which, below as u64) as usize;
    let mut bytes = RESPONSES[draw(0, RESPONSES.len())].as_bytes().to_vec();
    for edit in 0..1 + draw(1, 3) as u64 {
        let which = 2 + edit * 5;
        let (kind, at) = (draw(which, 12), draw(which + 1, bytes.len().max(1)));
        let letter = ALPHABET[draw(which + 2, ALPHABET.len())];
        match kind {
            _ if bytes.is_empty() => bytes.push(letter),
            0..=3 => bytes[at] = letter,
            4..=6 => bytes.insert(at, letter),
            7..=8 => {
                bytes.remove(at);
            }
            9..=10 => {
                let part = bytes[at..(at + 1 + draw(which + 3, 20)).min(bytes.len())].to_vec();
                let to = draw(which + 4, bytes.len());
                bytes.splice(to..to, part);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn responses_are_read_as_hyper_reads_them() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for text in RESPONSES {
        for step in [1, 3, 1000] {
            for is_head in [false, true] {
                assert!(compare(&runtime, text.as_bytes(), step, is_head), "{text:?}");
            }
        }
    }
    let count = std::env::var("PLIMSOLL_RESPONSES").ok().and_then(|n| n.parse().ok()).unwrap_or(MUTATED);
    let draws = Stream::new(39, "responses");
    let mut accepted = 0u64;
    for number in 0..count {
        let bytes = mutated(draws, number);
        let step = [1, 2, 7, 1000][(number % 4) as usize];
        accepted += u64::from(compare(&runtime, &bytes, step, number.is_multiple_of(9)));
    }
    // Both kinds of results must occur often.
    assert!((count / 5..count * 4 / 5).contains(&accepted), "{accepted} of {count}");
}
