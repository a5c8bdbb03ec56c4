//! HTTP/1.1 as a client: the bytes of requests, and the heads and bodies of responses (RFC 9112). No input or output:
//! [`super::connection`] moves the bytes.
//!
//! Object stores are measured with it because an operation must cost little. A request is one buffer that its caller
//! writes; a head is parsed once and copied once; a body is read where the socket put it. hyper is the reference of the
//! tests.

pub mod framing;
pub mod head;
pub mod outgoing;
pub mod receiver;

use std::io;

/// Failure of an exchange over HTTP/1.1.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The peer closed the connection before the end of the response.
    #[error("the peer closed the connection before the end of the response")]
    Closed,
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer sent something other than a response of HTTP/1.1 or 1.0.
    #[error("the response is not valid HTTP: {0}")]
    Invalid(&'static str),
    /// The peer sent bytes that belong to no request.
    #[error("the peer sent bytes before the request")]
    Unexpected,
}
