//! Lifecycle rules of a bucket: expiration of objects and versions, and abort of unfinished uploads (S3 API reference,
//! "PutBucketLifecycleConfiguration").

use serde::{Deserialize, Serialize};

use super::tags::Tags;
use crate::error::{ApiError, ErrorCode};
use crate::response::{http_date, iso_date};
use plimsoll_base::rng::{entropy, mix};
use plimsoll_s3::xml::{Element, XmlWriter};

/// Maximum number of rules in a bucket.
const MAX_RULES: usize = 1000;

/// The lifecycle rules of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// Rules in the order of the document.
    pub rules: Vec<LifecycleRule>,
}

/// One lifecycle rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleRule {
    /// Name of the rule.
    pub id: String,
    /// True if the rule is in force.
    pub enabled: bool,
    /// Objects to which the rule applies.
    pub filter: Filter,
    /// Expiration of current objects; `None` if they do not expire.
    pub expiration: Option<Expiration>,
    /// Expiration of noncurrent versions; `None` if they do not expire.
    pub noncurrent: Option<NoncurrentExpiration>,
    /// Days after which an unfinished upload is aborted; `None` if it is not.
    pub abort_after_days: Option<u32>,
    /// Transitions of current objects to other storage classes.
    #[serde(default)]
    pub transitions: Vec<Transition>,
}

/// A transition of current objects to another storage class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Time of the transition; never [`Expiration::DeleteMarkers`].
    pub after: Expiration,
    /// Name of the storage class.
    pub storage_class: String,
}

/// Condition on objects; an absent property matches every object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Prefix of the key.
    pub prefix: String,
    /// Tags that the object must have.
    pub tags: Tags,
    /// Size in bytes that the object must exceed.
    pub larger_than: Option<u64>,
    /// Size in bytes that the object must stay below.
    pub smaller_than: Option<u64>,
    /// True for the older form of a rule, which has a prefix and no filter.
    pub only_prefix: bool,
}

/// Time at which current objects expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expiration {
    /// Days after the last modification.
    Days(u32),
    /// A date, as Unix seconds.
    Date(i64),
    /// Removes delete markers that have no other version.
    DeleteMarkers,
}

/// Expiration of noncurrent versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoncurrentExpiration {
    /// Days after the version became noncurrent.
    pub days: u32,
    /// Number of newer noncurrent versions to keep in any case.
    pub keep: u32,
}

fn malformed() -> ApiError {
    ApiError::new(ErrorCode::MalformedXML)
}

/// Parses a positive number.
fn positive(text: &str) -> Result<u32, ApiError> {
    let number = text.trim().parse::<u32>().map_err(|_| malformed())?;
    match number {
        0 => Err(ApiError::with(ErrorCode::InvalidArgument, "The number must be a positive integer")),
        number => Ok(number),
    }
}

impl Filter {
    fn parse(rule: &Element) -> Result<Filter, ApiError> {
        let mut filter = Filter::default();
        let Some(element) = rule.child("Filter") else {
            filter.prefix = rule.text_of("Prefix").ok_or_else(malformed)?.to_string();
            filter.only_prefix = true;
            return Ok(filter);
        };
        if rule.child("Prefix").is_some() {
            return Err(malformed());
        }
        let inner = element.child("And").unwrap_or(element);
        for child in &inner.children {
            let number = || child.text.trim().parse::<u64>().map_err(|_| malformed());
            match child.name.as_str() {
                "Prefix" => filter.prefix = child.text.clone(),
                "Tag" => {
                    let text = |name: &str| child.text_of(name).map(str::to_string).ok_or_else(malformed);
                    filter.tags.0.push((text("Key")?, text("Value")?));
                }
                "ObjectSizeGreaterThan" => filter.larger_than = Some(number()?),
                "ObjectSizeLessThan" => filter.smaller_than = Some(number()?),
                _ => return Err(malformed()),
            }
        }
        Ok(filter)
    }

    /// Returns true if the rule applies to an object with this key, size and these tags.
    pub fn matches(&self, key: &str, size: u64, tags: &Tags) -> bool {
        key.starts_with(&self.prefix)
            && self.tags.0.iter().all(|(key, value)| tags.contains(key, value))
            && self.larger_than.is_none_or(|least| size > least)
            && self.smaller_than.is_none_or(|most| size < most)
    }

