//! Observers of finished requests: metrics and logs.

use std::net::IpAddr;

use http::Method;

use super::route::ApiOperation;

/// A finished request.
#[derive(Debug)]
pub struct FinishedRequest<'a> {
    /// Id of the request, as in its response.
    pub id: &'a str,
    /// Operation; `None` if the request was rejected before it was routed.
    pub operation: Option<ApiOperation>,
    /// Address of the other end of the connection, which may be a proxy; `None` if it is unknown.
    pub peer: Option<IpAddr>,
    /// Value of the header `X-Forwarded-For`, which anybody can send; empty if there is none.
    pub forwarded_for: &'a str,
    /// HTTP method of the request.
    pub method: &'a Method,
    /// Raw path of the request.
    pub path: &'a str,
    /// Raw query of the request, which may contain a signature; empty if there is none.
    pub query: &'a str,
    /// Access key; empty for a request without one.
    pub access_key: &'a str,
    /// Bucket of the request, which may not exist; empty if there is none or the request was rejected.
    pub bucket: &'a str,
    /// Key of the request, decoded; empty if there is none or the request was rejected.
    pub key: &'a str,
    /// HTTP status of the response.
    pub status: u16,
    /// Bytes of the payload of the request.
    pub bytes_in: u64,
    /// Object bytes that a successful copy copied; `None` if they are unknown, and for other requests.
    pub copied: Option<u64>,
    /// Bytes of the body of the response.
    pub bytes_out: u64,
    /// Value of the header `Content-Range` of the response; `None` if it has none.
    pub content_range: Option<&'a str>,
    /// Time in nanoseconds from the arrival of the first byte until the response was ready.
    pub duration_ns: u64,
}

/// An observer of finished requests. The threads that serve connections call it.
pub trait RequestObserver: Send + Sync {
    /// Records a finished request.
    fn finished(&self, request: &FinishedRequest<'_>);
}
