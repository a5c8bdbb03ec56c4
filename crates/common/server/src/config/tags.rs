//! Tags of objects and buckets (S3 API reference, "Tagging").

use serde::{Deserialize, Serialize};

use crate::error::{ApiError, ErrorCode};
use plimsoll_base::net::encode::parse_query;
use plimsoll_s3::xml::{Element, XmlWriter};

/// Maximum number of tags of an object.
const MAX_OBJECT_TAGS: usize = 10;
/// Maximum number of tags of a bucket.
const MAX_BUCKET_TAGS: usize = 50;
/// Maximum length of a tag's key in characters.
const MAX_KEY: usize = 128;
/// Maximum length of a tag's value in characters.
const MAX_VALUE: usize = 256;

/// Tags as pairs of key and value, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags(pub Vec<(String, String)>);

impl Tags {
    /// Returns the number of tags.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a tag has this key and this value.
    pub fn contains(&self, key: &str, value: &str) -> bool {
        self.0.iter().any(|(k, v)| k == key && v == value)
    }

    /// Parses a `Tagging` document of an object or, with `of_bucket`, of a bucket.
    ///
    /// # Errors
    /// Returns `MalformedXML`, or `InvalidTag` for tags that break the rules of S3.
    pub fn parse(document: &[u8], of_bucket: bool) -> Result<Tags, ApiError> {
        let malformed = || ApiError::new(ErrorCode::MalformedXML);
        let root = Element::parse(document).map_err(|_| malformed())?;
        if root.name != "Tagging" {
            return Err(malformed());
        }
        let set = root.child("TagSet").ok_or_else(malformed)?;
        let tag = |e: &Element| Some((e.text_of("Key")?.to_string(), e.text_of("Value")?.to_string()));
        let tags: Option<Vec<_>> = set.all("Tag").map(tag).collect();
        Tags(tags.ok_or_else(malformed)?).checked(of_bucket)
    }

    /// Parses the `x-amz-tagging` header of an object: tags in the form of a query string.
    ///
    /// # Errors
    /// Returns `InvalidArgument` for a malformed header, or `InvalidTag` for tags that break the rules of S3.
    pub fn parse_header(text: &str) -> Result<Tags, ApiError> {
        let wrong = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.";
        if text.is_empty() {
            return Ok(Tags::default());
        }
        let pairs = parse_query(&text.replace('+', "%20"));
        Tags(pairs.ok_or_else(|| ApiError::with(ErrorCode::InvalidArgument, wrong))?).checked(false)
    }

    fn checked(mut self, of_bucket: bool) -> Result<Tags, ApiError> {
        self.0.sort();
        let invalid = |text: &str| Err(ApiError::with(ErrorCode::InvalidTag, text));
        let most = if of_bucket { MAX_BUCKET_TAGS } else { MAX_OBJECT_TAGS };
        if self.len() > most {
            if of_bucket {
                return invalid("A bucket cannot have more than 50 tags");
            }
            return Err(ApiError::with(ErrorCode::BadRequest, "Object tags cannot be greater than 10"));
        }
        for (index, (key, value)) in self.0.iter().enumerate() {
            if key.is_empty() || key.chars().count() > MAX_KEY {
                return invalid("The TagKey you have provided is invalid");
            }
            if value.chars().count() > MAX_VALUE {
                return invalid("The TagValue you have provided is invalid");
            }
            if key.starts_with("aws:") {
                return invalid("System tags cannot be added/updated by requester");
            }
            if self.0[..index].iter().any(|(earlier, _)| earlier == key) {
                return invalid("Cannot provide multiple Tags with the same key");
            }
        }
        Ok(self)
    }

    /// Returns the tags as a `Tagging` document.
    pub fn to_xml(&self) -> String {
        let mut writer = XmlWriter::new("Tagging");
        writer.open("TagSet");
        for (key, value) in &self.0 {
            writer.open("Tag").text("Key", key).text("Value", value).close();
        }
        writer.close();
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_survives_a_round_trip() {
        let tags = Tags::parse_header("project=a%20b&empty=&x=1%2B1").unwrap();
        assert_eq!(tags.0[1], ("project".into(), "a b".into()));
        assert_eq!(Tags::parse(tags.to_xml().as_bytes(), false).unwrap(), tags);
    }

    #[test]
    fn tags_that_break_the_rules_are_rejected() {
        let code = |text: &str| Tags::parse_header(text).unwrap_err().code.name();
        assert_eq!(code("a=1&a=2"), "InvalidTag");
        assert_eq!(code("=1"), "InvalidTag");
        assert_eq!(code("aws:x=1"), "InvalidTag");
        assert_eq!(code("a=%zz"), "InvalidArgument");
        assert_eq!(code(&format!("{}=1", "k".repeat(129))), "InvalidTag");
        assert_eq!(code(&format!("k={}", "v".repeat(257))), "InvalidTag");
        let eleven: Vec<String> = (0..11).map(|i| format!("k{i}=v")).collect();
        assert_eq!(code(&eleven.join("&")), "BadRequest");
        assert_eq!(Tags::parse(b"<Tags/>", false).unwrap_err().code, ErrorCode::MalformedXML);
    }
}
