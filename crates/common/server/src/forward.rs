//! The seam between the S3 protocol and another store: [`Forward`]. A request is verified here, and passed on whole.

use bytes::Bytes;
use http::request::Parts;

use super::error::ApiError;
use super::response::ServerResponse;
use super::route::Route;
use plimsoll_s3::checksum::Algorithm;

/// A request whose signature and body were verified.
#[derive(Debug)]
pub struct VerifiedRequest<'a> {
    /// Method, URI and headers as the client sent them.
    pub parts: &'a Parts,
    /// Operation and target.
    pub route: &'a Route,
    /// Body without the framing of `aws-chunked`.
    pub body: Bytes,
    /// Checksum of the body that the client declared in a header or a trailer; `None` if it declared none.
    pub checksum: Option<(Algorithm, String)>,
}

/// Component that passes requests on to another store.
pub trait Forward: Send + Sync + 'static {
    /// Passes a request on, and returns the response of the other store.
    ///
    /// # Errors
    /// Returns the S3 error for the client if there is no response, or the request may not be passed on.
    fn forward(&self, request: VerifiedRequest<'_>)
    -> impl Future<Output = Result<ServerResponse, ApiError>>;
}
