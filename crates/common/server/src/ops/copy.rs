//! The CopyObject and UploadPartCopy operations.

use super::get::{ByteSelection, parse_range};
use super::multipart::{part_number, upload_name};
use super::{VerifiedCall, existing, set_version};
use crate::accepts::default_class;
use crate::body::BodyReader;
use crate::conditions::{OF_COPY_SOURCE, WriteConditions, for_read};
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, iso_date, set, xml};
use crate::service::{NewObject, ObjectInfo, ObjectService};
use plimsoll_base::net::encode::{decode, hex};
use plimsoll_s3::checksum::Algorithm;
use plimsoll_s3::message::checksum_element;
use plimsoll_s3::number::decimal;
use plimsoll_s3::xml::XmlWriter;

/// Source of a copy.
struct CopySource<O> {
    object: O,
    bucket: String,
    key: String,
    has_version: bool,
}

/// Returns the object that `x-amz-copy-source` names after checking the copy conditions.
async fn source<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<CopySource<S::Object>, ApiError> {
    let header = call.header("x-amz-copy-source").unwrap_or("");
    let invalid = || ApiError::with(ErrorCode::InvalidArgument, "Invalid copy source object key");
    let (path, version) = match header.split_once("?versionId=") {
        Some((path, version)) => (path, Some(version)),
        None => (header, None),
    };
    if version.is_some_and(|version| version != "null") && !call.service.features().versions {
        return Err(ApiError::with(ErrorCode::NoSuchVersion, "The specified version does not exist."));
    }
    let encoding = || ApiError::with(ErrorCode::InvalidArgument, "Invalid copy source encoding");
    // The header is form-encoded: `+` is a space.
    let path = decode(path, true).ok_or_else(encoding)?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    let (bucket, key) = path.split_once('/').ok_or_else(|| {
        ApiError::with(
            ErrorCode::InvalidArgument,
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
        )
    })?;
    if key.is_empty() {
        return Err(invalid());
    }
    let from = call.service.bucket(bucket).await?;
    let object = call.service.open(&from, key, version).await?;
    let is_authenticated = !call.client.is_empty();
    let owns = call.rights.cover(bucket) || (is_authenticated && from.as_ref().owner == call.client);
    if !owns && !object.as_ref().acl.allows(false, is_authenticated) {
        return Err(ApiError::new(ErrorCode::AccessDenied));
    }
    for_read(&call.parts.headers, &OF_COPY_SOURCE, existing(object.as_ref()), call.now_s)?;
    let (bucket, key) = (bucket.to_string(), key.to_string());
    Ok(CopySource { object, bucket, key, has_version: version.is_some() })
}

/// Returns the storage class of an object.
fn class_of<'a, S: ObjectService>(call: &VerifiedCall<'_, S>, object: &'a ObjectInfo) -> &'a str {
    object.storage_class.as_deref().unwrap_or_else(|| default_class(call.route))
}

/// Returns true if a directive header has the value `REPLACE`.
fn replaces<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    header: &str,
    what: &str,
) -> Result<bool, ApiError> {
    match call.header(header).unwrap_or("COPY") {
        "COPY" => Ok(false),
        "REPLACE" => Ok(true),
        _ => Err(ApiError::with(ErrorCode::InvalidArgument, format!("Unknown {what} directive."))),
    }
}

pub async fn object<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let target = call.bucket().await?;
    let replace = replaces(call, "x-amz-metadata-directive", "metadata")?;
    let replace_tags = replaces(call, "x-amz-tagging-directive", "tagging")?;
    let from = source(call).await?;
    let object = from.object.as_ref();
    let itself = from.bucket == call.route.bucket && from.key == call.route.key && !from.has_version;
    let changes_class = call.storage_class().is_some_and(|class| class != class_of(call, object));
    let changes_tags = replace_tags && call.header("x-amz-tagging").is_some();
    if itself && !replace && !changes_class && !changes_tags {
        return Err(ApiError::with(
            ErrorCode::InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.",
        ));
    }
    let algorithm = match call.header("x-amz-checksum-algorithm") {
        Some(name) => Some(Algorithm::from_name(name).ok_or_else(|| {
            ApiError::with(ErrorCode::InvalidRequest, "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]")
        })?),
        None => object.checksum.as_ref().map(|c| c.algorithm),
    };
    let new = NewObject {
        headers: if replace { call.object_headers()? } else { object.headers.clone() },
        tags: if replace_tags { call.tags()? } else { object.tags.clone() },
        acl: call.acl()?,
        checksum: algorithm,
        conditions: WriteConditions::of(&call.parts.headers),
        storage_class: call.storage_class(),
    };
    let source_version = object.version.clone();
    let size = object.size;
    let content = call.service.read(from.object, 0..size).await?;
    let mut body = BodyReader::of_object(content);
    body.want(algorithm);
    let copy = call.service.put(&target, &call.route.key, new, &mut body).await?;
    call.copied.set(Some(size));
    let mut writer = XmlWriter::new("CopyObjectResult");
    writer.text("LastModified", &iso_date(copy.modified)).text("ETag", &format!("\"{}\"", copy.etag()));
    if let Some(checksum) = &copy.checksum {
        writer
            .text(checksum_element(checksum.algorithm), &checksum.value)
            .text("ChecksumType", "FULL_OBJECT");
    }
    let mut answer = xml(writer.finish());
    set_version(&mut answer, copy.version.as_deref());
    set_source_version(&mut answer, source_version.as_deref());
    Ok(answer)
}

fn set_source_version(answer: &mut ServerResponse, version: Option<&str>) {
    if let Some(version) = version {
        set(answer.headers_mut(), "x-amz-copy-source-version-id", version);
    }
}

pub async fn part<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let number = part_number(call)?;
    let bucket = call.bucket().await?;
    let name = upload_name(call);
    let from = source(call).await?;
    let upload = call.service.upload(&bucket, name).await?;
    let size = from.object.as_ref().size;
    let (start, end) = match call.header("x-amz-copy-source-range") {
        None => (0, size),
        Some(text) => {
            let invalid = || {
                ApiError::with(
                    ErrorCode::InvalidArgument,
                    "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
                )
            };
            let bounds = text.strip_prefix("bytes=").and_then(|r| r.split_once('-')).ok_or_else(invalid)?;
            let number = |text: &str| decimal(text).ok_or_else(invalid);
            let (first, last) = (number(bounds.0)?, number(bounds.1)?);
            if last < first {
                return Err(invalid());
            }
            if last >= size {
                let text = format!("Range specified is not valid for source object of size: {size}");
                return Err(ApiError::with(ErrorCode::InvalidArgument, text));
            }
            match parse_range(text, size) {
                ByteSelection::Range(start, end) => (start, end),
                _ => return Err(invalid()),
            }
        }
    };
    let source_version = from.object.as_ref().version.clone();
    let content = call.service.read(from.object, start..end).await?;
    let mut body = BodyReader::of_object(content);
    let algorithm = upload.checksum.map(|(algorithm, _)| algorithm);
    body.want(algorithm);
    body.want_crc64();
    let part = call.service.put_part(&bucket, name, number, algorithm, &mut body).await?;
    call.copied.set(Some(end - start));
    let mut writer = XmlWriter::new("CopyPartResult");
    writer.text("LastModified", &iso_date(part.modified)).text("ETag", &format!("\"{}\"", hex(&part.md5)));
    if let Some((algorithm, value)) = &part.checksum {
        writer.text(checksum_element(*algorithm), value);
    }
    let mut answer = xml(writer.finish());
    set_source_version(&mut answer, source_version.as_deref());
    Ok(answer)
}
