//! Listings of objects (v1 and v2), multipart uploads and parts, with prefixes, delimiters and pages.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::Call;
use crate::net::encode::{encode_path, hex};
use crate::s3::message::checksum_element;
use crate::s3::sign::sha256;
use crate::s3::xml::XmlWriter;
use crate::server::accepts::storage_class;
use crate::server::error::ApiError;
use crate::server::response::{ServerResponse, xml};
use crate::server::state::{Bucket, Object, Objects, iso_date};

/// Maximum number of keys on one page.
pub(super) const PAGE: u32 = 1000;

/// One page of a listing, whose size limits the number of keys and common prefixes together.
#[derive(Default)]
pub(super) struct Page {
    pub(super) objects: Vec<(String, Arc<Object>)>,
    pub(super) prefixes: Vec<String>,
    /// Marker after which the next page begins: the last key or common prefix of this page, or its [`position`] in a
    /// directory bucket; `None` on the last page.
    pub(super) next: Option<String>,
}

pub(super) fn page(objects: &Objects, prefix: &str, delimiter: &str, after: &str, most: usize) -> Page {
    let mut page = Page::default();
    if most == 0 {
        return page;
    }
    let mut from =
        if after > prefix { Bound::Excluded(after.to_string()) } else { Bound::Included(prefix.to_string()) };
    if after == prefix && !after.is_empty() {
        from = Bound::Excluded(after.to_string());
    }
    let mut last: Option<String> = None;
    loop {
        let Some((key, object)) = objects.range::<String, _>((from.clone(), Bound::Unbounded)).next() else {
            return page;
        };
        let Some(rest) = key.strip_prefix(prefix) else { return page };
        let cut = if delimiter.is_empty() { None } else { rest.find(delimiter) };
        let common = cut.map(|i| format!("{prefix}{}", &rest[..i + delimiter.len()]));
        if let Some(common) = &common {
            from = Bound::Excluded(after_all(common));
            // If the marker is inside a common prefix, an earlier page listed that prefix.
            if after.starts_with(common.as_str()) {
                continue;
            }
        } else {
            from = Bound::Excluded(key.clone());
        }
        if page.objects.len() + page.prefixes.len() == most {
            page.next = last;
            return page;
        }
        match common {
            Some(common) => {
                last = Some(common.clone());
                page.prefixes.push(common);
            }
            None => {
                last = Some(key.clone());
                page.objects.push((key.clone(), Arc::clone(object)));
            }
        }
    }
}

/// Returns the sort key of a key or common prefix in a directory bucket's listings: a digest, so that clients
/// cannot rely on the order.
fn position(name: &str) -> String {
    hex(&sha256(name.as_bytes())[..8])
}

/// Returns a page of a directory bucket, in no meaningful order. With a delimiter, the page also contains common
/// prefixes that occur only in unfinished uploads.
fn unordered(bucket: &Bucket, prefix: &str, delimiter: &str, token: &str, most: usize) -> Page {
    let common = |key: &str| {
        let rest = key.strip_prefix(prefix)?;
        let cut = rest.find(delimiter).filter(|_| !delimiter.is_empty())?;
        Some(format!("{prefix}{}", &rest[..cut + delimiter.len()]))
    };
    // Lock the uploads before the objects, as everywhere.
    let uploads = bucket.uploads();
    let objects = bucket.objects();
    let mut entries: BTreeMap<(String, String), Option<Arc<Object>>> = BTreeMap::new();
    for (key, object) in objects.range::<String, _>(prefix.to_string()..) {
        if !key.starts_with(prefix) {
            break;
        }
        match common(key) {
            Some(common) => entries.insert((position(&common), common), None),
            None => entries.insert((position(key), key.clone()), Some(Arc::clone(object))),
        };
    }
    for (key, _) in uploads.keys() {
        if let Some(common) = common(key) {
            entries.insert((position(&common), common), None);
        }
    }
    let mut rest = entries.into_iter().filter(|((position, _), _)| position.as_str() > token);
    let mut page = Page::default();
    let mut last = None;
    for ((position, name), object) in rest.by_ref().take(most) {
        match object {
            Some(object) => page.objects.push((name, object)),
            None => page.prefixes.push(name),
        }
        last = Some(position);
    }
    page.next = last.filter(|_| rest.next().is_some());
    page
}

