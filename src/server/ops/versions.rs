//! The ListObjectVersions operation. Buckets are unversioned, so each object has exactly one version, `null`.

use super::Call;
use super::list::{KeyWriter, PAGE, begin, facts, page, prefixes};
use crate::server::error::ApiError;
use crate::server::response::{ServerResponse, xml};

pub fn list(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let keys = KeyWriter::of(call)?;
    let parameter = |name| call.route.parameter(name).unwrap_or("");
    let most = call.number("max-keys", PAGE, PAGE)?;
    let (key_marker, version_marker) = (parameter("key-marker"), parameter("version-id-marker"));
    if !matches!(version_marker, "" | "null") || (key_marker.is_empty() && !version_marker.is_empty()) {
        return Err(ApiError::with("InvalidArgument", "Invalid version id specified"));
    }
    let page =
        page(&bucket.objects(), parameter("prefix"), parameter("delimiter"), key_marker, most as usize);
    let mut writer = begin(call, &keys, "ListVersionsResult");
    keys.text(&mut writer, "KeyMarker", key_marker);
    writer.text("VersionIdMarker", version_marker);
    if let Some(next) = &page.next {
        keys.text(&mut writer, "NextKeyMarker", next);
        // A page that ends with a common prefix has no version as its marker.
        if page.prefixes.last() != Some(next) {
            writer.text("NextVersionIdMarker", "null");
        }
    }
    writer.text("MaxKeys", &most.to_string());
    writer.text("IsTruncated", if page.next.is_some() { "true" } else { "false" });
    for (key, object) in &page.objects {
        writer.open("Version");
        keys.text(&mut writer, "Key", key);
        writer.text("VersionId", "null").text("IsLatest", "true");
        facts(call, &mut writer, object, true);
        writer.close();
    }
    prefixes(&mut writer, &keys, &page.prefixes);
    Ok(xml(writer.finish()))
}
