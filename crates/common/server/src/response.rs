//! HTTP responses: bodies made of pieces, XML documents and errors.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::header::IntoHeaderName;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};

use super::error::{ApiError, ErrorCode};
use super::reserve::{Memory, held};
use plimsoll_s3::xml::XmlWriter;

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
    /// Gate of the connection; a stream continues when the socket has its last piece.
    gate: Option<Rc<Gate>>,
    /// True for a document that exists only for this response.
    is_document: bool,
}

/// Size in bytes above which a document counts against the memory limit.
const USUAL_DOCUMENT: u64 = 32 * 1024;

/// Shows whether the socket of a connection has accepted everything that was written.
#[derive(Default)]
pub struct Gate {
    is_closed: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Gate {
    /// Records that the socket has accepted everything.
    pub fn open(&self) {
        self.is_closed.set(false);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
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

    /// Makes a stream wait for the socket after each piece, so that a client that does not read keeps one piece in
    /// memory.
    #[must_use]
    pub fn gated(mut self, gate: &Rc<Gate>) -> ResponseBody {
        self.gate = self.stream.is_some().then(|| Rc::clone(gate));
        self
    }

    /// Reserves the memory of a large document until it has been sent.
    ///
    /// # Errors
    /// `SlowDown` if the limit would be exceeded.
    pub fn reserve(&mut self, memory: &Arc<Memory>) -> Result<(), ApiError> {
        if self.is_document && self.announced > USUAL_DOCUMENT {
            // The transport drops the body when it has its last piece, and keeps the piece.
            for piece in &mut self.pieces {
                let reservation = memory.reserve(piece.len() as u64)?;
                *piece = held(std::mem::take(piece), reservation);
            }
        }
        Ok(())
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
            self.left = self.left.saturating_sub(piece.len() as u64);
            return Poll::Ready(Some(Ok(piece)));
        }
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        if let Some(gate) = self.gate.as_ref().filter(|gate| gate.is_closed.get()) {
            gate.waiting.replace(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        match ready!(stream.as_mut().poll_next(cx)) {
            None if self.left > 0 => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            piece => {
                let bytes = piece.as_ref().and_then(|piece| piece.as_ref().ok()).map_or(0, Bytes::len);
                self.left = self.left.saturating_sub(bytes as u64);
                Poll::Ready(piece)
            }
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(piece) = ready!(self.poll_piece(cx)) else { return Poll::Ready(None) };
        let piece = piece?;
        if let Some(gate) = &self.gate {
            // The transport writes nothing for an empty piece.
            gate.is_closed.set(!piece.is_empty());
        }
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
    let mut body = ResponseBody::new(vec![Bytes::from(document.into_bytes().into_boxed_slice())]);
    body.is_document = true;
    let mut answer = Response::new(body);
    set(answer.headers_mut(), "content-type", "application/xml");
    answer
}

/// Returns the response to a failed request: the error as an XML document (S3 API
/// reference, "Error responses"). `with_body` is false for HEAD; a 304
/// response never has a body.
pub fn of_error(error: &ApiError, resource: &str, request_id: &str, with_body: bool) -> ServerResponse {
    let mut response = if with_body && error.code != ErrorCode::NotModified {
        let mut writer = XmlWriter::bare("Error");
        writer.text("Code", error.code.name()).text("Message", &error.message);
        if let Some((name, text)) = &error.detail {
            writer.text(name, text);
        }
        writer.text("Resource", resource).text("RequestId", request_id);
        xml(writer.finish())
    } else {
        empty(200)
    };
    *response.status_mut() = error.code.status();
    if let Some(marker) = &error.marker {
        let headers = response.headers_mut();
        set(headers, "x-amz-delete-marker", "true");
        set(headers, "x-amz-version-id", &marker.version);
        if error.code == ErrorCode::MethodNotAllowed {
            set(headers, "last-modified", &http_date(marker.modified));
        }
    }
    response
}

/// Sets a header; does nothing if `value` is not a valid header value.
pub fn set(headers: &mut HeaderMap, name: impl IntoHeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name, value);
    }
}

/// Formats a time as an HTTP date (RFC 9110, 5.6.7), such as `Sun, 06 Nov 1994 08:49:37 GMT`; empty before year 0.
pub fn http_date(time: jiff::Timestamp) -> String {
    let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
    printer.timestamp_to_rfc9110_string(&time).unwrap_or_default()
}

/// Formats a time as in listings, such as `2009-10-12T17:50:30.000Z`.
pub fn iso_date(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker;

    #[test]
    fn dates_have_the_forms_of_http_and_of_listings() {
        let time = "1994-11-06T08:49:37.0129Z".parse().unwrap();
        assert_eq!(http_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(iso_date(time), "1994-11-06T08:49:37.012Z");
        assert_eq!(iso_date(jiff::Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_stream_hands_out_one_piece_until_the_socket_has_it() {
        let pieces = ["a", "", "b"].map(|piece| Ok(Bytes::from(piece)));
        let gate = Rc::new(Gate::default());
        let mut body = ResponseBody::of_stream(Box::pin(stream::iter(pieces)), 2).gated(&gate);
        let waker = noop_waker();
        let mut next = || match Pin::new(&mut body).poll_frame(&mut Context::from_waker(&waker)) {
            Poll::Ready(frame) => Some(frame.map(|frame| frame.unwrap().into_data().unwrap())),
            Poll::Pending => None,
        };
        assert_eq!(next(), Some(Some("a".into())));
        assert_eq!((next(), next()), (None, None));
        gate.open();
        assert_eq!(
            (next(), next()),
            (Some(Some("".into())), Some(Some("b".into()))),
            "an empty piece is not sent"
        );
        assert_eq!(next(), None);
        gate.open();
        assert_eq!(next(), Some(None));
    }

    #[test]
    fn a_large_document_counts_against_the_memory_limit_until_it_is_sent() {
        let memory = Memory::new(100_000);
        let mut large = xml("x".repeat(90_000));
        large.body_mut().reserve(&memory).unwrap();
        assert_eq!(memory.used(), 90_000);
        assert!(xml("x".repeat(90_000)).body_mut().reserve(&memory).is_err());
        xml("x".repeat(1000)).body_mut().reserve(&memory).unwrap();
        let piece = large.body_mut().pieces.pop_front().unwrap();
        drop(large);
        assert_eq!(memory.used(), 90_000, "the transport has the piece");
        drop(piece);
        assert_eq!(memory.used(), 0);
    }
}
