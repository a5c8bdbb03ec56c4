//! Listings of objects (v1 and v2), multipart uploads and parts, with prefixes, delimiters and pages.

use super::VerifiedCall;
use super::multipart::upload_name;
use crate::accepts::default_class;
use crate::error::{ApiError, ErrorCode};
use crate::response::{ServerResponse, iso_date, xml};
use crate::service::{ListEntry, ListPage, ListQuery, ObjectService, UploadInfo, UploadName};
use plimsoll_base::net::encode::{encode_path, hex};
use plimsoll_s3::checksum::Algorithm;
use plimsoll_s3::message::checksum_element;
use plimsoll_s3::xml::XmlWriter;

/// Maximum number of keys on one page.
pub(super) const PAGE: u32 = 1000;

/// Writer of keys; it percent-encodes them if the client requested `encoding-type=url`.
pub(super) struct KeyWriter {
    encode: bool,
}

impl KeyWriter {
    pub(super) fn of<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<KeyWriter, ApiError> {
        match call.route.parameter("encoding-type") {
            None | Some("") => Ok(KeyWriter { encode: false }),
            Some("url") => Ok(KeyWriter { encode: true }),
            Some(_) => Err(ApiError::with(
                ErrorCode::InvalidArgument,
                "Invalid Encoding Method specified in Request",
            )),
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
fn account<S: ObjectService>(call: &VerifiedCall<'_, S>, writer: &mut XmlWriter, name: &'static str) {
    writer.open(name).text("ID", call.owner()).text("DisplayName", call.owner()).close();
}

/// Returns the storage class of the object of an upload.
fn class_of<'a, S: ObjectService>(call: &VerifiedCall<'_, S>, upload: &'a UploadInfo) -> &'a str {
    upload.object.storage_class.as_deref().unwrap_or_else(|| default_class(call.route))
}

/// Writes the algorithm and type of a checksum; writes nothing if there is none.
fn checksum(writer: &mut XmlWriter, checksum: Option<(Algorithm, bool)>) {
    if let Some((algorithm, full_object)) = checksum {
        writer.text("ChecksumAlgorithm", algorithm.name());
        writer.text("ChecksumType", if full_object { "FULL_OBJECT" } else { "COMPOSITE" });
    }
}

/// Writes the properties of an object in a listing, with its owner if `owner` is true.
pub(super) fn facts<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    writer: &mut XmlWriter,
    object: &ListEntry,
    owner: bool,
) {
    writer.text("LastModified", &iso_date(object.modified));
    if !object.marker {
        writer.text("ETag", &format!("\"{}\"", object.etag));
        let class = object.storage_class.as_deref().unwrap_or_else(|| default_class(call.route));
        writer.text("Size", &object.size.to_string()).text("StorageClass", class);
    }
    checksum(writer, object.checksum);
    if owner {
        account(call, writer, "Owner");
    }
}

fn contents<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    writer: &mut XmlWriter,
    keys: &KeyWriter,
    page: &ListPage,
    owner: bool,
) {
    for object in &page.objects {
        writer.open("Contents");
        keys.text(writer, "Key", &object.key);
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

pub(super) fn begin<S: ObjectService>(
    call: &VerifiedCall<'_, S>,
    keys: &KeyWriter,
    root: &'static str,
) -> XmlWriter {
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

pub async fn v1<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let keys = KeyWriter::of(call)?;
    let parameter = |name| call.route.parameter(name).unwrap_or("");
    let most = call.number("max-keys", PAGE, PAGE)?;
    let query = ListQuery {
        prefix: parameter("prefix"),
        delimiter: parameter("delimiter"),
        after: parameter("marker"),
        most: most as usize,
        ..ListQuery::default()
    };
    let page = call.service.list(&bucket, &query).await?;
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

pub async fn v2<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let keys = KeyWriter::of(call)?;
    let parameter = |name| call.route.parameter(name).unwrap_or("");
    let most = call.number("max-keys", PAGE, PAGE)?;
    let (token, start_after) = (parameter("continuation-token"), parameter("start-after"));
    let after = if token.is_empty() { start_after } else { token };
    let (prefix, delimiter) = (parameter("prefix"), parameter("delimiter"));
    let query = ListQuery { prefix, delimiter, after, most: most as usize, ..ListQuery::default() };
    let page = call.service.list(&bucket, &query).await?;
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

pub async fn uploads<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let keys = KeyWriter::of(call)?;
    let parameter = |name| call.route.parameter(name).unwrap_or("");
    let most = call.number("max-uploads", PAGE, PAGE)?;
    let (prefix, delimiter) = (parameter("prefix"), parameter("delimiter"));
    let (key_marker, id_marker) = (parameter("key-marker"), parameter("upload-id-marker"));
    if !id_marker.is_empty() && !key_marker.is_empty() {
        let marker = UploadName { key: key_marker, id: id_marker };
        call.service
            .upload(&bucket, marker)
            .await
            .map_err(|_| ApiError::with(ErrorCode::InvalidArgument, "Invalid uploadId marker"))?;
    }
    let after_marker = |key: &str, id: &str| match key.cmp(key_marker) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => !id_marker.is_empty() && id > id_marker,
        std::cmp::Ordering::Less => false,
    };
    let mut found: Vec<(String, String, UploadInfo)> = Vec::new();
    let mut prefixes: Vec<String> = Vec::new();
    let mut truncated = false;
    let mut visit = |key: &str, id: &str, upload: &UploadInfo| {
        let Some(rest) = key.strip_prefix(prefix) else { return true };
        if !(key_marker.is_empty() || after_marker(key, id)) {
            return true;
        }
        let common = rest.find(delimiter).filter(|_| !delimiter.is_empty());
        let common = common.map(|i| format!("{prefix}{}", &rest[..i + delimiter.len()]));
        if common.as_ref().is_some_and(|c| prefixes.last() == Some(c)) {
            return true;
        }
        if found.len() + prefixes.len() == most as usize {
            truncated = true;
            return false;
        }
        match common {
            Some(common) => prefixes.push(common),
            None => found.push((key.to_string(), id.to_string(), upload.clone())),
        }
        true
    };
    call.service.uploads(&bucket, prefix, &mut visit).await?;
    let page = UploadPage { found, prefixes, truncated, most };
    Ok(xml(page.document(call, &keys)))
}

/// A page of unfinished multipart uploads.
struct UploadPage {
    /// Key, upload id and facts of each upload, in order.
    found: Vec<(String, String, UploadInfo)>,
    /// Common prefixes of the keys that a delimiter groups.
    prefixes: Vec<String>,
    /// True if more uploads follow.
    truncated: bool,
    /// Maximum number of uploads and prefixes of the page.
    most: u32,
}

impl UploadPage {
    fn document<S: ObjectService>(self, call: &VerifiedCall<'_, S>, keys: &KeyWriter) -> String {
        let UploadPage { found, prefixes, truncated, most } = self;
        let parameter = |name| call.route.parameter(name).unwrap_or("");
        let (prefix, delimiter) = (parameter("prefix"), parameter("delimiter"));
        let (key_marker, id_marker) = (parameter("key-marker"), parameter("upload-id-marker"));
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
            keys.text(&mut writer, "Key", &key);
            writer.text("UploadId", &id);
            account(call, &mut writer, "Initiator");
            account(call, &mut writer, "Owner");
            writer
                .text("StorageClass", class_of(call, &upload))
                .text("Initiated", &iso_date(upload.initiated));
            checksum(&mut writer, upload.checksum);
            writer.close();
        }
        self::prefixes(&mut writer, keys, &prefixes);
        writer.finish()
    }
}

pub async fn parts<S: ObjectService>(call: &VerifiedCall<'_, S>) -> Result<ServerResponse, ApiError> {
    let bucket = call.bucket().await?;
    let id = call.route.parameter("uploadId").unwrap_or("");
    let most = call.number("max-parts", PAGE, PAGE)?;
    let marker = call.number("part-number-marker", 0, u32::MAX)?;
    let upload = call.service.upload(&bucket, upload_name(call)).await?;
    let all = call.service.parts(&bucket, upload_name(call)).await?;
    let mut rest = all.iter().filter(|part| part.number > marker);
    let page: Vec<_> = rest.by_ref().take(most as usize).collect();
    let truncated = rest.next().is_some();
    let mut writer = XmlWriter::new("ListPartsResult");
    writer.text("Bucket", &call.route.bucket).text("Key", &call.route.key).text("UploadId", id);
    account(call, &mut writer, "Initiator");
    account(call, &mut writer, "Owner");
    writer.text("StorageClass", class_of(call, &upload)).text("PartNumberMarker", &marker.to_string());
    let last = page.last().map_or(0, |part| part.number);
    writer.text("NextPartNumberMarker", &last.to_string()).text("MaxParts", &most.to_string());
    writer.text("IsTruncated", if truncated { "true" } else { "false" });
    checksum(&mut writer, upload.checksum);
    for part in page {
        writer.open("Part").text("PartNumber", &part.number.to_string());
        writer
            .text("LastModified", &iso_date(part.modified))
            .text("ETag", &format!("\"{}\"", hex(&part.md5)));
        writer.text("Size", &part.size.to_string());
        if let Some((algorithm, value)) = &part.checksum {
            writer.text(checksum_element(*algorithm), value);
        }
        writer.close();
    }
    Ok(xml(writer.finish()))
}