    fn write(&self, writer: &mut XmlWriter) {
        if self.only_prefix {
            writer.text("Prefix", &self.prefix);
            return;
        }
        let conditions = usize::from(!self.prefix.is_empty())
            + self.tags.len()
            + usize::from(self.larger_than.is_some())
            + usize::from(self.smaller_than.is_some());
        writer.open("Filter");
        if conditions > 1 {
            writer.open("And");
        }
        if !self.prefix.is_empty() || conditions == 0 {
            writer.text("Prefix", &self.prefix);
        }
        for (key, value) in &self.tags.0 {
            writer.open("Tag").text("Key", key).text("Value", value).close();
        }
        if let Some(bytes) = self.larger_than {
            writer.text("ObjectSizeGreaterThan", &bytes.to_string());
        }
        if let Some(bytes) = self.smaller_than {
            writer.text("ObjectSizeLessThan", &bytes.to_string());
        }
        if conditions > 1 {
            writer.close();
        }
        writer.close();
    }
}

impl Expiration {
    fn parse(element: &Element) -> Result<Expiration, ApiError> {
        let [child] = element.children.as_slice() else { return Err(malformed()) };
        match child.name.as_str() {
            "Days" => positive(&child.text).map(Expiration::Days),
            "ExpiredObjectDeleteMarker" if child.text.trim() == "true" => Ok(Expiration::DeleteMarkers),
            "Date" => Expiration::parse_date(&child.text),
            _ => Err(malformed()),
        }
    }

    fn parse_date(text: &str) -> Result<Expiration, ApiError> {
        let text = text.trim();
        let midnight = || format!("{text}T00:00:00Z").parse().ok();
        let at: jiff::Timestamp = text.parse().ok().or_else(midnight).ok_or_else(malformed)?;
        if at.as_second() % 86_400 != 0 {
            return Err(ApiError::with(ErrorCode::InvalidArgument, "'Date' must be at midnight GMT"));
        }
        Ok(Expiration::Date(at.as_second()))
    }

    fn write(self, writer: &mut XmlWriter) {
        match self {
            Expiration::Days(days) => writer.text("Days", &days.to_string()),
            Expiration::Date(at) => {
                writer.text("Date", &iso_date(jiff::Timestamp::from_second(at).unwrap_or_default()))
            }
            Expiration::DeleteMarkers => writer.text("ExpiredObjectDeleteMarker", "true"),
        };
    }
}

impl Transition {
    fn parse(element: &Element) -> Result<Transition, ApiError> {
        let (mut after, mut storage_class) = (None, None);
        for child in &element.children {
            match child.name.as_str() {
                "StorageClass" if storage_class.is_none() => {
                    storage_class = Some(child.text.trim().to_string()).filter(|class| !class.is_empty());
                }
                // An object may change its class at once, unlike its expiration.
                "Days" if after.is_none() => {
                    after = Some(Expiration::Days(child.text.trim().parse().map_err(|_| malformed())?));
                }
                "Date" if after.is_none() => after = Some(Expiration::parse_date(&child.text)?),
                _ => return Err(malformed()),
            }
        }
        match (after, storage_class) {
            (Some(after), Some(storage_class)) => Ok(Transition { after, storage_class }),
            _ => Err(malformed()),
        }
    }
}

