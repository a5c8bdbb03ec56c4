//! Failed operations: how they are counted, what a person reads of them, whether another attempt may help.

use std::fmt;

use super::Timings;

/// Why an operation failed: the class under which it is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The store answered with an error: HTTP status and S3 code, `503 SlowDown`.
    Answered(String),
    /// The deadline passed.
    Timeout,
    /// No connection came about.
    Connect,
    /// TLS failed.
    Tls,
    /// The connection broke, or the answer was not HTTP.
    Reset,
    /// The content was not what was written.
    Corrupt,
    /// A file of ours could not be read or written.
    File,
    /// It was never sent: the run may not cost more.
    Withheld,
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorClass::Answered(class) => class,
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

/// A failed operation.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{class}: {message}")]
pub struct Failure {
    /// How it is counted.
    pub class: ErrorClass,
    /// What a person should read; never holds a secret.
    pub message: String,
    /// When.
    pub timings: Timings,
}

impl Failure {
    /// A failure with its times.
    pub fn new(class: ErrorClass, message: impl Into<String>, timings: Timings) -> Failure {
        Failure { class, message: message.into(), timings }
    }

    /// Whether the store answered with that S3 code.
    pub fn is_code(&self, code: &str) -> bool {
        matches!(&self.class, ErrorClass::Answered(class) if class.ends_with(&format!(" {code}")))
    }

    /// The same failure of a request for the bucket: what is missing is the bucket.
    pub fn of_container(self) -> Failure {
        Failure { class: ErrorClass::Answered("404 NoSuchBucket".into()), ..self }
    }

    /// Whether the store said that the bucket or table is not there.
    pub fn is_missing_container(&self) -> bool {
        self.is_code("NoSuchBucket") || self.is_code("ResourceNotFoundException")
    }

    /// The HTTP status, when the store answered.
    pub fn status(&self) -> Option<u16> {
        match &self.class {
            ErrorClass::Answered(class) => class.split(' ').next()?.parse().ok(),
            _ => None,
        }
    }

    /// Whether another attempt may succeed: throttling, server errors and broken connections.
    pub fn is_retryable(&self) -> bool {
        match self.class {
            ErrorClass::Answered(_) => {
                // S3 may find out that it must fail after it has begun to answer 200.
                let inside =
                    ["InternalError", "SlowDown", "ServiceUnavailable"].iter().any(|c| self.is_code(c));
                inside || self.status().is_some_and(|s| s == 429 || s == 408 || s >= 500)
            }
            ErrorClass::Connect | ErrorClass::Reset => true,
            ErrorClass::Timeout
            | ErrorClass::Tls
            | ErrorClass::Corrupt
            | ErrorClass::File
            | ErrorClass::Withheld => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_tried_again() {
        let may_pass = |class| Failure::new(class, "", Timings::default()).is_retryable();
        for class in [
            "503 SlowDownRead",
            "500 InternalError",
            "200 InternalError",
            "429 TooManyRequests",
            "408",
            "502",
        ] {
            assert!(may_pass(ErrorClass::Answered(class.into())), "{class}");
        }
        for class in
            ["404 NoSuchKey", "403 AccessDenied", "400 EntityTooSmall", "412 PreconditionFailed", "301"]
        {
            assert!(!may_pass(ErrorClass::Answered(class.into())), "{class}");
        }
        assert!(may_pass(ErrorClass::Reset) && may_pass(ErrorClass::Connect));
        assert!(!may_pass(ErrorClass::Corrupt) && !may_pass(ErrorClass::File));
    }
}
