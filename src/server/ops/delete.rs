//! DeleteObject and DeleteObjects.

use super::Call;
use crate::s3::xml::{Element, XmlWriter};
use crate::server::conditions::{Existing, for_write};
use crate::server::error::ApiError;
use crate::server::response::{Answer, empty, xml};

/// Most keys of one DeleteObjects request.
const MOST_KEYS: usize = 1000;

pub fn one(call: &Call<'_>) -> Result<Answer, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let mut objects = bucket.objects_mut();
    if call.header("if-match").is_some() {
        let existing = objects.get(&call.route.key).cloned();
        let existing =
            existing.as_deref().map(|o| Existing { etag: &o.etag, modified_s: o.modified.as_second() });
        for_write(&call.parts.headers, existing)?;
    }
    objects.remove(&call.route.key);
    Ok(empty(204))
}

pub fn many(call: &Call<'_>) -> Result<Answer, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    if call.received.md5.is_none() && call.received.checksum.is_none() {
        return Err(ApiError::with(
            "InvalidRequest",
            "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
        ));
    }
    let malformed = || ApiError::new("MalformedXML");
    let root = Element::parse(&call.received.data).map_err(|_| malformed())?;
    let keys: Option<Vec<&str>> = root.all("Object").map(|object| object.text_of("Key")).collect();
    let keys = keys
        .filter(|keys| root.name == "Delete" && (1..=MOST_KEYS).contains(&keys.len()))
        .ok_or_else(malformed)?;
    let quiet = root.text_of("Quiet").is_some_and(|q| q.eq_ignore_ascii_case("true"));
    let mut writer = XmlWriter::new("DeleteResult");
    let mut objects = bucket.objects_mut();
    for key in keys {
        objects.remove(key);
        if !quiet {
            writer.open("Deleted").text("Key", key).close();
        }
    }
    Ok(xml(writer.finish()))
}
