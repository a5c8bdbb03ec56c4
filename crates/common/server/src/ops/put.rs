//! The PutObject operation.

use http::HeaderValue;
use http::header::{CONTENT_LENGTH, ETAG, TRANSFER_ENCODING};

use super::{VerifiedCall, set_expiry, set_version};
use crate::body::BodyReader;
use crate::error::{ApiError, ErrorCode};
use crate::names::{AMZ_CHECKSUM_TYPE, AMZ_OBJECT_SIZE};
use crate::response::{ServerResponse, empty, set};
use crate::service::ObjectService;

pub async fn put<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
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
    answer.headers_mut().insert(&AMZ_OBJECT_SIZE, HeaderValue::from(object.size));
    if let Some(checksum) = &object.checksum {
        set(answer.headers_mut(), checksum.algorithm.header(), &checksum.value);
        set(answer.headers_mut(), &AMZ_CHECKSUM_TYPE, "FULL_OBJECT");
    }
    set_version(&mut answer, object.version.as_deref());
    set_expiry(&mut answer, bucket.as_ref(), &call.route.key, &object);
    answer.headers_mut().insert(ETAG, object.etag_header);
    Ok(answer)
}