/// Returns a string that sorts after every key with this prefix: U+10FFFF is the highest code point.
fn after_all(prefix: &str) -> String {
    format!("{prefix}{}", "\u{10ffff}".repeat(4))
}

/// Writer of keys; it percent-encodes them if the client requested `encoding-type=url`.
pub(super) struct KeyWriter {
    encode: bool,
}

impl KeyWriter {
    pub(super) fn of(call: &Call<'_>) -> Result<KeyWriter, ApiError> {
        match call.route.parameter("encoding-type") {
            None | Some("") => Ok(KeyWriter { encode: false }),
            Some("url") => Ok(KeyWriter { encode: true }),
            Some(_) => Err(ApiError::with("InvalidArgument", "Invalid Encoding Method specified in Request")),
        }
    }

    pub(super) fn text(&self, writer: &mut XmlWriter, name: &'static str, key: &str) {
        if self.encode {
            writer.text(name, &encode_path(key))
        } else {
            writer.text(name, key)
        };
    }
}

/// Writes an element that identifies the server's only account.
fn account(call: &Call<'_>, writer: &mut XmlWriter, name: &'static str) {
    writer.open(name).text("ID", call.owner()).text("DisplayName", call.owner()).close();
}

/// Writes the properties of an object in a listing, with its owner if `owner` is true.
pub(super) fn facts(call: &Call<'_>, writer: &mut XmlWriter, object: &Object, owner: bool) {
    writer.text("LastModified", &iso_date(object.modified)).text("ETag", &format!("\"{}\"", object.etag));
    writer.text("Size", &object.size.to_string()).text("StorageClass", storage_class(call.route));
    if let Some(checksum) = &object.checksum {
        writer.text("ChecksumAlgorithm", checksum.algorithm.name());
        writer.text("ChecksumType", if checksum.full_object { "FULL_OBJECT" } else { "COMPOSITE" });
    }
    if owner {
        account(call, writer, "Owner");
    }
}

fn contents(call: &Call<'_>, writer: &mut XmlWriter, keys: &KeyWriter, page: &Page, owner: bool) {
    for (key, object) in &page.objects {
        writer.open("Contents");
        keys.text(writer, "Key", key);
        facts(call, writer, object, owner);
        writer.close();
    }
    prefixes(writer, keys, &page.prefixes);
}

/// Writes the common prefixes of a listing.
pub(super) fn prefixes(writer: &mut XmlWriter, keys: &KeyWriter, prefixes: &[String]) {
    for prefix in prefixes {
        writer.open("CommonPrefixes");
        keys.text(writer, "Prefix", prefix);
        writer.close();
    }
}

pub(super) fn begin(call: &Call<'_>, keys: &KeyWriter, root: &'static str) -> XmlWriter {
    let mut writer = XmlWriter::new(root);
    writer.text("Name", &call.route.bucket);
    keys.text(&mut writer, "Prefix", call.route.parameter("prefix").unwrap_or(""));
    if let Some(delimiter) = call.route.parameter("delimiter").filter(|d| !d.is_empty()) {
        keys.text(&mut writer, "Delimiter", delimiter);
    }
    if keys.encode {
        writer.text("EncodingType", "url");
    }
    writer
}

pub fn v1(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let keys = KeyWriter::of(call)?;
    let parameter = |name| call.route.parameter(name).unwrap_or("");
    let most = call.number("max-keys", PAGE, PAGE)?;
    let page = page(
        &bucket.objects(),
        parameter("prefix"),
        parameter("delimiter"),
        parameter("marker"),
        most as usize,
    );
    let mut writer = begin(call, &keys, "ListBucketResult");
    keys.text(&mut writer, "Marker", parameter("marker"));
    if let Some(next) = &page.next {
        keys.text(&mut writer, "NextMarker", next);
    }
    writer
        .text("MaxKeys", &most.to_string())
        .text("IsTruncated", if page.next.is_some() { "true" } else { "false" });
    contents(call, &mut writer, &keys, &page, true);
    Ok(xml(writer.finish()))
}

