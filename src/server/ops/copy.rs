//! The CopyObject and UploadPartCopy operations.

use std::sync::Arc;

use bytes::Bytes;

use super::get::{ByteSelection, parse_range};
use super::multipart::{part_number, store_part};
use super::{Call, existing};
use crate::clock::wall_now;
use crate::net::encode::{decode, hex};
use crate::s3::checksum::{Algorithm, md5};
use crate::s3::message::checksum_element;
use crate::s3::number::decimal;
use crate::s3::xml::XmlWriter;
use crate::server::conditions::for_read;
use crate::server::error::ApiError;
use crate::server::memory::Buffer;
use crate::server::response::{ServerResponse, xml};
use crate::server::state::{Object, StoredChecksum, iso_date};

/// Returns the object that `x-amz-copy-source` names, its bucket and its key, after checking the copy conditions.
fn source(call: &Call<'_>) -> Result<(Arc<Object>, String, String), ApiError> {
    let header = call.header("x-amz-copy-source").unwrap_or("");
    let invalid = || ApiError::with("InvalidArgument", "Invalid copy source object key");
    let (path, version) = match header.split_once("?versionId=") {
        Some((path, version)) => (path, Some(version)),
        None => (header, None),
    };
    if version.is_some_and(|version| version != "null") {
        return Err(ApiError::with("NoSuchVersion", "The specified version does not exist."));
    }
    let encoding = || ApiError::with("InvalidArgument", "Invalid copy source encoding");
    // The header is form-encoded: `+` is a space.
    let path = decode(path, true).ok_or_else(encoding)?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    let (bucket, key) = path.split_once('/').ok_or_else(|| {
        ApiError::with(
            "InvalidArgument",
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
        )
    })?;
    if key.is_empty() {
        return Err(invalid());
    }
    let object = call.shared.state.bucket(bucket)?.object(key)?;
    for_read(&call.parts.headers, "x-amz-copy-source-", existing(&object), call.now_s)?;
    Ok((object, bucket.to_string(), key.to_string()))
}

/// Joins pieces into one; a single piece is shared, not copied.
fn concat(call: &Call<'_>, pieces: &[Bytes]) -> Result<Bytes, ApiError> {
    if let [one] = pieces {
        return Ok(one.clone());
    }
    let size = pieces.iter().map(Bytes::len).sum();
    let mut buffer = Buffer::new(call.memory(), size)?;
    pieces.iter().try_for_each(|piece| buffer.push(piece, size))?;
    Ok(buffer.freeze())
}

pub fn object(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let target = call.shared.state.bucket(&call.route.bucket)?;
    let directive = call.header("x-amz-metadata-directive").unwrap_or("COPY");
    if !matches!(directive, "COPY" | "REPLACE") {
        return Err(ApiError::with("InvalidArgument", "Unknown metadata directive."));
    }
    let replace = directive == "REPLACE";
    let (from, bucket, key) = source(call)?;
    if bucket == call.route.bucket && key == call.route.key && !replace {
        return Err(ApiError::with(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.",
        ));
    }
    let headers = if replace { call.object_headers()? } else { from.headers.clone() };
    let data = concat(call, &from.pieces)?;
    let etag = hex(&target.tag(md5(&data)));
    let mut copy = Object::new(call.memory(), &call.route.key, vec![data.clone()], etag, headers)?;
    let algorithm = match call.header("x-amz-checksum-algorithm") {
        Some(name) => Some(Algorithm::from_name(name).ok_or_else(|| {
            ApiError::with("InvalidRequest", "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, SHA1, SHA256]")
        })?),
        None => from.checksum.as_ref().map(|c| c.algorithm),
    };
    copy.checksum = algorithm.map(|a| StoredChecksum { algorithm: a, value: a.of(&data), full_object: true });
    let mut writer = XmlWriter::new("CopyObjectResult");
    writer.text("LastModified", &iso_date(copy.modified)).text("ETag", &format!("\"{}\"", copy.etag));
    if let Some(checksum) = &copy.checksum {
        writer
            .text(checksum_element(checksum.algorithm), &checksum.value)
            .text("ChecksumType", "FULL_OBJECT");
    }
    call.store(&target, copy)?;
    Ok(xml(writer.finish()))
}

pub fn part(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    part_number(call)?;
    call.shared.state.bucket(&call.route.bucket)?;
    let (from, ..) = source(call)?;
    let pieces = match call.header("x-amz-copy-source-range") {
        None => from.pieces.clone(),
        Some(text) => {
            let invalid = || {
                ApiError::with(
                    "InvalidArgument",
                    "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy",
                )
            };
            let bounds = text.strip_prefix("bytes=").and_then(|r| r.split_once('-')).ok_or_else(invalid)?;
            let number = |text: &str| decimal(text).ok_or_else(invalid);
            let (first, last) = (number(bounds.0)?, number(bounds.1)?);
            if last < first {
                return Err(invalid());
            }
            if last >= from.size {
                let text = format!("Range specified is not valid for source object of size: {}", from.size);
                return Err(ApiError::with("InvalidArgument", text));
            }
            match parse_range(text, from.size) {
                ByteSelection::Range(start, end) => from.slice(start, end),
                _ => return Err(invalid()),
            }
        }
    };
    let part = store_part(call, concat(call, &pieces)?, None)?;
    let mut writer = XmlWriter::new("CopyPartResult");
    writer.text("LastModified", &iso_date(wall_now())).text("ETag", &format!("\"{}\"", hex(&part.md5)));
    if let Some((algorithm, value)) = &part.checksum {
        writer.text(checksum_element(*algorithm), value);
    }
    Ok(xml(writer.finish()))
}
