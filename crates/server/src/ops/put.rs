//! The PutObject operation.

use http::header::{CONTENT_LENGTH, ETAG, TRANSFER_ENCODING};

use super::{Call, set_expiry, set_version};
use crate::body::BodyReader;
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, empty, set};
use crate::service::ObjectService;

pub async fn put<S: ObjectService>(
    call: &Call<'_, S>,
    body: &mut BodyReader<'_>,
) -> Result<ServerResponse, ApiError> {
    if !call.parts.headers.contains_key(CONTENT_LENGTH) && !call.parts.headers.contains_key(TRANSFER_ENCODING)
    {
        return Err(ApiError::new(ErrorCode::MissingContentLength));
    }
    let bucket = call.bucket().await?;
    let new = call.new_object()?;
    body.want(new.checksum);
    let object = call.service.put(&bucket, &call.route.key, new, body).await?;
    let mut answer = empty(200);
    set(answer.headers_mut(), "x-amz-object-size", &object.size.to_string());
    if let Some(checksum) = &object.checksum {
        set(answer.headers_mut(), checksum.algorithm.header(), &checksum.value);
        set(answer.headers_mut(), "x-amz-checksum-type", "FULL_OBJECT");
    }
    set_version(&mut answer, object.version.as_deref());
    set_expiry(&mut answer, bucket.as_ref(), &call.route.key, &object);
    answer.headers_mut().insert(ETAG, object.etag_header);
    Ok(answer)
}
