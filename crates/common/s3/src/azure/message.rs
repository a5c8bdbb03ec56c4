//! Documents of the REST API: lists of blobs and of blocks.

use crate::checksum::{base64, from_base64};
use crate::error::S3Error;
use crate::message::{ListedObject, Listing, Version};
use crate::xml::{Element, XmlError, XmlWriter};

/// A page of a list of blobs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Blobs, and the marker of the next page.
    pub listing: Listing,
    /// Versions, if the request asked for them.
    pub versions: Vec<Version>,
}

/// Maximum number of blobs in a page. Azure sends at most 5,000.
const MAX_BLOBS: usize = 10_000;

impl Page {
    /// Parses a response to List Blobs.
    ///
    /// # Errors
    /// If the body is not such a document, or has more than 10,000 blobs.
    pub fn parse(body: &[u8]) -> Result<Page, XmlError> {
        let (mut page, mut count) = (Page::default(), 0);
        let root = Element::each_grandchild(body, |blob| {
            count += 1;
            match count > MAX_BLOBS {
                true => Err(XmlError::TooLarge("10,000 entries")),
                false => page.add(&blob),
            }
        })?;
        if root.name != "EnumerationResults" {
            return Err(XmlError::Malformed(format!(
                "the document is {}, not EnumerationResults",
                root.name
            )));
        }
        page.listing.next_token =
            root.text_of("NextMarker").filter(|marker| !marker.is_empty()).map(str::to_string);
        Ok(page)
    }

    fn add(&mut self, blob: &Element) -> Result<(), XmlError> {
        if blob.name != "Blob" {
            return Ok(());
        }
        let text = |of: &Element, name: &str| of.text_of(name).unwrap_or("").to_string();
        let (key, none) = (text(blob, "Name"), Element::default());
        let properties = blob.child("Properties").unwrap_or(&none);
        let size = text(properties, "Content-Length");
        let size = match size.is_empty() {
            true => 0,
            false => size.parse().map_err(|_| XmlError::Malformed(format!("the size '{size}'")))?,
        };
        if let Some(id) = blob.text_of("VersionId").filter(|id| !id.is_empty()) {
            self.versions.push(Version { key: key.clone(), id: id.to_string() });
        }
        // Headers have entity tags with quotes, listings without.
        self.listing.objects.push(ListedObject { key, size, etag: quoted(text(properties, "Etag")) });
        Ok(())
    }
}

fn quoted(etag: String) -> String {
    if etag.starts_with('"') { etag } else { format!("\"{etag}\"") }
}

/// Returns the id of a block. All ids of a blob must have the same length.
pub fn block_id(upload_id: &str, number: u32) -> String {
    base64(format!("{upload_id}-{number:05}").as_bytes())
}

/// Parses a response to Get Block List. Returns the ids of the uploads to which the blocks belong that are not part of
/// the blob, without those of other programs.
///
/// # Errors
/// If the body is not such a document.
pub fn uploads(body: &[u8]) -> Result<Vec<String>, XmlError> {
    let mut found = Vec::new();
    Element::each_grandchild(body, |block| {
        let id = block.text_of("Name").and_then(from_base64).and_then(|id| String::from_utf8(id).ok());
        if let Some((upload, _)) = id.as_deref().and_then(|id| id.split_once('-'))
            && !found.iter().any(|known| known == upload)
        {
            found.push(upload.to_string());
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the body of a request that makes a blob of the blocks with the numbers from 1 to `count`.
pub fn block_list(upload_id: &str, count: u32) -> String {
    let mut writer = XmlWriter::bare("BlockList");
    for number in 1..=count {
        writer.text("Latest", &block_id(upload_id, number));
    }
    writer.finish()
}

/// Parses an error response, and gives it the S3 code that is equivalent, so that codes are comparable between stores.
pub fn error_of(status: u16, code: &str, request_id: &str, body: &[u8]) -> S3Error {
    let mut error = S3Error::parse(status, request_id, body);
    if error.code.is_empty() {
        error.code = code.to_string();
    }
    // The message ends with the id and the time of the request.
    if let Some(at) = error.message.find("\nRequestId:") {
        error.message.truncate(at);
    }
    let equivalent = match error.code.as_str() {
        "BlobNotFound" | "ResourceNotFound" => "NoSuchKey",
        "ContainerNotFound" => "NoSuchBucket",
        "ContainerAlreadyExists" => "BucketAlreadyOwnedByYou",
        "ConditionNotMet" | "TargetConditionNotMet" | "BlobAlreadyExists" => "PreconditionFailed",
        "AuthenticationFailed" => "SignatureDoesNotMatch",
        "AuthorizationFailure" | "AuthorizationPermissionMismatch" | "InsufficientAccountPermissions" => {
            "AccessDenied"
        }
        "ServerBusy" => "SlowDown",
        _ => return error,
    };
    error.code = equivalent.into();
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<EnumerationResults ServiceEndpoint="https://a.blob.core.windows.net/" ContainerName="c">
 <Prefix>p/</Prefix><MaxResults>2</MaxResults>
 <Blobs>
  <Blob><Name>p/a b</Name><Properties><Etag>0x8D1</Etag><Content-Length>5</Content-Length></Properties></Blob>
 </Blobs>
 <NextMarker>2!72!x</NextMarker>
</EnumerationResults>"#;

    #[test]
    fn pages_are_parsed() {
        let page = Page::parse(PAGE.as_bytes()).unwrap();
        let listed = ListedObject { key: "p/a b".into(), size: 5, etag: "\"0x8D1\"".into() };
        assert_eq!(page.listing.objects, [listed]);
        assert_eq!(page.listing.next_token.as_deref(), Some("2!72!x"));
        assert!(Page::parse(b"<Error/>").is_err() && Page::parse(b"").is_err());
        let many = "<Blob><Name>k</Name></Blob>".repeat(10_001);
        let many = format!("<EnumerationResults><Blobs>{many}</Blobs></EnumerationResults>");
        assert!(Page::parse(many.as_bytes()).is_err());
    }

    #[test]
    fn block_ids_have_one_length() {
        let id = "00000000000000ab";
        assert_eq!(block_id(id, 1).len(), block_id(id, 50_000).len());
        assert_eq!(block_list(id, 2).matches("<Latest>").count(), 2);
        let block = |id: &str| format!("<Block><Name>{id}</Name><Size>5</Size></Block>");
        let blocks = [block(&block_id(id, 1)), block(&block_id(id, 2)), block("YWFh")].concat();
        let list = format!("<BlockList><UncommittedBlocks>{blocks}</UncommittedBlocks></BlockList>");
        assert_eq!(uploads(list.as_bytes()).unwrap(), [id]);
    }

    #[test]
    fn errors_get_the_equivalent_s3_codes() {
        let body = b"\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>BlobNotFound</Code>\
            <Message>The specified blob does not exist.\nRequestId:1\nTime:2</Message></Error>";
        let error = error_of(404, "BlobNotFound", "1", body);
        assert_eq!(
            (error.class().as_str(), error.message.as_str()),
            ("404 NoSuchKey", "The specified blob does not exist.")
        );
        assert_eq!(error_of(503, "ServerBusy", "", b"").class(), "503 SlowDown");
        assert_eq!(error_of(409, "BlobAlreadyExists", "", b"").class(), "409 PreconditionFailed");
    }
}
