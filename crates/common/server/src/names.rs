//! Names of the S3 headers of most requests, parsed once.

use http::HeaderName;

/// Time of the request.
pub static AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
/// Declared hash of the body.
pub static AMZ_CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
/// Identifier that the server gives a request.
pub static AMZ_REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
/// Source of a copy.
pub static AMZ_COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
/// Request for the checksum of an object.
pub static AMZ_CHECKSUM_MODE: HeaderName = HeaderName::from_static("x-amz-checksum-mode");
/// Algorithm of the checksum of a new object.
pub static AMZ_CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-checksum-algorithm");
/// Kind of a checksum: of the whole object, or of its parts.
pub static AMZ_CHECKSUM_TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");
/// Algorithm of the checksum that an SDK adds.
pub static AMZ_SDK_CHECKSUM: HeaderName = HeaderName::from_static("x-amz-sdk-checksum-algorithm");
/// Names of the trailers of a chunked body.
pub static AMZ_TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");
/// Length of a chunked body without its framing.
pub static AMZ_DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
/// Tags of a new object.
pub static AMZ_TAGGING: HeaderName = HeaderName::from_static("x-amz-tagging");
/// Canned access control list.
pub static AMZ_ACL: HeaderName = HeaderName::from_static("x-amz-acl");
/// Storage class of a new object.
pub static AMZ_STORAGE_CLASS: HeaderName = HeaderName::from_static("x-amz-storage-class");
/// MD5 of the body.
pub static CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// Question of an administrator for the place of an object and, in the response, the place.
pub static WHERE: HeaderName = HeaderName::from_static("x-plimsoll-where");
/// Size of a new object.
pub static AMZ_OBJECT_SIZE: HeaderName = HeaderName::from_static("x-amz-object-size");
