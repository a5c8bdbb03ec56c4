//! Answers: bodies in pieces, XML, errors, and the damage that an injected fault does to them.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};

use super::error::ApiError;
use crate::s3::xml::XmlWriter;

/// The body of an answer.
#[derive(Default)]
pub struct AnswerBody {
    pieces: VecDeque<Bytes>,
    announced: u64,
    broken: bool,
    /// Whether what was sent of a broken body has been given a chance to leave.
    flushed: bool,
}

impl AnswerBody {
    /// A body of consecutive pieces.
    pub fn new(pieces: Vec<Bytes>) -> AnswerBody {
        let announced = pieces.iter().map(|p| p.len() as u64).sum();
        AnswerBody { pieces: pieces.into(), announced, broken: false, flushed: false }
    }

    /// Bytes in all.
    pub fn size(&self) -> u64 {
        self.announced
    }

    /// Keeps the announced length, sends half of it and breaks off.
    pub fn truncate(&mut self) {
        let mut left = self.announced / 2;
        for piece in &mut self.pieces {
            piece.truncate(left.min(piece.len() as u64) as usize);
            left -= piece.len() as u64;
        }
        self.broken = self.announced > 0;
    }

    /// Changes byte `at` (modulo the length).
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

impl Body for AnswerBody {
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

/// An answer under construction.
pub type Answer = Response<AnswerBody>;

/// An answer without a body.
pub fn empty(status: u16) -> Answer {
    let mut answer = Response::new(AnswerBody::default());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    answer
}

/// An answer with an XML document.
pub fn xml(document: String) -> Answer {
    let mut answer = Response::new(AnswerBody::new(vec![Bytes::from(document)]));
    set(answer.headers_mut(), "content-type", "application/xml");
    answer
}

/// The answer to a failed request. HEAD and 304 answers have no body.
pub fn error(error: &ApiError, resource: &str, request_id: &str, with_body: bool) -> Answer {
    let mut answer = if with_body && error.status() != StatusCode::NOT_MODIFIED {
        let mut writer = XmlWriter::bare("Error");
        writer.text("Code", error.code).text("Message", &error.message);
        if let Some((name, text)) = &error.detail {
            writer.text(name, text);
        }
        writer.text("Resource", resource).text("RequestId", request_id);
        xml(writer.finish())
    } else {
        empty(200)
    };
    *answer.status_mut() = error.status();
    answer
}

/// Sets a header whose value may not be one; such a value is left out.
pub fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
