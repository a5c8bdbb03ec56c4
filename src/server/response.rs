//! HTTP responses: bodies made of pieces, XML documents, errors, and the damage done by injected faults.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};

/// Body of a response, as a queue of pieces.
#[derive(Default)]
pub struct ResponseBody {
    pieces: VecDeque<Bytes>,
    announced: u64,
    broken: bool,
    /// True after one extra poll of a truncated body, in which hyper can write the pieces before the abort.
    flushed: bool,
}

impl ResponseBody {
    /// Creates a body of consecutive pieces.
    pub fn new(pieces: Vec<Bytes>) -> ResponseBody {
        let announced = pieces.iter().map(|p| p.len() as u64).sum();
        ResponseBody { pieces: pieces.into(), announced, broken: false, flushed: false }
    }

    /// Returns the announced length in bytes.
    pub fn size(&self) -> u64 {
        self.announced
    }

    /// Truncates the body: it announces its full length, sends half of it and then aborts the connection.
    pub fn truncate(&mut self) {
        let mut left = self.announced / 2;
        for piece in &mut self.pieces {
            piece.truncate(left.min(piece.len() as u64) as usize);
            left -= piece.len() as u64;
        }
        self.broken = self.announced > 0;
    }

    /// Changes the byte at offset `at` modulo the length.
    pub fn corrupt(&mut self, at: u64) {
        let mut at = if self.announced == 0 { return } else { at % self.announced };
        for piece in &mut self.pieces {
            if at < piece.len() as u64 {
                let mut changed = piece.to_vec();
                changed[at as usize] ^= 0x55;
                *piece = Bytes::from(changed);
                return;
            }
            at -= piece.len() as u64;
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.pieces.is_empty() && self.broken && !self.flushed {
            self.flushed = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(match self.pieces.pop_front() {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None if self.broken => Some(Err(io::ErrorKind::ConnectionAborted.into())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && !self.broken
    }

    fn size_hint(&self) -> SizeHint {
        let sent =
            if self.broken { self.announced } else { self.pieces.iter().map(|p| p.len() as u64).sum() };
        SizeHint::with_exact(sent)
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