impl LifecycleRule {
    fn parse(element: &Element) -> Result<LifecycleRule, ApiError> {
        const KNOWN: [&str; 8] = [
            "ID",
            "Status",
            "Filter",
            "Prefix",
            "Expiration",
            "Transition",
            "NoncurrentVersionExpiration",
            "AbortIncompleteMultipartUpload",
        ];
        if let Some(other) = element.children.iter().find(|c| !KNOWN.contains(&c.name.as_str())) {
            let text = format!("This server does not implement {} in a lifecycle rule", other.name);
            return Err(match other.name.as_str() {
                "NoncurrentVersionTransition" => ApiError::with(ErrorCode::NotImplemented, text),
                _ => malformed(),
            });
        }
        let enabled = match element.text_of("Status").map(str::trim) {
            Some("Enabled") => true,
            Some("Disabled") => false,
            _ => return Err(malformed()),
        };
        let noncurrent = |e: &Element| {
            let keep = e.text_of("NewerNoncurrentVersions").map_or(Ok(0), positive)?;
            let days = e.text_of("NoncurrentDays").ok_or_else(malformed).and_then(positive)?;
            Ok(NoncurrentExpiration { days, keep })
        };
        let abort = |e: &Element| e.text_of("DaysAfterInitiation").ok_or_else(malformed).and_then(positive);
        let rule = LifecycleRule {
            id: element.text_of("ID").filter(|id| !id.is_empty()).map(str::to_string).unwrap_or_default(),
            enabled,
            filter: Filter::parse(element)?,
            expiration: element.child("Expiration").map(Expiration::parse).transpose()?,
            noncurrent: element.child("NoncurrentVersionExpiration").map(noncurrent).transpose()?,
            abort_after_days: element.child("AbortIncompleteMultipartUpload").map(abort).transpose()?,
            transitions: element.all("Transition").map(Transition::parse).collect::<Result<_, _>>()?,
        };
        if rule.id.len() > 255 {
            return Err(ApiError::with(
                ErrorCode::InvalidArgument,
                "ID length should not exceed allowed limit of 255",
            ));
        }
        let acts = rule.expiration.is_some() || rule.noncurrent.is_some() || rule.abort_after_days.is_some();
        if acts || !rule.transitions.is_empty() { Ok(rule) } else { Err(malformed()) }
    }

    fn write(&self, writer: &mut XmlWriter) {
        writer.open("Rule").text("ID", &self.id);
        self.filter.write(writer);
        writer.text("Status", if self.enabled { "Enabled" } else { "Disabled" });
        if let Some(expiration) = self.expiration {
            writer.open("Expiration");
            expiration.write(writer);
            writer.close();
        }
        for transition in &self.transitions {
            writer.open("Transition");
            transition.after.write(writer);
            writer.text("StorageClass", &transition.storage_class).close();
        }
        if let Some(noncurrent) = self.noncurrent {
            writer.open("NoncurrentVersionExpiration");
            writer.text("NoncurrentDays", &noncurrent.days.to_string());
            if noncurrent.keep > 0 {
                writer.text("NewerNoncurrentVersions", &noncurrent.keep.to_string());
            }
            writer.close();
        }
        if let Some(days) = self.abort_after_days {
            writer.open("AbortIncompleteMultipartUpload");
            writer.text("DaysAfterInitiation", &days.to_string()).close();
        }
        writer.close();
    }
}

impl Lifecycle {
    /// Returns the expiry of a current object as in the header `x-amz-expiration`: the earliest date, at midnight, and
    /// the rule; `None` if no rule expires the object.
    pub fn expiry(&self, key: &str, size: u64, tags: &Tags, modified: jiff::Timestamp) -> Option<String> {
        const DAY_S: i64 = 86_400;
        let expires = |rule: &LifecycleRule| match rule.expiration? {
            Expiration::Days(days) => {
                Some((modified.as_second() / DAY_S + i64::from(days) + 1).saturating_mul(DAY_S))
            }
            Expiration::Date(at) => Some(at),
            Expiration::DeleteMarkers => None,
        };
        let rules = self.rules.iter().filter(|rule| rule.enabled && rule.filter.matches(key, size, tags));
        let (at, rule) = rules.filter_map(|rule| Some((expires(rule)?, rule))).min_by_key(|(at, _)| *at)?;
        let date = http_date(jiff::Timestamp::from_second(at).ok()?);
        Some(format!("expiry-date=\"{date}\", rule-id=\"{}\"", rule.id))
    }

