//! Failed operations: error classes, messages, and which failures may be retried.

use plimsoll_base::text::one_line;
use plimsoll_recorder::{ErrorClass, Timings};

/// Maximum length of an error class in bytes. S3 error codes have up to 40.
const MAX_CLASS_LEN: usize = 80;

/// Returns a class that is safe as a name in tables and metrics: removes unsafe characters and limits the
/// length.
fn short_class(class: String) -> String {
    let fit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'.' | b'_' | b'-' | b':' | b'#');
    if class.len() <= MAX_CLASS_LEN && class.bytes().all(fit) {
        return class;
    }
    class.bytes().filter(|b| fit(*b)).take(MAX_CLASS_LEN).map(char::from).collect()
}

/// A failed operation, with its error class and times.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{class}: {message}")]
pub struct Failure {
    /// Class under which the failure is counted.
    pub class: ErrorClass,
    /// Message for the user; never contains a secret.
    pub message: String,
    /// Times of the operation up to the failure.
    pub timings: Timings,
}

impl Failure {
    /// Creates a failure. Class and message may contain text from a peer, so each is reduced to one line of
    /// bounded length.
    pub fn new(class: ErrorClass, message: impl Into<String>, timings: Timings) -> Failure {
        let class = match class {
            ErrorClass::Response(class) => ErrorClass::Response(short_class(class)),
            class => class,
        };
        let message = message.into();
        let message = match one_line(&message) {
            std::borrow::Cow::Borrowed(same) if same.len() == message.len() => message,
            changed => changed.into_owned(),
        };
        Failure { class, message, timings }
    }

    /// Returns true if the store responded with the given S3 error code.
    pub fn is_code(&self, code: &str) -> bool {
        matches!(&self.class, ErrorClass::Response(class) if class.ends_with(&format!(" {code}")))
    }

    /// Returns the failure with the class `404 NoSuchBucket`, for requests about the bucket itself.
    pub fn of_container(self) -> Failure {
        Failure { class: ErrorClass::Response("404 NoSuchBucket".into()), ..self }
    }

    /// Returns true if the store reported that the bucket or table does not exist.
    pub fn is_missing_container(&self) -> bool {
        self.is_code("NoSuchBucket") || self.is_code("ResourceNotFoundException")
    }

    /// Returns the HTTP status of the response; `None` if there was no response.
    pub fn status(&self) -> Option<u16> {
        match &self.class {
            ErrorClass::Response(class) => class.split(' ').next()?.parse().ok(),
            _ => None,
        }
    }

    /// Returns true if another attempt may succeed: after throttling, server errors and broken connections.
    pub fn is_retryable(&self) -> bool {
        match self.class {
            ErrorClass::Response(_) => {
                // S3 can send an error in the body of a 200 response.
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

    /// Regression test: codes and messages from a server used to reach terminals and labels unescaped.
    #[test]
    fn server_text_becomes_one_line_of_bounded_length() {
        let class = ErrorClass::Response(format!("500 \u{1b}[2J{}", "x".repeat(1000)));
        let failure = Failure::new(class, "first\nsecond\u{1b}[31m", Timings::default());
        assert_eq!(failure.status(), Some(500));
        let text = failure.to_string();
        assert!(text.lines().count() == 1 && !text.contains('\u{1b}') && text.len() < 200, "{text}");
    }

    #[test]
    fn only_transient_errors_are_retryable() {
        let retryable = |class| Failure::new(class, "", Timings::default()).is_retryable();
        for class in [
            "503 SlowDownRead",
            "500 InternalError",
            "200 InternalError",
            "429 TooManyRequests",
            "408",
            "502",
        ] {
            assert!(retryable(ErrorClass::Response(class.into())), "{class}");
        }
        for class in
            ["404 NoSuchKey", "403 AccessDenied", "400 EntityTooSmall", "412 PreconditionFailed", "301"]
        {
            assert!(!retryable(ErrorClass::Response(class.into())), "{class}");
        }
        assert!(retryable(ErrorClass::Reset) && retryable(ErrorClass::Connect));
        assert!(!retryable(ErrorClass::Corrupt) && !retryable(ErrorClass::File));
    }
}
