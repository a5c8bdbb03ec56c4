//! Bodies of responses, read from their connections.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};
use object_store::client::HttpError;

use super::pool::{Host, Link, Pool};
use super::{broken, late};
use crate::chunks::CHUNK;
use plimsoll_catalog::liveness;

/// Length of a piece of a body, in bytes: the length of a chunk with a checksum.
const PIECE: usize = CHUNK;

/// A connection with the rest of a body on it.
struct Open {
    link: Link,
    /// Bytes that were not handed out yet.
    piece: BytesMut,
}

/// The body of a response. At its end, its connection is free for another request.
pub struct ReceivedBody {
    /// `None` at the end. The lock makes the body usable by reference from several threads; nothing else takes it.
    open: Mutex<Option<Open>>,
    host: Host,
    pool: Arc<Pool>,
    /// Bytes that are left; `None` if the response does not say it.
    left: Option<u64>,
}

impl ReceivedBody {
    /// Creates the body of the response whose head a connection has just received.
    pub fn new(link: Link, host: Host, pool: Arc<Pool>) -> ReceivedBody {
        let left = link.connection.body_left();
        let mut body = ReceivedBody { open: Mutex::default(), host, pool, left };
        if left == Some(0) {
            body.pool.give(&body.host, link);
        } else {
            *body.open.get_mut().unwrap_or_else(PoisonError::into_inner) =
                Some(Open { link, piece: BytesMut::new() });
        }
        body
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = &mut *self;
        let slot = this.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = slot else { return Poll::Ready(None) };
        let room = this.left.map_or(PIECE, |left| usize::try_from(left).unwrap_or(PIECE).min(PIECE));
        // Fills the piece with what arrives, so that pieces are few.
        let more = loop {
            if open.piece.len() >= room {
                break true;
            }
            match open.link.connection.poll_body(cx, &mut open.piece, room) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => break false,
                Poll::Ready(Err(error)) => {
                    *slot = None;
                    return Poll::Ready(Some(Err(broken(error))));
                }
                Poll::Pending => {
                    ready!(open.link.timer.as_mut().poll(cx));
                    *slot = None;
                    return Poll::Ready(Some(Err(late("the response"))));
                }
            }
        };
        let piece = std::mem::take(&mut open.piece).freeze();
        liveness::at("the rest of a body");
        if let Some(left) = &mut this.left {
            *left = left.saturating_sub(piece.len() as u64);
        }
        if (!more || this.left == Some(0))
            && let Some(open) = slot.take()
        {
            this.pool.give(&this.host, open.link);
        }
        Poll::Ready(if piece.is_empty() { None } else { Some(Ok(Frame::data(piece))) })
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
