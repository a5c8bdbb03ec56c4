//! Failed operations: how they are counted, what a person reads of them, whether another attempt may help.

use std::fmt;

use super::Timings;
use crate::text::one_line;

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

/// Longest class in bytes; the codes of S3 have up to 40.
const LONGEST_CLASS: usize = 80;

/// A class that can be a name in tables and metrics: status and code, where the code is a word.
fn short_class(class: String) -> String {
    let fit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'.' | b'_' | b'-' | b':' | b'#');
    if class.len() <= LONGEST_CLASS && class.bytes().all(fit) {
        return class;
    }
    class.bytes().filter(|b| fit(*b)).take(LONGEST_CLASS).map(char::from).collect()
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
    /// A failure with its times. Class and message may hold what a peer sent: they become one line of bounded length.
    pub fn new(class: ErrorClass, message: impl Into<String>, timings: Timings) -> Failure {
        let class = match class {
            ErrorClass::Answered(class) => ErrorClass::Answered(short_class(class)),
            class => class,
        };
        let message = message.into();
        let message = match one_line(&message) {
            std::borrow::Cow::Borrowed(same) if same.len() == message.len() => message,
            changed => changed.into_owned(),
        };
        Failure { class, message, timings }
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

    /// Codes and messages of a server reached terminals and labels as they came.
    #[test]
    fn what_a_server_says_becomes_one_line_of_bounded_length() {
        let class = ErrorClass::Answered(format!("500 \u{1b}[2J{}", "x".repeat(1000)));
        let failure = Failure::new(class, "first\nsecond\u{1b}[31m", Timings::default());
        assert_eq!(failure.status(), Some(500));
        let text = failure.to_string();
        assert!(text.lines().count() == 1 && !text.contains('\u{1b}') && text.len() < 200, "{text}");
    }

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
