//! Classes of failed operations.

use std::fmt;

/// The class under which a failed operation is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The store sent an error response: HTTP status and S3 code, such as `503 SlowDown`.
    Response(String),
    /// The deadline passed.
    Timeout,
    /// No connection could be established.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The connection broke, or the response was not HTTP.
    Reset,
    /// The content differs from what was written, or the response is malformed.
    Corrupt,
    /// A local file could not be read or written.
    File,
    /// The request was not sent, because it would exceed the cost limit of the run.
    Withheld,
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorClass::Response(class) => class,
            ErrorClass::Timeout => "timeout",
            ErrorClass::Connect => "connect",
            ErrorClass::Tls => "tls",
            ErrorClass::Reset => "reset",
            ErrorClass::Corrupt => "corrupt",
            ErrorClass::File => "file",
            ErrorClass::Withheld => "withheld",
        })
    }
}
