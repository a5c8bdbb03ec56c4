//! The operations on the tags of an object.

use super::{VerifiedCall, set_version};
use crate::config::tags::Tags;
use crate::error::ApiError;
use crate::response::{ServerResponse, empty, xml};
use crate::service::{ObjectChange, ObjectService};

pub async fn get<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let object = call.service.open(&bucket, &call.route.key, call.version()).await?;
    let mut answer = xml(object.as_ref().tags.to_xml());
    set_version(&mut answer, object.as_ref().version.as_deref());
    Ok(answer)
}

pub async fn put<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let tags = Tags::parse(&call.document, false)?;
    replace(call, tags, 200).await
}

pub async fn delete<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    replace(call, Tags::default(), 204).await
}

async fn replace<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    tags: Tags,
    status: u16,
) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let version = call
        .service
        .change_object(&bucket, &call.route.key, call.version(), ObjectChange::Tags(tags))
        .await?;
    let mut answer = empty(status);
    set_version(&mut answer, version.as_deref());
    Ok(answer)
}
