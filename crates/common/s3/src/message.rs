//! XML documents that the client sends and parses: listings, multipart uploads, bucket creation and multi-object
//! deletes.

use super::checksum::{Algorithm, BodyChecksum};
use super::error::S3Error;
use super::xml::{Element, XmlError, XmlWriter};

/// One object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Key of the object.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Entity tag, including its quotes.
    pub etag: String,
}

/// One page of a ListObjectsV2 listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Objects in the order in which the store sent them.
    pub objects: Vec<ListedObject>,
    /// Common prefixes, if the request had a delimiter.
    pub common_prefixes: Vec<String>,
    /// Continuation token of the next page; `None` on the last page.
    pub next_token: Option<String>,
}

impl Listing {
    /// Parses a ListObjectsV2 response.
    ///
    /// # Errors
    /// If the body is not such a document, has more than 10,000 entries, or is truncated without a token.
    pub fn parse(body: &[u8]) -> Result<Listing, XmlError> {
        let mut page = Listing::default();
        let (mut truncated, mut next) = (false, None);
        let mut seen = 0;
        each_of(body, "ListBucketResult", |entry| {
            match entry.name.as_str() {
                "Contents" => page.objects.push(ListedObject {
                    size: number_of(&entry, "Size")?,
                    etag: text_in(&entry, "ETag"),
                    key: text_in(&entry, "Key"),
                }),
                "CommonPrefixes" => page.common_prefixes.push(text_in(&entry, "Prefix")),
                "IsTruncated" => truncated = entry.text == "true",
                "NextContinuationToken" => next = Some(entry.text),
                _ => return Ok(()),
            }
            seen += 1;
            check_page_size(seen)
        })?;
        page.next_token = next.filter(|token| truncated && !token.is_empty());
        check_next_token(truncated, page.next_token.as_ref())?;
        Ok(page)
    }
}

/// Maximum number of entries on one page of a response: ten times the number that S3 sends.
const MAX_ENTRIES: usize = 10_000;

fn check_page_size(entries: usize) -> Result<(), XmlError> {
    if entries > MAX_ENTRIES { Err(XmlError::TooLarge("10,000 entries on a page")) } else { Ok(()) }
}

/// Rejects a truncated page that has no token for the next page.
fn check_next_token(truncated: bool, next: Option<&String>) -> Result<(), XmlError> {
    match truncated && next.is_none() {
        true => {
            let problem = "the page is truncated but contains no token for the next page";
            Err(XmlError::Malformed(problem.into()))
        }
        false => Ok(()),
    }
}

/// Calls `visit` for each child of the root. The root must be named `name`.
fn each_of(
    body: &[u8],
    name: &str,
    mut visit: impl FnMut(Element) -> Result<(), XmlError>,
) -> Result<(), XmlError> {
    let expected = |found: &str| match found == name {
        true => Ok(()),
        false => Err(XmlError::Malformed(format!("expected {name}, found {found}"))),
    };
    let root = Element::each_child(body, |root, child| expected(root).and_then(|()| visit(child)))?;
    expected(&root.name)
}

fn text_in(element: &Element, name: &str) -> String {
    element.text_of(name).unwrap_or("").to_string()
}

fn number_of(element: &Element, name: &str) -> Result<u64, XmlError> {
    let text = element.text_of(name).unwrap_or("");
    text.parse().map_err(|_| XmlError::Malformed(format!("{name} is not a number")))
}

/// Entity tag and checksum of an uploaded part or of a completed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartTag {
    /// Entity tag, including its quotes.
    pub etag: String,
    /// Checksum and its base64 value; `None` if there is none.
    pub checksum: Option<(BodyChecksum, String)>,
}

/// Returns the name of the XML element that carries a checksum of this algorithm.
pub fn checksum_element(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Crc32 => "ChecksumCRC32",
        Algorithm::Crc32c => "ChecksumCRC32C",
        Algorithm::Crc64Nvme => "ChecksumCRC64NVME",
        Algorithm::Sha1 => "ChecksumSHA1",
        Algorithm::Sha256 => "ChecksumSHA256",
    }
}

/// Returns the body of a CompleteMultipartUpload request for `parts`, numbered from 1.
pub fn complete_body(parts: &[PartTag]) -> String {
    let mut writer = XmlWriter::new("CompleteMultipartUpload");
    for (index, part) in parts.iter().enumerate() {
        writer.open("Part");
        if let Some((BodyChecksum::Declared(algorithm), value)) = &part.checksum {
            writer.text(checksum_element(*algorithm), value);
        }
        writer.text("ETag", &part.etag).text("PartNumber", &(index + 1).to_string()).close();
    }
    writer.finish()
}

