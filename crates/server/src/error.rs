//! The S3 API errors that this server returns: code, status, message, and the XML document that carries them (S3 API
//! reference, "Error responses").

use super::response::{ServerResponse, empty, http_date, set, xml};
use hyper::StatusCode;
use plimsoll_s3::xml::XmlWriter;

/// An S3 error; its code determines the HTTP status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// Error code as in the S3 API.
    pub code: &'static str,
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

/// Error codes with their HTTP status and S3's own message, sorted by code.
const TABLE: &[(&str, u16, &str)] = &[
    ("AccessDenied", 403, "Access Denied"),
    ("AuthorizationHeaderMalformed", 400, "The authorization header is malformed."),
    ("AuthorizationQueryParametersError", 400, "Error parsing the X-Amz-Credential parameter."),
    ("BadDigest", 400, "The Content-MD5 or checksum value you specified did not match what we received."),
    ("BadRequest", 400, "Bad Request"),
    (
        "BucketAlreadyOwnedByYou",
        409,
        "Your previous request to create the named bucket succeeded and you already own it.",
    ),
    ("BucketNotEmpty", 409, "The bucket you tried to delete is not empty."),
    ("EntityTooLarge", 400, "Your proposed upload exceeds the maximum allowed object size."),
    ("EntityTooSmall", 400, "Your proposed upload is smaller than the minimum allowed size"),
    ("ExpiredToken", 400, "The provided token has expired."),
    (
        "IncompleteBody",
        400,
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
    ),
    (
        "InsufficientStorage",
        507,
        "The server has too little free disk space for this request. Delete objects or add space.",
    ),
    ("InternalError", 500, "We encountered an internal error. Please try again."),
    ("InvalidAccessKeyId", 403, "The AWS Access Key Id you provided does not exist in our records."),
    ("InvalidArgument", 400, "Invalid Argument"),
    ("InvalidBucketName", 400, "The specified bucket is not valid."),
    ("InvalidDigest", 400, "The Content-Md5 you specified is not valid."),
    ("InvalidLocationConstraint", 400, "The specified location constraint is not valid"),
    (
        "InvalidPart",
        400,
        "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.",
    ),
    ("InvalidPartNumber", 416, "The requested partnumber is not satisfiable."),
    (
        "InvalidPartOrder",
        400,
        "The list of parts was not in ascending order. Parts must be ordered by part number.",
    ),
    (
        "InvalidPolicyDocument",
        400,
        "The content of the form does not meet the conditions specified in the policy document.",
    ),
    ("InvalidRange", 416, "The requested range is not satisfiable"),
    ("InvalidRequest", 400, "Invalid Request"),
    ("InvalidStorageClass", 400, "The storage class you specified is not valid"),
    ("InvalidTag", 400, "The tag provided was not a valid tag."),
    ("InvalidToken", 400, "The provided token is malformed or otherwise not valid."),
    ("InvalidURI", 400, "Couldn't parse the specified URI."),
    ("KeyTooLongError", 400, "Your key is too long"),
    (
        "MalformedACLError",
        400,
        "The XML you provided was not well-formed or did not validate against our published schema.",
    ),
    ("MalformedPOSTRequest", 400, "The body of your POST request is not well-formed multipart/form-data."),
    (
        "MalformedTrailerError",
        400,
        "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    ),
    (
        "MalformedXML",
        400,
        "The XML you provided was not well-formed or did not validate against our published schema.",
    ),
    ("MaxMessageLengthExceeded", 400, "Your request was too large."),
    (
        "MaxPostPreDataLengthExceededError",
        400,
        "Your POST request fields preceding the upload file were too large.",
    ),
    ("MetadataTooLarge", 400, "Your metadata headers exceed the maximum allowed metadata size"),
    ("MethodNotAllowed", 405, "The specified method is not allowed against this resource."),
    ("MissingContentLength", 411, "You must provide the Content-Length HTTP header."),
    ("NoSuchBucket", 404, "The specified bucket does not exist."),
    ("NoSuchCORSConfiguration", 404, "The CORS configuration does not exist"),
    ("NoSuchKey", 404, "The specified key does not exist."),
    ("NoSuchLifecycleConfiguration", 404, "The lifecycle configuration does not exist"),
    ("NoSuchTagSet", 404, "The TagSet does not exist"),
    (
        "NoSuchUpload",
        404,
        "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.",
    ),
    ("NoSuchVersion", 404, "The specified version does not exist."),
    ("NotImplemented", 501, "A header you provided implies functionality that is not implemented."),
    ("NotModified", 304, "Not Modified"),
    ("PreconditionFailed", 412, "At least one of the pre-conditions you specified did not hold."),
    (
        "RequestTimeTooSkewed",
        403,
        "The difference between the request time and the current time is too large.",
    ),
    ("ServiceUnavailable", 503, "Service is unable to handle request."),
    (
        "SignatureDoesNotMatch",
        403,
        "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
    ),
    ("SlowDown", 503, "Please reduce your request rate."),
    (
        "XAmzContentSHA256Mismatch",
        400,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    ),
];

impl ApiError {
    /// Creates an error with S3's own message for the code.
    pub fn new(code: &'static str) -> ApiError {
        let message = TABLE.iter().find(|(c, ..)| *c == code).map_or("", |(.., m)| m);
        ApiError { code, message: message.to_string(), detail: None, marker: None }
    }

    /// Creates an error with a custom message.
    pub fn with(code: &'static str, message: impl Into<String>) -> ApiError {
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

    /// Returns the HTTP status of the code; 500 for an unknown code.
    pub fn status(&self) -> StatusCode {
        let status = TABLE.iter().find(|(code, ..)| *code == self.code).map_or(500, |(_, status, _)| *status);
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the response to a failed request: the error as an XML document. `with_body` is false for HEAD; a 304
    /// response never has a body.
    pub fn response(&self, resource: &str, request_id: &str, with_body: bool) -> ServerResponse {
        let mut response = if with_body && self.status() != StatusCode::NOT_MODIFIED {
            let mut writer = XmlWriter::bare("Error");
            writer.text("Code", self.code).text("Message", &self.message);
            if let Some((name, text)) = &self.detail {
                writer.text(name, text);
            }
            writer.text("Resource", resource).text("RequestId", request_id);
            xml(writer.finish())
        } else {
            empty(200)
        };
        *response.status_mut() = self.status();
        if let Some(marker) = &self.marker {
            let headers = response.headers_mut();
            set(headers, "x-amz-delete-marker", "true");
            set(headers, "x-amz-version-id", &marker.version);
            if self.code == "MethodNotAllowed" {
                set(headers, "last-modified", &http_date(marker.modified));
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_valid_status_and_a_message() {
        for (code, status, message) in TABLE {
            assert!(StatusCode::from_u16(*status).is_ok() && !message.is_empty(), "{code}");
        }
        assert_eq!(ApiError::new("NoSuchKey").status(), 404);
        assert!(TABLE.windows(2).all(|w| w[0].0 < w[1].0), "the table must be sorted");
    }
}
