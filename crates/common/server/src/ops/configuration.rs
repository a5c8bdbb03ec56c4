//! The operations on the configuration of a bucket: versioning, tags, CORS and lifecycle rules, and the access control
//! lists of buckets and objects.

use super::VerifiedCall;
use crate::config::acl::CannedAcl;
use crate::config::cors::Cors;
use crate::config::lifecycle::Lifecycle;
use crate::config::tags::Tags;
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, empty, xml};
use crate::route::{ApiOperation, UNCONFIGURED, Unconfigured};
use crate::service::{BucketChange, ObjectChange, ObjectService, Versioning};
use plimsoll_s3::xml::{Element, XmlWriter};

/// Executes an operation on the configuration of a bucket.
///
/// # Errors
/// Returns the S3 error to send to the client.
pub async fn dispatch<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let info = bucket.as_ref();
    let document =
        |text: Option<String>, missing: ErrorCode| text.map(xml).ok_or_else(|| ApiError::new(missing));
    let (change, status) = match call.route.operation {
        ApiOperation::GetBucketVersioning => return Ok(xml(versioning_document(info.versioning))),
        ApiOperation::GetBucketTags => {
            return document(info.tags.as_ref().map(Tags::to_xml), ErrorCode::NoSuchTagSet);
        }
        ApiOperation::GetBucketCors => {
            return document(info.cors.as_ref().map(Cors::to_xml), ErrorCode::NoSuchCORSConfiguration);
        }
        ApiOperation::GetBucketLifecycle => {
            let rules = info.lifecycle.as_ref().map(Lifecycle::to_xml);
            return document(rules, ErrorCode::NoSuchLifecycleConfiguration);
        }
        ApiOperation::GetUnconfigured => return unconfigured(call),
        ApiOperation::GetBucketAcl => return Ok(xml(info.acl.to_xml(&info.owner))),
        ApiOperation::GetObjectAcl => {
            let object = call.service.open(&bucket, &call.route.key, call.version()).await?;
            return Ok(xml(object.as_ref().acl.to_xml(&info.owner)));
        }
        ApiOperation::PutObjectAcl => {
            let change = ObjectChange::Acl(requested_acl(call, &info.owner)?);
            call.service.change_object(&bucket, &call.route.key, call.version(), change).await?;
            return Ok(empty(200));
        }
        ApiOperation::PutBucketAcl => (BucketChange::Acl(requested_acl(call, &info.owner)?), 200),
        ApiOperation::PutBucketVersioning => (BucketChange::Versioning(enabled(&call.document)?), 200),
        ApiOperation::PutBucketTags => (BucketChange::Tags(Some(Tags::parse(&call.document, true)?)), 204),
        ApiOperation::PutBucketCors => (BucketChange::Cors(Some(Cors::parse(&call.document)?)), 200),
        ApiOperation::PutBucketLifecycle => {
            (BucketChange::Lifecycle(Some(Lifecycle::parse(&call.document)?)), 200)
        }
        ApiOperation::DeleteBucketTags => (BucketChange::Tags(None), 204),
        ApiOperation::DeleteBucketCors => (BucketChange::Cors(None), 204),
        ApiOperation::DeleteBucketLifecycle => (BucketChange::Lifecycle(None), 204),
        _ => return Err(ApiError::new(ErrorCode::NotImplemented)),
    };
    call.service.configure_bucket(&call.route.bucket, change).await?;
    Ok(empty(status))
}

/// Answers a request for a setting that no bucket has, as S3 does for a bucket without it.
fn unconfigured<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let named = UNCONFIGURED.iter().find(|(name, _)| call.route.parameter(name).is_some());
    match named.map(|(_, answer)| *answer) {
        Some(Unconfigured::Error(code)) => Err(ApiError::new(code)),
        Some(Unconfigured::Document(root, element)) => {
            let mut writer = XmlWriter::new(root);
            if let Some((name, text)) = element {
                writer.text(name, text);
            }
            Ok(xml(writer.finish()))
        }
        None => Err(ApiError::new(ErrorCode::NotImplemented)),
    }
}

/// Returns the access control list in a header or in the body of a request.
fn requested_acl<S: ObjectService>(call: &VerifiedCall<'_, S>, owner: &str) -> Result<CannedAcl, ApiError> {
    match call.header("x-amz-acl") {
        Some(name) => CannedAcl::from_name(name),
        None => CannedAcl::parse(&call.document, owner),
    }
}

fn versioning_document(versioning: Versioning) -> String {
    let mut writer = XmlWriter::new("VersioningConfiguration");
    match versioning {
        Versioning::Off => {}
        Versioning::Enabled => {
            writer.text("Status", "Enabled");
        }
        Versioning::Suspended => {
            writer.text("Status", "Suspended");
        }
    }
    writer.finish()
}

/// Parses a `VersioningConfiguration` document; true means that versioning is enabled.
fn enabled(document: &[u8]) -> Result<bool, ApiError> {
    let malformed = || ApiError::new(ErrorCode::MalformedXML);
    let root = Element::parse(document).map_err(|_| malformed())?;
    if root.name != "VersioningConfiguration" {
        return Err(malformed());
    }
    if root.text_of("MfaDelete").is_some_and(|text| text.trim() == "Enabled") {
        return Err(ApiError::with(ErrorCode::NotImplemented, "This server does not implement MfaDelete"));
    }
    match root.text_of("Status").map(str::trim) {
        Some("Enabled") => Ok(true),
        Some("Suspended") => Ok(false),
        _ => Err(malformed()),
    }
}
