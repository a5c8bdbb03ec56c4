//! HTTP responses: bodies made of pieces, XML documents and errors.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Stream, stream};
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

    /// Returns the pieces as a stream.
    pub fn into_stream(mut self) -> impl Stream<Item = io::Result<Bytes>> {
        stream::poll_fn(move |cx| self.poll_piece(cx))
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
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(piece) = ready!(self.poll_piece(cx)) else { return Poll::Ready(None) };
        let piece = piece?;
        self.left = self.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.pieces.is_empty()
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
