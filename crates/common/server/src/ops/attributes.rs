//! The GetObjectAttributes operation.

use http::header::LAST_MODIFIED;

use super::{VerifiedCall, set_version};
use crate::accepts::default_class;
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, xml};
use crate::service::{ObjectInfo, ObjectService};
use plimsoll_s3::message::checksum_element;
use plimsoll_s3::number::decimal;
use plimsoll_s3::xml::XmlWriter;

const KNOWN: [&str; 5] = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];
/// Maximum number of parts on one page.
const PAGE: u64 = 1000;

/// Returns the attributes that the request names, in one header or in several.
fn requested_attributes<'a, S: ObjectService>(
    call: &'a VerifiedCall<'_, S>,
) -> Result<Vec<&'a str>, ApiError> {
    let invalid = || ApiError::with(ErrorCode::InvalidArgument, "Invalid attribute name specified.");
    let mut out = Vec::new();
    for value in call.parts.headers.get_all("x-amz-object-attributes") {
        let text = value.to_str().map_err(|_| invalid())?;
        out.extend(text.split(',').map(str::trim).filter(|name| !name.is_empty()));
    }
    if out.is_empty() {
        let text = "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty";
        return Err(ApiError::with(ErrorCode::InvalidRequest, text));
    }
    if out.iter().all(|name| KNOWN.contains(name)) { Ok(out) } else { Err(invalid()) }
}

fn number<S: ObjectService>(call: &VerifiedCall<'_, S>, name: &str, default: u64) -> Result<u64, ApiError> {
    let Some(text) = call.header(name) else { return Ok(default) };
    decimal(text.trim())
        .ok_or_else(|| ApiError::with(ErrorCode::InvalidArgument, format!("{name} is not a number")))
}

pub async fn get<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let names = requested_attributes(call)?;
    let most = number(call, "x-amz-max-parts", PAGE)?.min(PAGE);
    let marker = number(call, "x-amz-part-number-marker", 0)?;
    let handle = call.service.open(&bucket, &call.route.key, call.version()).await?;
    let object = handle.as_ref();
    let has = |name: &str| names.contains(&name);
    let mut writer = XmlWriter::new("GetObjectAttributesResponse");
    if has("ETag") {
        writer.text("ETag", object.etag());
    }
    if let (Some(checksum), true) = (&object.checksum, has("Checksum")) {
        writer.open("Checksum").text(checksum_element(checksum.algorithm), &checksum.value);
        writer.text("ChecksumType", checksum.kind()).close();
    }
    if has("ObjectParts") {
        parts(&mut writer, object, marker, most);
    }
    if has("StorageClass") {
        writer.text(
            "StorageClass",
            object.storage_class.as_deref().unwrap_or_else(|| default_class(call.route)),
        );
    }
    if has("ObjectSize") {
        writer.text("ObjectSize", &object.size.to_string());
    }
    let mut answer = xml(writer.finish());
    answer.headers_mut().insert(LAST_MODIFIED, object.modified_header.clone());
    set_version(&mut answer, object.version.as_deref());
    Ok(answer)
}

/// Writes the page of parts after `marker`; writes nothing for an object without parts.
fn parts(writer: &mut XmlWriter, object: &ObjectInfo, marker: u64, most: u64) {
    let Some(parts) = &object.parts else { return };
    let mut rest = parts.iter().filter(|part| u64::from(part.number) > marker);
    let page: Vec<_> = rest.by_ref().take(most as usize).collect();
    let truncated = rest.next().is_some();
    let last = page.last().map_or(0, |part| part.number);
    writer.open("ObjectParts").text("PartsCount", &parts.len().to_string());
    writer.text("PartNumberMarker", &marker.to_string()).text("NextPartNumberMarker", &last.to_string());
    writer.text("MaxParts", &most.to_string()).text("IsTruncated", if truncated { "true" } else { "false" });
    for part in page {
        writer.open("Part").text("PartNumber", &part.number.to_string()).text("Size", &part.size.to_string());
        if let Some((algorithm, value)) = &part.checksum {
            writer.text(checksum_element(*algorithm), value);
        }
        writer.close();
    }
    writer.close();
}