pub fn v2(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let keys = KeyWriter::of(call)?;
    let parameter = |name| call.route.parameter(name).unwrap_or("");
    let most = call.number("max-keys", PAGE, PAGE)?;
    let (token, start_after) = (parameter("continuation-token"), parameter("start-after"));
    let after = if token.is_empty() { start_after } else { token };
    let (prefix, delimiter) = (parameter("prefix"), parameter("delimiter"));
    let page = if bucket.directory {
        unordered(&bucket, prefix, delimiter, token, most as usize)
    } else {
        page(&bucket.objects(), prefix, delimiter, after, most as usize)
    };
    let mut writer = begin(call, &keys, "ListBucketResult");
    if call.route.parameter("start-after").is_some() {
        keys.text(&mut writer, "StartAfter", start_after);
    }
    if call.route.parameter("continuation-token").is_some() {
        writer.text("ContinuationToken", token);
    }
    if let Some(next) = &page.next {
        writer.text("NextContinuationToken", next);
    }
    writer.text("KeyCount", &(page.objects.len() + page.prefixes.len()).to_string());
    writer
        .text("MaxKeys", &most.to_string())
        .text("IsTruncated", if page.next.is_some() { "true" } else { "false" });
    contents(call, &mut writer, &keys, &page, parameter("fetch-owner") == "true");
    Ok(xml(writer.finish()))
}

pub fn uploads(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let keys = KeyWriter::of(call)?;
    let parameter = |name| call.route.parameter(name).unwrap_or("");
    let most = call.number("max-uploads", PAGE, PAGE)?;
    let (prefix, delimiter) = (parameter("prefix"), parameter("delimiter"));
    let (key_marker, id_marker) = (parameter("key-marker"), parameter("upload-id-marker"));
    let uploads = bucket.uploads();
    if !id_marker.is_empty()
        && !key_marker.is_empty()
        && !uploads.contains_key(&(key_marker.into(), id_marker.into()))
    {
        return Err(ApiError::with("InvalidArgument", "Invalid uploadId marker"));
    }
    let after_marker = |key: &str, id: &str| match key.cmp(key_marker) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => !id_marker.is_empty() && id > id_marker,
        std::cmp::Ordering::Less => false,
    };
    let mut found = Vec::new();
    let mut prefixes: Vec<String> = Vec::new();
    let mut truncated = false;
    for ((key, id), upload) in uploads.iter() {
        let Some(rest) = key.strip_prefix(prefix) else { continue };
        if !(key_marker.is_empty() || after_marker(key, id)) {
            continue;
        }
        let common = rest.find(delimiter).filter(|_| !delimiter.is_empty());
        let common = common.map(|i| format!("{prefix}{}", &rest[..i + delimiter.len()]));
        if common.as_ref().is_some_and(|c| prefixes.last() == Some(c)) {
            continue;
        }
        if found.len() + prefixes.len() == most as usize {
            truncated = true;
            break;
        }
        match common {
            Some(common) => prefixes.push(common),
            None => found.push((key, id, upload)),
        }
    }
    let mut writer = XmlWriter::new("ListMultipartUploadsResult");
    writer.text("Bucket", &call.route.bucket);
    keys.text(&mut writer, "KeyMarker", key_marker);
    writer.text("UploadIdMarker", id_marker);
    if let (Some((key, id, _)), true) = (found.last(), truncated) {
        keys.text(&mut writer, "NextKeyMarker", key);
        writer.text("NextUploadIdMarker", id);
    }
    keys.text(&mut writer, "Prefix", prefix);
    if !delimiter.is_empty() {
        keys.text(&mut writer, "Delimiter", delimiter);
    }
    writer
        .text("MaxUploads", &most.to_string())
        .text("IsTruncated", if truncated { "true" } else { "false" });
    for (key, id, upload) in found {
        writer.open("Upload");
        keys.text(&mut writer, "Key", key);
        writer.text("UploadId", id);
        account(call, &mut writer, "Initiator");
        account(call, &mut writer, "Owner");
        writer.text("StorageClass", storage_class(call.route)).text("Initiated", &iso_date(upload.initiated));
        if let Some((algorithm, full_object)) = upload.checksum {
            writer.text("ChecksumAlgorithm", algorithm.name());
            writer.text("ChecksumType", if full_object { "FULL_OBJECT" } else { "COMPOSITE" });
        }
        writer.close();
    }
    self::prefixes(&mut writer, &keys, &prefixes);
    Ok(xml(writer.finish()))
}