/// Parses the entity tag and the checksum from a CompleteMultipartUploadResult.
///
/// # Errors
/// If the response is not XML.
pub fn completed(body: &[u8]) -> Result<PartTag, XmlError> {
    let root = Element::parse(body)?;
    let checksum = Algorithm::ALL.into_iter().find_map(|a| {
        Some((
            BodyChecksum::Declared(a),
            root.text_of(checksum_element(a)).filter(|v| !v.is_empty())?.to_string(),
        ))
    });
    Ok(PartTag { etag: root.text_of("ETag").unwrap_or("").to_string(), checksum })
}

/// Returns the entity tag in a CopyObjectResult.
///
/// # Errors
/// If the response is not such a document.
pub fn copied(body: &[u8]) -> Result<String, XmlError> {
    let root = Element::parse(body)?;
    if root.name != "CopyObjectResult" {
        return Err(XmlError::Malformed(format!("{} is not a CopyObjectResult", root.name)));
    }
    Ok(root.text_of("ETag").unwrap_or("").to_string())
}

/// Returns the body of a CreateBucket request, or `None` if the region needs none. `zone` is the zone of a directory
/// bucket, and `None` for other buckets.
pub fn create_bucket_body(region: &str, zone: Option<&str>) -> Option<String> {
    let mut writer = XmlWriter::new("CreateBucketConfiguration");
    match zone {
        Some(zone) => {
            writer.open("Location").text("Name", zone).text("Type", "AvailabilityZone").close();
            writer.open("Bucket").text("DataRedundancy", "SingleAvailabilityZone");
            writer.text("Type", "Directory").close();
        }
        None if matches!(region, "us-east-1" | "auto") => return None,
        None => {
            writer.text("LocationConstraint", region);
        }
    }
    Some(writer.finish())
}

/// Parses the upload id from an InitiateMultipartUploadResult.
///
/// # Errors
/// If the response is not such a document.
pub fn upload_id(body: &[u8]) -> Result<String, XmlError> {
    let root = Element::parse(body)?;
    let id = root.text_of("UploadId").filter(|id| !id.is_empty());
    id.map(str::to_string).ok_or_else(|| XmlError::Malformed(format!("{} contains no UploadId", root.name)))
}

/// One page of a listing of unfinished multipart uploads.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Uploads {
    /// Key and upload id of each upload.
    pub uploads: Vec<(String, String)>,
    /// Token of the next page: key and upload id, separated by NUL; `None` on the last page.
    pub next_token: Option<String>,
}

/// Parses a ListMultipartUploadsResult.
///
/// # Errors
/// If the response is not such a document, has more than 10,000 uploads, or is truncated without a marker.
pub fn uploads(body: &[u8]) -> Result<Uploads, XmlError> {
    let mut page = Uploads::default();
    let (mut truncated, mut key, mut id) = (false, String::new(), String::new());
    each_of(body, "ListMultipartUploadsResult", |entry| {
        match entry.name.as_str() {
            "Upload" => page.uploads.push((text_in(&entry, "Key"), text_in(&entry, "UploadId"))),
            "IsTruncated" => truncated = entry.text == "true",
            "NextKeyMarker" => key = entry.text,
            "NextUploadIdMarker" => id = entry.text,
            _ => {}
        }
        check_page_size(page.uploads.len())
    })?;
    page.next_token = (truncated && !key.is_empty()).then(|| format!("{key}\0{id}"));
    check_next_token(truncated, page.next_token.as_ref())?;
    Ok(page)
}

/// One version of an object, or a delete marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Key of the object.
    pub key: String,
    /// Version id; `null` for objects written without versioning.
    pub id: String,
}

/// One page of a listing of object versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Versions and delete markers, in the order in which the store sent them.
    pub versions: Vec<Version>,
    /// Token of the next page: key and version id, separated by NUL; `None` on the last page.
    pub next_token: Option<String>,
}

