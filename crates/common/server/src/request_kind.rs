//! Kinds of requests.

use http::header::RANGE;
use http::{HeaderMap, Method};

/// Kinds of requests that take different times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// Read of an object.
    Get,
    /// Read of a range of an object.
    GetRange,
    /// Read of the metadata of an object.
    Head,
    /// Write of an object or a part.
    Put,
    /// Copy of an object within the store.
    Copy,
    /// Deletion of an object.
    Delete,
    /// Listing of a bucket.
    List,
}

impl RequestKind {
    /// Returns the kind of a request; `None` for requests about buckets, which take no time.
    pub fn of(method: &Method, path: &str, headers: &HeaderMap) -> Option<RequestKind> {
        let (bucket, key) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
        match (method.as_str(), key.is_empty()) {
            ("GET", false) => {
                Some(if headers.contains_key(RANGE) { RequestKind::GetRange } else { RequestKind::Get })
            }
            ("HEAD", false) => Some(RequestKind::Head),
            ("PUT", false) if headers.contains_key("x-amz-copy-source") => Some(RequestKind::Copy),
            ("PUT" | "POST", false) => Some(RequestKind::Put),
            ("DELETE", false) => Some(RequestKind::Delete),
            ("GET", true) if !bucket.trim_matches('/').is_empty() => Some(RequestKind::List),
            _ => None,
        }
    }

    /// Returns the kinds whose times are used if a kind was not measured, the most similar one first.
    pub fn substitutes(self) -> &'static [RequestKind] {
        match self {
            RequestKind::Get => &[RequestKind::GetRange, RequestKind::Head],
            RequestKind::GetRange => &[RequestKind::Get, RequestKind::Head],
            RequestKind::Head | RequestKind::List => {
                &[RequestKind::Head, RequestKind::Get, RequestKind::GetRange]
            }
            RequestKind::Put => &[RequestKind::Copy, RequestKind::Delete],
            RequestKind::Copy => &[RequestKind::Put, RequestKind::Delete],
            RequestKind::Delete => &[RequestKind::Put],
        }
    }
}
