//! The DeleteObject and DeleteObjects operations.

use super::{Call, existing};
use crate::s3::xml::{Element, XmlWriter};
use crate::server::conditions::DeleteConditions;
use crate::server::error::ApiError;
use crate::server::response::{ServerResponse, empty, xml};
use crate::server::state::Objects;

/// Maximum number of keys in one DeleteObjects request.
const MAX_KEYS: usize = 1000;

/// Removes a key if its conditions hold; a missing key is not an error.
fn remove(objects: &mut Objects, key: &str, conditions: &DeleteConditions<'_>) -> Result<(), ApiError> {
    let object = objects.get(key).cloned();
    conditions.check(object.as_deref().map(|o| (existing(o), o.size)))?;
    objects.remove(key);
    Ok(())
}

pub fn one(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let conditions = DeleteConditions {
        etag: call.header("if-match"),
        modified: call.header("x-amz-if-match-last-modified-time"),
        size: call.header("x-amz-if-match-size"),
    };
    remove(&mut *bucket.objects_mut()?, &call.route.key, &conditions)?;
    Ok(empty(204))
}

/// One key of a DeleteObjects request, with its version and conditions.
struct Entry<'a> {
    key: &'a str,
    version: Option<&'a str>,
    conditions: DeleteConditions<'a>,
}

fn entry(object: &Element) -> Option<Entry<'_>> {
    const KNOWN: [&str; 5] = ["Key", "VersionId", "ETag", "LastModifiedTime", "Size"];
    if object.children.iter().any(|child| !KNOWN.contains(&child.name.as_str())) {
        return None;
    }
    let conditions = DeleteConditions {
        etag: object.text_of("ETag"),
        modified: object.text_of("LastModifiedTime"),
        size: object.text_of("Size"),
    };
    let key = object.text_of("Key").filter(|key| !key.is_empty())?;
    Some(Entry { key, version: object.text_of("VersionId").filter(|v| !v.is_empty()), conditions })
}

pub fn many(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    if call.received.md5.is_none() && call.received.checksum.is_none() {
        return Err(ApiError::with(
            "InvalidRequest",
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
        ));
    }
    let malformed = || ApiError::new("MalformedXML");
    let root = Element::parse(&call.received.data).map_err(|_| malformed())?;
    if root.name != "Delete" || root.children.iter().any(|c| !matches!(c.name.as_str(), "Object" | "Quiet")) {
        return Err(malformed());
    }
    let entries: Option<Vec<Entry<'_>>> = root.all("Object").map(entry).collect();
    let entries = entries.filter(|e| (1..=MAX_KEYS).contains(&e.len())).ok_or_else(malformed)?;
    let quiet = root.text_of("Quiet").is_some_and(|q| q.trim().eq_ignore_ascii_case("true"));
    let mut writer = XmlWriter::new("DeleteResult");
    let mut objects = bucket.objects_mut()?;
    for entry in entries {
        let result = match entry.version {
            None | Some("null") => remove(&mut objects, entry.key, &entry.conditions),
            Some(_) => Err(ApiError::with("NoSuchVersion", "The specified version does not exist.")),
        };
        if result.is_ok() && quiet {
            continue;
        }
        writer.open(if result.is_ok() { "Deleted" } else { "Error" }).text("Key", entry.key);
        if let Some(version) = entry.version {
            writer.text("VersionId", version);
        }
        if let Err(error) = result {
            writer.text("Code", error.code).text("Message", &error.message);
        }
        writer.close();
    }
    Ok(xml(writer.finish()))
}
