//! Kinds of requests.

use http::header::RANGE;
use http::{HeaderMap, Method};

/// Kinds of requests that take different times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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

impl Kind {
    /// Returns the kind of a request; `None` for requests about buckets, which take no time.
    pub fn of(method: &Method, path: &str, headers: &HeaderMap) -> Option<Kind> {
        let (bucket, key) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
        match (method.as_str(), key.is_empty()) {
            ("GET", false) => Some(if headers.contains_key(RANGE) { Kind::GetRange } else { Kind::Get }),
            ("HEAD", false) => Some(Kind::Head),
            ("PUT", false) if headers.contains_key("x-amz-copy-source") => Some(Kind::Copy),
            ("PUT" | "POST", false) => Some(Kind::Put),
            ("DELETE", false) => Some(Kind::Delete),
            ("GET", true) if !bucket.trim_matches('/').is_empty() => Some(Kind::List),
            _ => None,
        }
    }

    /// Returns the kinds whose times are used if a kind was not measured, the most similar one first.
    pub fn substitutes(self) -> &'static [Kind] {
        match self {
            Kind::Get => &[Kind::GetRange, Kind::Head],
            Kind::GetRange => &[Kind::Get, Kind::Head],
            Kind::Head | Kind::List => &[Kind::Head, Kind::Get, Kind::GetRange],
            Kind::Put => &[Kind::Copy, Kind::Delete],
            Kind::Copy => &[Kind::Put, Kind::Delete],
            Kind::Delete => &[Kind::Put],
        }
    }
}
