//! Facts about a store that a run records besides its operations.

use std::collections::BTreeMap;

/// Facts about a store that a run records. They contain no secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// The store's URL as the user wrote it, without credentials.
    pub url: String,
    /// Name of the provider or kind of store, such as `aws-s3`, `generic` or `memory`.
    pub provider: String,
    /// Endpoint as `scheme://host:port`, or the directory of a file store; empty if there is none.
    pub endpoint: String,
    /// Socket addresses that the endpoint resolves to.
    pub addresses: Vec<String>,
    /// Signing method in words, such as `signed payload`, `unsigned payload` or `none`; for a directory, the
    /// steps of a put.
    pub signing: String,
}

/// Facts about a relay, from its responses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayFacts {
    /// Number of operations by place, such as a data centre of Cloudflare or a region of AWS.
    pub places: BTreeMap<String, u64>,
    /// Greatest common divisor of all durations in microseconds, which is the step of the relay's clock; 0 if there is
    /// no duration.
    pub step_us: u64,
}

/// A request that the store makes for itself, such as for a session. It belongs to no operation and is counted
/// separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundRequest {
    /// Kind of the request.
    pub kind: BackgroundRequestKind,
    /// Start time, in nanoseconds on the monotonic clock.
    pub began_ns: u64,
    /// Duration in nanoseconds.
    pub took_ns: u64,
    /// Error message; `None` if the request succeeded.
    pub error: Option<String>,
}

/// Kinds of background requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundRequestKind {
    /// Session of an S3 directory bucket.
    CreateSession,
    /// OAuth access token of Google Cloud.
    Token,
}

impl BackgroundRequestKind {
    /// Returns the name used in results.
    pub fn name(self) -> &'static str {
        match self {
            BackgroundRequestKind::CreateSession => "CreateSession",
            BackgroundRequestKind::Token => "token",
        }
    }
}