/// Parses a ListVersionsResult.
///
/// # Errors
/// If the response is not such a document, has more than 10,000 versions, or is truncated without a marker.
pub fn versions(body: &[u8]) -> Result<Versions, XmlError> {
    let mut page = Versions::default();
    let (mut truncated, mut key, mut id) = (false, String::new(), String::new());
    each_of(body, "ListVersionsResult", |entry| {
        match entry.name.as_str() {
            "Version" | "DeleteMarker" => {
                page.versions.push(Version { key: text_in(&entry, "Key"), id: text_in(&entry, "VersionId") });
            }
            "IsTruncated" => truncated = entry.text == "true",
            "NextKeyMarker" => key = entry.text,
            "NextVersionIdMarker" => id = entry.text,
            _ => {}
        }
        check_page_size(page.versions.len())
    })?;
    page.next_token = (truncated && !key.is_empty()).then(|| format!("{key}\0{id}"));
    check_next_token(truncated, page.next_token.as_ref())?;
    Ok(page)
}

/// Returns the body of a DeleteObjects request in quiet mode, in which the store reports only failures. Each object
/// is a key and, to delete one version permanently, its version id.
pub fn delete_many_body<'a>(objects: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let mut writer = XmlWriter::new("Delete");
    for (key, version) in objects {
        writer.open("Object").text("Key", key);
        if let Some(version) = version {
            writer.text("VersionId", version);
        }
        writer.close();
    }
    writer.text("Quiet", "true");
    writer.finish()
}

/// Returns the first failure that a DeleteObjects response reports, or `None` if there is none.
///
/// # Errors
/// If the response is not XML.
pub fn delete_many_failure(body: &[u8]) -> Result<Option<S3Error>, XmlError> {
    let root = Element::parse(body)?;
    Ok(root.child("Error").map(|error| {
        let text = |name: &str| error.text_of(name).unwrap_or("").to_string();
        S3Error {
            status: 200,
            code: text("Code"),
            message: format!("{} ({})", text("Message"), text("Key")),
            request_id: String::new(),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_page_is_parsed() {
        let body = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>\
            <Contents><Key>a&amp;b</Key><Size>3</Size><ETag>&quot;x&quot;</ETag></Contents>\
            <CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>";
        let page = Listing::parse(body).unwrap();
        assert_eq!(page.objects, [ListedObject { key: "a&b".into(), size: 3, etag: "\"x\"".into() }]);
        assert_eq!((page.common_prefixes, page.next_token), (vec!["p/".to_string()], Some("t".to_string())));
        assert!(Listing::parse(b"<Other/>").is_err());
        let cut = b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
        assert!(Listing::parse(cut).is_err(), "a truncated page without a token is not the last page");
    }

    #[test]
    fn pages_of_uploads_and_versions_are_parsed() {
        let body = b"<ListMultipartUploadsResult><Upload><Key>a</Key><UploadId>1</UploadId></Upload><IsTruncated>true</IsTruncated>\
            <NextKeyMarker>a</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker></ListMultipartUploadsResult>";
        let page = uploads(body).unwrap();
        assert_eq!(page.uploads, [("a".to_string(), "1".to_string())]);
        assert_eq!(page.next_token.as_deref(), Some("a\u{0}1"));
        let body = b"<ListVersionsResult><IsTruncated>false</IsTruncated><Version><Key>a</Key><VersionId>v</VersionId></Version>\
            <DeleteMarker><Key>a</Key><VersionId>d</VersionId></DeleteMarker></ListVersionsResult>";
        let page = versions(body).unwrap();
        assert_eq!(page.versions.iter().map(|v| v.id.as_str()).collect::<Vec<_>>(), ["v", "d"]);
        assert_eq!(page.next_token, None);
    }

    #[test]
    fn a_page_of_too_many_keys_is_rejected() {
        let one = "<Contents><Key>k</Key><Size>1</Size></Contents>";
        let page = |n: usize| format!("<ListBucketResult>{}</ListBucketResult>", one.repeat(n));
        assert_eq!(Listing::parse(page(MAX_ENTRIES).as_bytes()).unwrap().objects.len(), MAX_ENTRIES);
        assert!(Listing::parse(page(MAX_ENTRIES + 1).as_bytes()).is_err());
    }

    #[test]
    fn a_failed_delete_is_found() {
        let body = b"<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>";
        assert_eq!(delete_many_failure(body).unwrap().unwrap().code, "AccessDenied");
        assert_eq!(delete_many_failure(b"<DeleteResult/>").unwrap(), None);
        assert!(delete_many_body([("a<b", None)].into_iter()).contains("<Key>a&lt;b</Key></Object>"));
        let versioned = delete_many_body([("k", Some("v1"))].into_iter());
        assert!(versioned.contains("<Key>k</Key><VersionId>v1</VersionId>"), "{versioned}");
    }
}
