//! Framing and hash of request bodies.

use plimsoll_s3::chunked::ChunkSigner;

/// Framing and hash of the request body, as declared in `x-amz-content-sha256`.
pub enum Payload {
    /// No hash: the signature does not cover the body.
    Unsigned,
    /// SHA-256 of the body in hexadecimal.
    Sha256(String),
    /// Body in `aws-chunked` framing; each chunk is signed if there is a signer.
    Chunked(Option<Box<ChunkSigner>>),
}
