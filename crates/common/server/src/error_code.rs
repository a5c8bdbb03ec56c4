//! Error codes of the S3 API (S3 API reference, "List of error codes").

use hyper::StatusCode;

/// Declares the error codes with their HTTP status and S3's own message.
macro_rules! error_codes {
    ($($code:ident $status:literal $message:literal,)+) => {
        /// Error codes of the S3 API.
        #[allow(missing_docs, reason = "the names are those of the S3 API")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorCode {
            $($code,)+
        }

        impl ErrorCode {
            /// All codes, in alphabetical order.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$code,)+];

            /// Returns the code as in responses.
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => stringify!($code),)+
                }
            }

            /// Returns the HTTP status.
            pub fn status(self) -> StatusCode {
                let status = match self {
                    $(ErrorCode::$code => $status,)+
                };
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }

            /// Returns S3's own message.
            pub fn message(self) -> &'static str {
                match self {
                    $(ErrorCode::$code => $message,)+
                }
            }
        }
    };
}

error_codes! {
    AccessDenied 403 "Access Denied",
    AuthorizationHeaderMalformed 400 "The authorization header is malformed.",
    AuthorizationQueryParametersError 400 "Error parsing the X-Amz-Credential parameter.",
    BadDigest 400 "The Content-MD5 or checksum value you specified did not match what we received.",
    BadRequest 400 "Bad Request",
    BucketAlreadyOwnedByYou 409 "Your previous request to create the named bucket succeeded and you already own it.",
    BucketNotEmpty 409 "The bucket you tried to delete is not empty.",
    EntityTooLarge 400 "Your proposed upload exceeds the maximum allowed object size.",
    EntityTooSmall 400 "Your proposed upload is smaller than the minimum allowed size",
    ExpiredToken 400 "The provided token has expired.",
    IncompleteBody 400 "You did not provide the number of bytes specified by the Content-Length HTTP header",
    InsufficientStorage 507 "The server has too little free disk space for this request. Delete objects or add space.",
    InternalError 500 "We encountered an internal error. Please try again.",
    InvalidAccessKeyId 403 "The AWS Access Key Id you provided does not exist in our records.",
    InvalidArgument 400 "Invalid Argument",
    InvalidBucketName 400 "The specified bucket is not valid.",
    InvalidDigest 400 "The Content-Md5 you specified is not valid.",
    InvalidLocationConstraint 400 "The specified location constraint is not valid",
    InvalidPart 400 "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.",
    InvalidPartNumber 416 "The requested partnumber is not satisfiable.",
    InvalidPartOrder 400 "The list of parts was not in ascending order. Parts must be ordered by part number.",
    InvalidPolicyDocument 400 "The content of the form does not meet the conditions specified in the policy document.",
    InvalidRange 416 "The requested range is not satisfiable",
    InvalidRequest 400 "Invalid Request",
    InvalidStorageClass 400 "The storage class you specified is not valid",
    InvalidTag 400 "The tag provided was not a valid tag.",
    InvalidToken 400 "The provided token is malformed or otherwise not valid.",
    InvalidURI 400 "Couldn't parse the specified URI.",
    KeyTooLongError 400 "Your key is too long",
    MalformedACLError 400 "The XML you provided was not well-formed or did not validate against our published schema.",
    MalformedPOSTRequest 400 "The body of your POST request is not well-formed multipart/form-data.",
    MalformedTrailerError 400 "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    MalformedXML 400 "The XML you provided was not well-formed or did not validate against our published schema.",
    MaxMessageLengthExceeded 400 "Your request was too large.",
    MaxPostPreDataLengthExceededError 400 "Your POST request fields preceding the upload file were too large.",
    MetadataTooLarge 400 "Your metadata headers exceed the maximum allowed metadata size",
    MethodNotAllowed 405 "The specified method is not allowed against this resource.",
    MissingContentLength 411 "You must provide the Content-Length HTTP header.",
    NoSuchBucket 404 "The specified bucket does not exist.",
    NoSuchBucketPolicy 404 "The bucket policy does not exist",
    NoSuchCORSConfiguration 404 "The CORS configuration does not exist",
    NoSuchKey 404 "The specified key does not exist.",
    NoSuchLifecycleConfiguration 404 "The lifecycle configuration does not exist",
    NoSuchPublicAccessBlockConfiguration 404 "The public access block configuration was not found",
    NoSuchTagSet 404 "The TagSet does not exist",
    NoSuchUpload 404 "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.",
    NoSuchVersion 404 "The specified version does not exist.",
    NoSuchWebsiteConfiguration 404 "The specified bucket does not have a website configuration",
    NotImplemented 501 "A header you provided implies functionality that is not implemented.",
    NotModified 304 "Not Modified",
    ObjectLockConfigurationNotFoundError 404 "Object Lock configuration does not exist for this bucket",
    OperationAborted 409 "A conflicting conditional operation is currently in progress against this resource. Please try again.",
    OwnershipControlsNotFoundError 404 "The bucket ownership controls were not found",
    PreconditionFailed 412 "At least one of the pre-conditions you specified did not hold.",
    ReplicationConfigurationNotFoundError 404 "The replication configuration was not found",
    RequestTimeTooSkewed 403 "The difference between the request time and the current time is too large.",
    ServerSideEncryptionConfigurationNotFoundError 404 "The server side encryption configuration was not found",
    ServiceUnavailable 503 "Service is unable to handle request.",
    SignatureDoesNotMatch 403 "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
    SlowDown 503 "Please reduce your request rate.",
    XAmzContentSHA256Mismatch 400 "The provided 'x-amz-content-sha256' header does not match what was computed.",
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_valid_status_and_a_message() {
        let valid = |code: &ErrorCode| code.status().as_u16() > 200 && !code.message().is_empty();
        assert!(ErrorCode::ALL.iter().all(valid));
        assert_eq!(ErrorCode::NoSuchKey.status(), 404);
        assert_eq!(ErrorCode::InternalError.to_string(), "InternalError");
    }
}