    /// Parses a `LifecycleConfiguration` document. A rule without an id gets one.
    ///
    /// # Errors
    /// Returns `MalformedXML`, `InvalidArgument` for a rule that S3 does not accept, or `NotImplemented` for a
    /// transition of noncurrent versions.
    pub fn parse(document: &[u8]) -> Result<Lifecycle, ApiError> {
        let root = Element::parse(document).map_err(|_| malformed())?;
        let rules: Result<Vec<LifecycleRule>, ApiError> =
            root.all("Rule").map(LifecycleRule::parse).collect();
        let mut rules = rules?;
        if root.name != "LifecycleConfiguration" || rules.is_empty() || rules.len() > MAX_RULES {
            return Err(malformed());
        }
        for index in 0..rules.len() {
            if rules[index].id.is_empty() {
                rules[index].id = format!("{:016x}", mix(entropy() ^ index as u64));
            }
            let (before, this) = rules.split_at(index);
            if before.iter().any(|rule| rule.id == this[0].id) {
                return Err(ApiError::with(ErrorCode::InvalidArgument, "Rule ID must be unique"));
            }
        }
        Ok(Lifecycle { rules })
    }

    /// Returns the rules as a `LifecycleConfiguration` document.
    pub fn to_xml(&self) -> String {
        let mut writer = XmlWriter::new("LifecycleConfiguration");
        self.rules.iter().for_each(|rule| rule.write(&mut writer));
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(rule: &str) -> Result<Lifecycle, &'static str> {
        let document = format!("<LifecycleConfiguration><Rule>{rule}</Rule></LifecycleConfiguration>");
        Lifecycle::parse(document.as_bytes()).map_err(|e| e.code.name())
    }

    #[test]
    fn a_document_survives_a_round_trip() {
        for rule in [
            "<ID>a</ID><Prefix>logs/</Prefix><Status>Enabled</Status><Expiration><Days>3</Days></Expiration>",
            "<ID>b</ID><Filter><And><Prefix>x</Prefix><Tag><Key>k</Key><Value>v</Value></Tag>\
             <ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></And></Filter><Status>Disabled</Status>\
             <Expiration><Date>2026-01-01T00:00:00Z</Date></Expiration>",
            "<Filter/><Status>Enabled</Status><NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays>\
             <NewerNoncurrentVersions>4</NewerNoncurrentVersions></NoncurrentVersionExpiration>\
             <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>",
            "<Filter/><Status>Enabled</Status><Transition><Days>0</Days><StorageClass>STANDARD_IA</StorageClass>\
             </Transition><Transition><Date>2026-01-01</Date><StorageClass>GLACIER</StorageClass></Transition>",
        ] {
            let rules = parsed(rule).unwrap();
            assert_eq!(Lifecycle::parse(rules.to_xml().as_bytes()).unwrap(), rules, "{rule}");
        }
    }

    #[test]
    fn invalid_rules_are_rejected() {
        let expires = "<Expiration><Days>1</Days></Expiration>";
        for (rule, code) in [
            (format!("<Prefix/><Status>enabled</Status>{expires}"), "MalformedXML"),
            (format!("<Status>Enabled</Status>{expires}"), "MalformedXML"),
            ("<Prefix/><Status>Enabled</Status>".to_string(), "MalformedXML"),
            (
                "<Prefix/><Status>Enabled</Status><Expiration><Days>0</Days></Expiration>".to_string(),
                "InvalidArgument",
            ),
            (
                format!("<ID>{}</ID><Prefix/><Status>Enabled</Status>{expires}", "x".repeat(256)),
                "InvalidArgument",
            ),
            (
                "<Prefix/><Status>Enabled</Status><Transition><Days>1</Days></Transition>".to_string(),
                "MalformedXML",
            ),
            (
                "<Prefix/><Status>Enabled</Status><NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays>\
                 <StorageClass>GLACIER</StorageClass></NoncurrentVersionTransition>"
                    .to_string(),
                "NotImplemented",
            ),
        ] {
            assert_eq!(parsed(&rule), Err(code), "{rule}");
        }
    }

    #[test]
    fn a_filter_combines_its_conditions() {
        let tags = Tags(vec![("k".into(), "v".into())]);
        let filter =
            Filter { prefix: "a/".into(), tags: tags.clone(), larger_than: Some(10), ..Filter::default() };
        assert!(filter.matches("a/b", 11, &tags));
        assert!(!filter.matches("a/b", 10, &tags));
        assert!(!filter.matches("b", 11, &tags));
        assert!(!filter.matches("a/b", 11, &Tags::default()));
    }
}
