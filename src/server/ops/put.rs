//! The PutObject operation.

use http::header::ETAG;

use super::Call;
use crate::net::encode::hex;
use crate::s3::checksum::{Algorithm, md5};
use crate::server::error::ApiError;
use crate::server::response::{ServerResponse, empty, set};
use crate::server::state::{Object, StoredChecksum};

pub fn put(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    if !call.parts.headers.contains_key("content-length")
        && !call.parts.headers.contains_key("transfer-encoding")
    {
        return Err(ApiError::new("MissingContentLength"));
    }
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let headers = call.object_headers()?;
    let data = call.received.data.clone();
    let digest = call.received.md5.unwrap_or_else(|| md5(&data));
    let mut object =
        Object::new(call.memory(), &call.route.key, vec![data.clone()], hex(&bucket.tag(digest)), headers)?;
    let declared = call.received.checksum.clone().or_else(|| {
        // S3 computes CRC64NVME for an object uploaded without a checksum.
        let requested = call.header("x-amz-checksum-algorithm").and_then(Algorithm::from_name);
        let algorithm = requested.unwrap_or(Algorithm::Crc64Nvme);
        Some((algorithm, algorithm.of(&data)))
    });
    object.checksum =
        declared.map(|(algorithm, value)| StoredChecksum { algorithm, value, full_object: true });
    let mut answer = empty(200);
    answer.headers_mut().insert(ETAG, object.etag_header.clone());
    set(answer.headers_mut(), "x-amz-object-size", &object.size.to_string());
    if let Some(checksum) = &object.checksum {
        set(answer.headers_mut(), checksum.algorithm.header(), &checksum.value);
        set(answer.headers_mut(), "x-amz-checksum-type", "FULL_OBJECT");
    }
    call.store(&bucket, object)?;
    Ok(answer)
}
