//! The PostObject operation: upload by HTML form.

use http::{HeaderName, HeaderValue};
use hyper::body::Incoming;

use super::{VerifiedCall, set_version};
use crate::accounts::check;
use crate::auth::verify_policy;
use crate::body::BodyReader;
use crate::conditions::WriteConditions;
use crate::config::acl::CannedAcl;
use crate::config::tags::Tags;
use crate::error::{ApiError, ErrorCode};
use crate::form::{Fields, read};
use crate::response::{ServerResponse, empty, set, xml};
use crate::service::{NewObject, ObjectInfo, ObjectService};
use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::encode_path;
use plimsoll_s3::checksum::Algorithm;
use plimsoll_s3::xml::XmlWriter;

/// Handles PostObject.
///
/// # Errors
/// Returns the S3 error for a malformed form, a wrong signature, or a policy that does not allow the upload.
pub async fn object<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    incoming: &mut Incoming,
) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let (fields, file) = read(call.parts, incoming).await?;
    let key = fields.key()?;
    if key.len() > 1024 {
        return Err(ApiError::new(ErrorCode::KeyTooLongError));
    }
    let (least, most) = match fields.get("policy") {
        Some(policy) => {
            let account = verify_policy(&fields, call.accounts, policy)?;
            check(call.service, &account.rights, &account.credentials.access_key, call.route).await?;
            fields.check_policy(&call.route.bucket, &key, wall_now())?
        }
        None => {
            check(call.service, call.rights, call.client, call.route).await?;
            (0, u64::MAX)
        }
    };
    let new = new_object(&fields, call.service.features().storage_classes)?;
    let limit = call.shared.settings.max_body.min(most);
    let mut body = BodyReader::of_form(file, limit, least);
    body.want(new.checksum);
    let result = call.service.put(&bucket, &key, new, &mut body).await;
    call.bytes_in.set(body.bytes());
    answer(call, &fields, &key, &result?)
}

/// Returns the properties of the object in the fields of a form.
fn new_object(fields: &Fields, has_classes: bool) -> Result<NewObject, ApiError> {
    const KEPT: [&str; 5] =
        ["content-type", "content-encoding", "content-disposition", "cache-control", "expires"];
    const OTHER: [&str; 6] = [
        "x-amz-acl",
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-signature",
        "x-amz-security-token",
    ];
    let mut new = NewObject { checksum: Some(Algorithm::Crc64Nvme), ..NewObject::default() };
    for (name, value) in fields.iter() {
        if KEPT.contains(&name) || name.starts_with("x-amz-meta-") {
            let invalid =
                || ApiError::with(ErrorCode::InvalidArgument, format!("The field {name} is invalid"));
            let name: HeaderName = name.parse().map_err(|_| invalid())?;
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?;
            new.headers.push((name, value));
        } else if name == "x-amz-storage-class" && has_classes {
            new.storage_class = Some(value.to_string());
        } else if name.starts_with("x-amz-") && !OTHER.contains(&name) {
            let text = format!("This server does not implement the field {name} in a form");
            return Err(ApiError::with(ErrorCode::NotImplemented, text));
        }
    }
    if !new.headers.iter().any(|(name, _)| name == "content-type") {
        let default = HeaderValue::from_static("binary/octet-stream");
        new.headers.push((http::header::CONTENT_TYPE, default));
    }
    if let Some(acl) = fields.get("acl").or(fields.get("x-amz-acl")) {
        new.acl = CannedAcl::from_name(acl)?;
    }
    if let Some(tagging) = fields.get("tagging") {
        new.tags = Tags::parse(tagging.as_bytes(), false)?;
    }
    new.conditions = WriteConditions::default();
    Ok(new)
}

fn answer<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    fields: &Fields,
    key: &str,
    object: &ObjectInfo,
) -> Result<ServerResponse, ApiError> {
    let bucket = &call.route.bucket;
    let host = call.header("host").unwrap_or("localhost");
    let location = format!("http://{host}/{bucket}/{}", encode_path(key));
    let redirect = fields.get("success_action_redirect").or(fields.get("redirect"));
    let mut answer = match (redirect, fields.get("success_action_status")) {
        (Some(url), _) if url.starts_with("http://") || url.starts_with("https://") => {
            let separator = if url.contains('?') { '&' } else { '?' };
            let etag = object.etag();
            let mut answer = empty(303);
            let query = format!("bucket={bucket}&key={}&etag=%22{etag}%22", encode_path(key));
            set(answer.headers_mut(), "location", &format!("{url}{separator}{query}"));
            answer
        }
        (_, Some("200")) => empty(200),
        (_, Some("201")) => {
            let mut writer = XmlWriter::bare("PostResponse");
            writer.text("Location", &location).text("Bucket", bucket).text("Key", key);
            writer.text("ETag", &format!("\"{}\"", object.etag()));
            let mut answer = xml(writer.finish());
            *answer.status_mut() = http::StatusCode::CREATED;
            answer
        }
        _ => empty(204),
    };
    let headers = answer.headers_mut();
    headers.insert(http::header::ETAG, object.etag_header.clone());
    if !headers.contains_key("location") {
        set(headers, "location", &location);
    }
    set_version(&mut answer, object.version.as_deref());
    Ok(answer)
}
