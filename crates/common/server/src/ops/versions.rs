//! The ListObjectVersions operation. In a bucket that was never versioned, each object has exactly one version, `null`.

use super::VerifiedCall;
use super::list::{KeyWriter, PAGE, begin, facts, prefixes};
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, xml};
use crate::service::{ListQuery, ObjectService};

pub async fn list<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let keys = KeyWriter::of(call)?;
    let parameter = |name| call.route.parameter(name).unwrap_or("");
    let most = call.number("max-keys", PAGE, PAGE)?;
    let (key_marker, version_marker) = (parameter("key-marker"), parameter("version-id-marker"));
    let known = matches!(version_marker, "" | "null") || call.service.features().versions;
    if !known || (key_marker.is_empty() && !version_marker.is_empty()) {
        return Err(ApiError::with(ErrorCode::InvalidArgument, "Invalid version id specified"));
    }
    let query = ListQuery {
        prefix: parameter("prefix"),
        delimiter: parameter("delimiter"),
        after: key_marker,
        after_version: version_marker,
        most: most as usize,
        versions: true,
    };
    let page = call.service.list(&bucket, &query).await?;
    let mut writer = begin(call, &keys, "ListVersionsResult");
    keys.text(&mut writer, "KeyMarker", key_marker);
    writer.text("VersionIdMarker", version_marker);
    if let Some(next) = &page.next {
        keys.text(&mut writer, "NextKeyMarker", next);
        // A page that ends with a common prefix has no version as its marker.
        if let Some(version) = &page.next_version {
            writer.text("NextVersionIdMarker", version);
        }
    }
    writer.text("MaxKeys", &most.to_string());
    writer.text("IsTruncated", if page.next.is_some() { "true" } else { "false" });
    for object in &page.objects {
        writer.open(if object.marker { "DeleteMarker" } else { "Version" });
        keys.text(&mut writer, "Key", &object.key);
        writer.text("VersionId", &object.version);
        writer.text("IsLatest", if object.latest { "true" } else { "false" });
        facts(call, &mut writer, object, true);
        writer.close();
    }
    prefixes(&mut writer, &keys, &page.prefixes);
    Ok(xml(writer.finish()))
}
