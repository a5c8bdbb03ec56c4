//! The DeleteObject and DeleteObjects operations.

use futures_util::future::join_all;

use super::{VerifiedCall, set_version};
use crate::conditions::DeleteConditions;
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, empty, set, xml};
use crate::service::ObjectService;
use plimsoll_s3::xml::{Element, XmlWriter};

/// Maximum number of keys in one DeleteObjects request.
const MAX_KEYS: usize = 1000;

pub async fn one<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let text = |name: &str| call.header(name).map(str::to_string);
    let conditions = DeleteConditions {
        etag: text("if-match"),
        modified: text("x-amz-if-match-last-modified-time"),
        size: text("x-amz-if-match-size"),
    };
    let deleted = call.service.delete(&bucket, &call.route.key, call.version(), conditions).await?;
    let mut answer = empty(204);
    set_version(&mut answer, deleted.version.as_deref());
    if deleted.marker {
        set(answer.headers_mut(), "x-amz-delete-marker", "true");
    }
    Ok(answer)
}

/// One key of a DeleteObjects request, with its version and conditions.
struct Entry<'a> {
    key: &'a str,
    version: Option<&'a str>,
    conditions: DeleteConditions,
}

fn entry(object: &Element) -> Option<Entry<'_>> {
    const KNOWN: [&str; 5] = ["Key", "VersionId", "ETag", "LastModifiedTime", "Size"];
    if object.children.iter().any(|child| !KNOWN.contains(&child.name.as_str())) {
        return None;
    }
    let conditions = DeleteConditions {
        etag: object.text_of("ETag").map(str::to_string),
        modified: object.text_of("LastModifiedTime").map(str::to_string),
        size: object.text_of("Size").map(str::to_string),
    };
    let key = object.text_of("Key").filter(|key| !key.is_empty())?;
    Some(Entry { key, version: object.text_of("VersionId").filter(|v| !v.is_empty()), conditions })
}

pub async fn many<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    if !call.protected {
        return Err(ApiError::with(
            ErrorCode::InvalidRequest,
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
        ));
    }
    let malformed = || ApiError::new(ErrorCode::MalformedXML);
    let root = Element::parse(&call.document).map_err(|_| malformed())?;
    if root.name != "Delete" || root.children.iter().any(|c| !matches!(c.name.as_str(), "Object" | "Quiet")) {
        return Err(malformed());
    }
    let entries: Option<Vec<Entry<'_>>> = root.all("Object").map(entry).collect();
    let entries = entries.filter(|e| (1..=MAX_KEYS).contains(&e.len())).ok_or_else(malformed)?;
    let quiet = root.text_of("Quiet").is_some_and(|q| q.trim().eq_ignore_ascii_case("true"));
    let mut writer = XmlWriter::new("DeleteResult");
    let versions = call.service.features().versions;
    let (service, bucket) = (call.service, &bucket);
    // The service may write concurrent deletes together.
    let deletes = entries.iter().map(|entry| async move {
        match entry.version {
            Some(version) if version != "null" && !versions => {
                Err(ApiError::with(ErrorCode::NoSuchVersion, "The specified version does not exist."))
            }
            version => service.delete(bucket, entry.key, version, entry.conditions.clone()).await,
        }
    });
    let results = join_all(deletes).await;
    for (entry, result) in entries.iter().zip(results) {
        if result.is_ok() && quiet {
            continue;
        }
        writer.open(if result.is_ok() { "Deleted" } else { "Error" }).text("Key", entry.key);
        if let Some(version) = entry.version {
            writer.text("VersionId", version);
        }
        match result {
            Ok(deleted) if deleted.marker => {
                writer.text("DeleteMarker", "true");
                writer.text("DeleteMarkerVersionId", deleted.version.as_deref().unwrap_or("null"));
            }
            Ok(_) => {}
            Err(error) => {
                writer.text("Code", error.code.name()).text("Message", &error.message);
            }
        }
        writer.close();
    }
    Ok(xml(writer.finish()))
}
