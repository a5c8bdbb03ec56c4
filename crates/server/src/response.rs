//! HTTP responses: bodies made of pieces, XML documents, errors, and the damage done by injected faults.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};

/// A stream of the pieces of a response body.
pub type PieceStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>>>>;

/// Body of a response: a queue of pieces, and a stream of further pieces.
#[derive(Default)]
pub struct ResponseBody {
    pieces: VecDeque<Bytes>,
    stream: Option<PieceStream>,
    announced: u64,
    /// Bytes that were not yet handed out.
    left: u64,
    /// Number of bytes to send before the body breaks off; `None` for an intact body.
    broken: Option<u64>,
    /// Offset of a byte to change; `None` for an intact body.
    corrupt: Option<u64>,
    /// True after one extra poll of a truncated body, in which hyper can write the pieces before the abort.
    flushed: bool,
}

impl ResponseBody {
    /// Creates a body of consecutive pieces.
    pub fn new(pieces: Vec<Bytes>) -> ResponseBody {
        let announced = pieces.iter().map(|p| p.len() as u64).sum();
        ResponseBody { pieces: pieces.into(), announced, left: announced, ..ResponseBody::default() }
    }

    /// Creates a body from a stream of `size` bytes. If the stream ends early or fails, the connection is aborted.
    pub fn of_stream(stream: PieceStream, size: u64) -> ResponseBody {
        ResponseBody { stream: Some(stream), announced: size, left: size, ..ResponseBody::default() }
    }

    /// Returns the announced length in bytes.
    pub fn size(&self) -> u64 {
        self.announced
    }

    /// Truncates the body: it announces its full length, sends half of it and then aborts the connection.
    pub fn truncate(&mut self) {
        self.broken = (self.announced > 0).then_some(self.announced / 2);
    }

    /// Changes the byte at offset `at` modulo the length.
    pub fn corrupt(&mut self, at: u64) {
        self.corrupt = at.checked_rem(self.announced);
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(Some(Ok(piece)));
        }
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        match ready!(stream.as_mut().poll_next(cx)) {
            None if self.left > 0 => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            piece => Poll::Ready(piece),
        }
    }

    /// Damages a piece that begins at offset `at` as the injected fault demands.
    fn damage(&self, at: u64, piece: Bytes) -> Bytes {
        let mut piece = piece;
        if let Some(wrong) = self.corrupt
            && (at..at + piece.len() as u64).contains(&wrong)
        {
            let mut changed = piece.to_vec();
            changed[(wrong - at) as usize] ^= 0x55;
            piece = Bytes::from(changed);
        }
        if let Some(end) = self.broken {
            piece.truncate(end.saturating_sub(at).min(piece.len() as u64) as usize);
        }
        piece
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let at = self.announced - self.left;
        if self.broken.is_some_and(|end| at >= end) {
            if !self.flushed {
                self.flushed = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
        }
        let Some(piece) = ready!(self.poll_piece(cx)) else { return Poll::Ready(None) };
        let piece = piece?;
        self.left = self.left.saturating_sub(piece.len() as u64);
        let piece =
            if self.broken.is_some() || self.corrupt.is_some() { self.damage(at, piece) } else { piece };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.pieces.is_empty() && self.broken.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A response of this server.
pub type ServerResponse = Response<ResponseBody>;

/// Creates a response with this status and no body.
pub fn empty(status: u16) -> ServerResponse {
    let mut answer = Response::new(ResponseBody::default());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    answer
}

/// Creates a response with status 200 and an XML document.
pub fn xml(document: String) -> ServerResponse {
    let mut answer = Response::new(ResponseBody::new(vec![Bytes::from(document)]));
    set(answer.headers_mut(), "content-type", "application/xml");
    answer
}

/// Sets a header; does nothing if `value` is not a valid header value.
pub fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// Formats a time as an HTTP date, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http_date(time: jiff::Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Formats a time as in listings, such as `2009-10-12T17:50:30.000Z`.
pub fn iso_date(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
