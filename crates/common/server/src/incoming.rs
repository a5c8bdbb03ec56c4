//! Pieces of request bodies as they arrive.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use hyper::body::{Body, Incoming};

use super::error::{ApiError, ErrorCode};

/// Returns the next piece of a request body; `None` at its end.
pub(super) async fn frame(body: &mut Incoming) -> Option<Result<Bytes, ApiError>> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            // Ignore HTTP trailers: S3 puts its own trailers inside `aws-chunked`.
            Ok(frame) => {
                if let Ok(piece) = frame.into_data() {
                    return Some(Ok(piece));
                }
            }
            Err(_) => return Some(Err(ApiError::new(ErrorCode::IncompleteBody))),
        }
    }
}
