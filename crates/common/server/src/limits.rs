//! Limits on the sizes of requests.

use super::error_code::ErrorCode;
use super::route::ApiOperation;

/// Maximum size of a request head in bytes; a larger one gets status 431 (S3 itself allows 8 KiB).
pub const MAX_HEAD_BYTES: usize = 256 * 1024;

/// Maximum size of an XML document in a request, in bytes.
pub const MAX_XML_BYTES: u64 = 1 << 20;

/// Maximum size of a CompleteMultipartUpload document in bytes; it lists up to 10,000 parts.
const MAX_COMPLETE_BYTES: u64 = 4 << 20;

/// Maximum size of a DeleteObjects document in bytes: 1,000 keys of 1,024 bytes take more than 1 MiB.
const MAX_DELETE_BYTES: u64 = 2 << 20;

/// Maximum size of all documents that are being sent, in bytes: clients read some hundred pages of listings at a time.
pub const MAX_DOCUMENTS: u64 = 128 << 20;

/// Bytes of a response that the kernel takes before it can send them.
pub const MAX_UNSENT_BYTES: u32 = 256 * 1024;

/// Divisor of the payload size that gives the allowance for `aws-chunked` framing: 128 bytes per 1,024.
/// [`MAX_XML_BYTES`] covers the trailers.
pub const FRAMING_DIVISOR: u64 = 8;

/// Returns the maximum size of the payload of an operation in bytes and the error code for a larger one.
pub fn payload_limit(operation: ApiOperation, max_body: u64) -> (u64, ErrorCode) {
    match operation {
        ApiOperation::PutObject | ApiOperation::UploadPart | ApiOperation::PostObject => {
            (max_body, ErrorCode::EntityTooLarge)
        }
        ApiOperation::CompleteUpload => (MAX_COMPLETE_BYTES, ErrorCode::MaxMessageLengthExceeded),
        ApiOperation::DeleteObjects => (MAX_DELETE_BYTES, ErrorCode::MaxMessageLengthExceeded),
        _ => (MAX_XML_BYTES, ErrorCode::MaxMessageLengthExceeded),
    }
}
