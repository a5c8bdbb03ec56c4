//! The XML documents that a client sends and reads: listings and multi-object deletes.

use super::checksum::{Algorithm, BodyChecksum};
use super::error::S3Error;
use super::xml::{Element, XmlError, XmlWriter};

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Key.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Entity tag with its quotes.
    pub etag: String,
}

/// One page of ListObjectsV2.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Objects in the order sent.
    pub objects: Vec<Listed>,
    /// Common prefixes, where a delimiter was asked for.
    pub common_prefixes: Vec<String>,
    /// Token of the next page, when there is one.
    pub next_token: Option<String>,
}

impl Listing {
    /// Reads a ListObjectsV2 answer.
    ///
    /// # Errors
    /// When it is not such a document.
    pub fn parse(body: &[u8]) -> Result<Listing, XmlError> {
        let root = Element::parse(body)?;
        if root.name != "ListBucketResult" {
            return Err(XmlError::Malformed(format!("expected ListBucketResult, found {}", root.name)));
        }
        let objects = root.all("Contents").map(|object| {
            let text = |name: &str| object.text_of(name).unwrap_or("");
            let size =
                text("Size").parse().map_err(|_| XmlError::Malformed("Size is not a number".into()))?;
            Ok(Listed { key: text("Key").to_string(), size, etag: text("ETag").to_string() })
        });
        let truncated = root.text_of("IsTruncated") == Some("true");
        Ok(Listing {
            objects: objects.collect::<Result<_, XmlError>>()?,
            common_prefixes: root
                .all("CommonPrefixes")
                .filter_map(|p| Some(p.text_of("Prefix")?.to_string()))
                .collect(),
            next_token: root.text_of("NextContinuationToken").filter(|_| truncated).map(str::to_string),
        })
    }
}

/// A part that was uploaded, as the completion of its upload names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartTag {
    /// Entity tag with its quotes.
    pub etag: String,
    /// The checksum that it was uploaded with: algorithm and base64 value.
    pub checksum: Option<(BodyChecksum, String)>,
}

/// The element that carries a checksum in XML.
pub fn checksum_element(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Crc32 => "ChecksumCRC32",
        Algorithm::Crc32c => "ChecksumCRC32C",
        Algorithm::Crc64Nvme => "ChecksumCRC64NVME",
        Algorithm::Sha1 => "ChecksumSHA1",
        Algorithm::Sha256 => "ChecksumSHA256",
    }
}

/// The body of a CompleteMultipartUpload request for parts 1, 2, 3 and so on.
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

/// Entity tag and checksum of the object that a CompleteMultipartUploadResult tells of.
///
/// # Errors
/// When the answer is not XML.
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

/// The body of a CreateBucket request; `None` where the request needs none. `zone` is that of a directory bucket.
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

/// The upload id of an InitiateMultipartUploadResult.
///
/// # Errors
/// When the answer is not such a document.
pub fn upload_id(body: &[u8]) -> Result<String, XmlError> {
    let root = Element::parse(body)?;
    let id = root.text_of("UploadId").filter(|id| !id.is_empty());
    id.map(str::to_string).ok_or_else(|| XmlError::Malformed(format!("{} holds no UploadId", root.name)))
}

/// Keys and upload ids of a ListMultipartUploadsResult.
///
/// # Errors
/// When the answer is not such a document.
pub fn uploads(body: &[u8]) -> Result<Vec<(String, String)>, XmlError> {
    let root = Element::parse(body)?;
    let pair = |upload: &Element| {
        let text = |name: &str| upload.text_of(name).unwrap_or("").to_string();
        (text("Key"), text("UploadId"))
    };
    Ok(root.all("Upload").map(pair).collect())
}

/// The body of a DeleteObjects request, quiet: only failures are answered.
pub fn delete_many_body(keys: &[String]) -> String {
    let mut writer = XmlWriter::new("Delete");
    for key in keys {
        writer.open("Object").text("Key", key).close();
    }
    writer.text("Quiet", "true");
    writer.finish()
}

/// The first failure that a DeleteObjects answer reports, if any.
///
/// # Errors
/// When the answer is not XML.
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
    fn reads_a_page() {
        let body = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>\
            <Contents><Key>a&amp;b</Key><Size>3</Size><ETag>&quot;x&quot;</ETag></Contents>\
            <CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>";
        let page = Listing::parse(body).unwrap();
        assert_eq!(page.objects, [Listed { key: "a&b".into(), size: 3, etag: "\"x\"".into() }]);
        assert_eq!((page.common_prefixes, page.next_token), (vec!["p/".to_string()], Some("t".to_string())));
        assert!(Listing::parse(b"<Other/>").is_err());
    }

    #[test]
    fn a_failed_delete_is_found() {
        let body = b"<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>";
        assert_eq!(delete_many_failure(body).unwrap().unwrap().code, "AccessDenied");
        assert_eq!(delete_many_failure(b"<DeleteResult/>").unwrap(), None);
        assert!(delete_many_body(&["a<b".into()]).contains("<Key>a&lt;b</Key>"));
    }
}
