//! The S3 API errors that this server returns.

pub use super::error_code::ErrorCode;

/// An S3 error; its code determines the HTTP status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// Error code as in the S3 API.
    pub code: ErrorCode,
    /// Human-readable message for the client.
    pub message: String,
    /// Additional element of the error document: name and text.
    pub detail: Option<(&'static str, String)>,
    /// Delete marker that hides the object; `None` if there is none.
    pub marker: Option<Box<MarkerFound>>,
}

/// Delete marker that a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkerFound {
    /// Version id of the delete marker.
    pub version: String,
    /// Time at which the delete marker was created.
    pub modified: jiff::Timestamp,
}

impl ApiError {
    /// Creates an error with S3's own message for the code.
    pub fn new(code: ErrorCode) -> ApiError {
        ApiError::with(code, code.message())
    }

    /// Creates an error with a custom message.
    pub fn with(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError { code, message: message.into(), detail: None, marker: None }
    }

    /// Adds an element to the error document; a second call replaces the first element.
    pub fn detail(mut self, name: &'static str, text: &str) -> ApiError {
        self.detail = Some((name, text.to_string()));
        self
    }

    /// Adds the delete marker that hides the object.
    pub fn hidden_by(mut self, version: String, modified: jiff::Timestamp) -> ApiError {
        self.marker = Some(Box::new(MarkerFound { version, modified }));
        self
    }
}
