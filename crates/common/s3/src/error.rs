//! S3 error responses as the client parses them (`server::error` writes them): a code, a message and a request id
//! in XML, sometimes in the body of a 200 response.

use super::xml::Element;

/// An error response from a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status} {code}: {message}")]
pub struct S3Error {
    /// HTTP status code.
    pub status: u16,
    /// S3 error code, such as `NoSuchKey`; empty if the body had none.
    pub code: String,
    /// The store's message; empty if it sent none.
    pub message: String,
    /// Value of `x-amz-request-id`, or the body's `RequestId` if that header is missing.
    pub request_id: String,
}

impl S3Error {
    /// Parses an error response. `body` may be empty (HEAD) or not XML (a response from a proxy).
    pub fn parse(status: u16, request_id: &str, body: &[u8]) -> S3Error {
        let element = Element::parse(body).ok().filter(|root| root.name == "Error");
        let text = |name: &str| element.as_ref().and_then(|e| e.text_of(name)).unwrap_or("").to_string();
        let mut error = S3Error {
            status,
            code: text("Code"),
            message: text("Message"),
            request_id: request_id.to_string(),
        };
        if error.request_id.is_empty() {
            error.request_id = text("RequestId");
        }
        error
    }

    /// Returns the error in the body of a 200 response, which CompleteMultipartUpload, CopyObject and DeleteObjects may
    /// send. Returns `None` if the body is not an error.
    pub fn inside_success(request_id: &str, body: &[u8]) -> Option<S3Error> {
        let head = &body[..body.len().min(512)];
        if !head.windows(7).any(|w| w == b"<Error>") {
            return None;
        }
        let error = S3Error::parse(200, request_id, body);
        (!error.code.is_empty()).then_some(error)
    }

    /// Returns the class under which results count the error: `503 SlowDown`, or `502` if it has no code.
    pub fn class(&self) -> String {
        if self.code.is_empty() { self.status.to_string() } else { format!("{} {}", self.status, self.code) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Reduce &amp; wait</Message><RequestId>R1</RequestId></Error>";

    #[test]
    fn reads_code_message_and_request_id() {
        let error = S3Error::parse(503, "", BODY);
        assert_eq!(error.class(), "503 SlowDown");
        assert_eq!((error.message.as_str(), error.request_id.as_str()), ("Reduce & wait", "R1"));
        assert_eq!(S3Error::parse(502, "id", b"<html>bad gateway").class(), "502");
        assert_eq!(S3Error::parse(404, "", b"").class(), "404");
    }

    #[test]
    fn an_error_in_a_200_response_is_found() {
        assert_eq!(S3Error::inside_success("r", BODY).unwrap().code, "SlowDown");
        assert_eq!(
            S3Error::inside_success("r", b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"),
            None
        );
    }
}