pub fn parts(call: &Call<'_>) -> Result<ServerResponse, ApiError> {
    let bucket = call.shared.state.bucket(&call.route.bucket)?;
    let id = call.route.parameter("uploadId").unwrap_or("");
    let most = call.number("max-parts", PAGE, PAGE)?;
    let marker = call.number("part-number-marker", 0, u32::MAX)?;
    let uploads = bucket.uploads();
    let upload =
        uploads.get(&(call.route.key.clone(), id.into())).ok_or_else(|| ApiError::new("NoSuchUpload"))?;
    let mut rest = upload.parts.range((Bound::Excluded(marker), Bound::Unbounded));
    let page: Vec<_> = rest.by_ref().take(most as usize).collect();
    let truncated = rest.next().is_some();
    let mut writer = XmlWriter::new("ListPartsResult");
    writer.text("Bucket", &call.route.bucket).text("Key", &call.route.key).text("UploadId", id);
    account(call, &mut writer, "Initiator");
    account(call, &mut writer, "Owner");
    writer.text("StorageClass", storage_class(call.route)).text("PartNumberMarker", &marker.to_string());
    let last = page.last().map_or(0, |(number, _)| **number);
    writer.text("NextPartNumberMarker", &last.to_string()).text("MaxParts", &most.to_string());
    writer.text("IsTruncated", if truncated { "true" } else { "false" });
    if let Some((algorithm, full_object)) = upload.checksum {
        writer.text("ChecksumAlgorithm", algorithm.name());
        writer.text("ChecksumType", if full_object { "FULL_OBJECT" } else { "COMPOSITE" });
    }
    for (number, part) in page {
        writer.open("Part").text("PartNumber", &number.to_string());
        writer
            .text("LastModified", &iso_date(part.modified))
            .text("ETag", &format!("\"{}\"", hex(&part.md5)));
        writer.text("Size", &part.data.len().to_string());
        if let Some((algorithm, value)) = &part.checksum {
            writer.text(checksum_element(*algorithm), value);
        }
        writer.close();
    }
    Ok(xml(writer.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::memory::Memory;

    fn listed(
        keys: &[&str],
        prefix: &str,
        delimiter: &str,
        after: &str,
        most: usize,
    ) -> (Vec<String>, Vec<String>, Option<String>) {
        let memory = Memory::new(u64::MAX);
        let object = Arc::new(Object::new(&memory, "k", Vec::new(), "e".into(), Vec::new()).unwrap());
        let objects: Objects = keys.iter().map(|k| ((*k).to_string(), Arc::clone(&object))).collect();
        let page = page(&objects, prefix, delimiter, after, most);
        (page.objects.into_iter().map(|o| o.0).collect(), page.prefixes, page.next)
    }

    const KEYS: [&str; 6] = ["a", "dir/1", "dir/2", "dir2/x", "e/f/g", "z"];

    #[test]
    fn delimiters_group_keys_into_common_prefixes() {
        let (keys, prefixes, next) = listed(&KEYS, "", "/", "", 1000);
        assert_eq!(
            (keys, prefixes, next),
            (vec!["a".into(), "z".into()], vec!["dir/".into(), "dir2/".into(), "e/".into()], None)
        );
        let (keys, prefixes, _) = listed(&KEYS, "dir/", "/", "", 1000);
        assert_eq!((keys, prefixes), (vec!["dir/1".into(), "dir/2".into()], vec![]));
    }

    #[test]
    fn pages_join_without_gaps_or_repetitions() {
        for delimiter in ["", "/"] {
            for size in 1..=6 {
                let (mut seen, mut after) = (Vec::new(), String::new());
                loop {
                    let (keys, prefixes, next) = listed(&KEYS, "", delimiter, &after, size);
                    assert!(keys.len() + prefixes.len() <= size);
                    seen.extend(keys);
                    seen.extend(prefixes);
                    match next {
                        Some(next) => after = next,
                        None => break,
                    }
                }
                let (mut whole, prefixes, _) = listed(&KEYS, "", delimiter, "", 1000);
                whole.extend(prefixes);
                whole.sort();
                seen.sort();
                assert_eq!(seen, whole, "delimiter '{delimiter}', pages of {size}");
            }
        }
        assert_eq!(listed(&KEYS, "", "", "", 0), (vec![], vec![], None));
    }
}
