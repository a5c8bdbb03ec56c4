//! Provider profiles: the addressing, limits and documented properties of each kind of store. `providers/*.toml`
//! contains the built-in profiles; a file of the same form adds another.
//!
//! A [`Profile`] states how requests are addressed, which checksums uploads may carry and which rules parts must obey.
//! [`rules`] checks a workload against the limits of a profile. Nothing here sends requests.

pub use matrix::MatrixRow;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::parse_size;

pub mod calls;
mod matrix;
pub mod rules;
pub mod zone;

/// Name and text of each built-in profile.
const BUILT_IN: &[(&str, &str)] = &[
    ("aws-s3", include_str!("../../providers/aws-s3.toml")),
    ("aws-s3-express", include_str!("../../providers/aws-s3-express.toml")),
    ("cloudflare-r2", include_str!("../../providers/cloudflare-r2.toml")),
    ("google-cloud-storage", include_str!("../../providers/google-cloud-storage.toml")),
    ("azure-blob", include_str!("../../providers/azure-blob.toml")),
    ("tigris", include_str!("../../providers/tigris.toml")),
    ("backblaze-b2", include_str!("../../providers/backblaze-b2.toml")),
    ("wasabi", include_str!("../../providers/wasabi.toml")),
    ("minio", include_str!("../../providers/minio.toml")),
    ("generic", include_str!("../../providers/generic.toml")),
    ("embedded", include_str!("../../providers/embedded.toml")),
];

/// Position of the bucket name in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// Path style: `https://host/bucket/key`.
    #[default]
    Path,
    /// Virtual-host style: `https://bucket.host/key`.
    Virtual,
}

/// Content of an entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// MD5 of the content. For a multipart object, the MD5 of its parts' MD5s, followed by the number of parts.
    Md5,
    /// A value that a client cannot compute.
    #[default]
    Opaque,
}

/// Order of the keys in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListOrder {
    /// Keys are listed in lexicographic order.
    #[default]
    Key,
    /// Keys are listed in no defined order, and `start-after` is not supported.
    None,
}

/// Prefixes that a listing accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListPrefix {
    /// A listing accepts any prefix.
    #[default]
    Any,
    /// A listing accepts only prefixes that end in `/`.
    Directory,
}

/// Rules of multipart uploads. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Minimum size of every part except the last.
    #[serde(deserialize_with = "size")]
    pub least: u64,
    /// Maximum size of a part.
    #[serde(deserialize_with = "size")]
    pub most: u64,
    /// Maximum number of parts.
    pub count: u64,
    /// True if all parts except the last must have the same size.
    #[serde(default)]
    pub equal: bool,
    /// True if part numbers must be consecutive, starting at 1.
    #[serde(default)]
    pub consecutive: bool,
}

/// Limits on objects. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderLimits {
    /// Maximum size of an object that one request uploads.
    #[serde(deserialize_with = "size")]
    pub put: u64,
    /// Maximum size of an object.
    #[serde(deserialize_with = "size")]
    pub object: u64,
    /// Maximum number of writes to one key per second; `None` if there is no such limit.
    pub writes_per_key_per_s: Option<f64>,
}

/// Confidence in a stated fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Stated in the provider's own documentation, which was read for this entry.
    High,
    /// Stated by a third party, or by a source that was not read in full.
    Medium,
    /// Not confirmed by any source.
    Low,
}

impl Confidence {
    /// Returns the name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
    }
}

/// A documented request limit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests that the limit applies to.
    pub what: String,
    /// Requests per second; `None` if the number varies.
    pub per_s: Option<f64>,
    /// Scope of the limit: key, prefix, bucket or account.
    pub scope: String,
    /// Response of the store to requests above the limit.
    pub answer: String,
    /// Document that states it.
    pub source: String,
    /// Year and month in which the source was read.
    pub as_of: String,
    /// Confidence in the statement.
    pub confidence: Confidence,
}

/// One fact of the decision matrix.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// Row of the matrix that the fact fills.
    pub key: MatrixRow,
    /// Text of the cell.
    pub value: String,
    /// Document that states it.
    pub source: String,
    /// Year and month in which the source was read.
    pub as_of: String,
    /// Confidence in the statement.
    pub confidence: Confidence,
}

/// Properties of one kind of store.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name used in store URLs and results.
    pub name: String,
    /// Name used in tables and messages.
    pub title: String,
    /// URL of the endpoint, which may contain `{region}`, `{account}` or `{zone}`; `None` if it has no fixed endpoint.
    pub endpoint: Option<String>,
    /// Endpoints of regions that differ from `endpoint`, by region.
    #[serde(default)]
    pub endpoints: BTreeMap<String, String>,
    /// URL of the endpoint that creates and deletes buckets; `None` if it is `endpoint`.
    pub control_endpoint: Option<String>,
    /// Host names that identify the provider; `*` matches one or more characters.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Region used if neither the store URL nor the environment names one.
    pub region: String,
    /// Names of all known regions; empty if the profile lists none.
    #[serde(default)]
    pub regions: Vec<String>,
    /// Region of each zone, by the part of the zone id before `-az`.
    #[serde(default)]
    pub zones: BTreeMap<String, String>,
    /// Addressing style of the provider.
    #[serde(default)]
    pub style: Addressing,
    /// True if requests are signed with the credentials of a session (CreateSession).
    #[serde(default)]
    pub sessions: bool,
    /// True if buckets may keep old versions of objects, which a delete does not remove.
    #[serde(default = "yes")]
    pub versions: bool,
    /// Checksums that uploads may carry: `md5` (Content-MD5), `crc32`, `crc32c`, `crc64nvme`, `sha1`, `sha256`.
    #[serde(default)]
    pub checksums: Vec<String>,
    /// Subset of `checksums` that the store computes over a whole multipart object.
    #[serde(default)]
    pub full_object: Vec<String>,
    /// Checksum that Plimsoll sends with requests that must carry one, such as DeleteObjects.
    #[serde(default = "md5")]
    pub request_checksum: String,
    /// Entity tag of an object uploaded by one request.
    #[serde(default)]
    pub etag: Tag,
    /// Entity tag of a multipart object.
    #[serde(default)]
    pub multipart_etag: Tag,
    /// Order of the keys in listings.
    #[serde(default)]
    pub list_order: ListOrder,
    /// Prefixes that listings accept.
    #[serde(default)]
    pub list_prefix: ListPrefix,
    /// Name of the request header that sets the storage class.
    #[serde(default = "storage_class_header")]
    pub storage_class_header: String,
    /// Storage classes that an upload may request; empty if they are not known.
    #[serde(default)]
    pub storage_classes: Vec<String>,
    /// Other known deviations from S3, in words.
    #[serde(default)]
    pub quirks: Vec<String>,
    /// Rules of multipart uploads.
    pub parts: Parts,
    /// Limits on objects.
    pub limits: ProviderLimits,
    /// Documented request limits.
    #[serde(default)]
    pub rate: Vec<Rate>,
    /// Facts of the decision matrix.
    #[serde(default)]
    pub fact: Vec<Fact>,
}

fn size<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_size(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn yes() -> bool {
    true
}

fn md5() -> String {
    "md5".into()
}

fn storage_class_header() -> String {
    "x-amz-storage-class".into()
}

/// Failure to load a profile, or to build an endpoint URL from it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProfileError {
    /// No built-in profile has this name.
    #[error(
        "unknown provider '{0}': use one of {known} (see `plimsoll list providers`), \
         or a file such as ./mine.toml",
        known = names().join(", ")
    )]
    Unknown(String),
    /// The profile file cannot be read.
    #[error("could not read provider file {path}: {reason}")]
    File {
        /// Path as given.
        path: String,
        /// Error from the operating system.
        reason: String,
    },
    /// The profile file is invalid.
    #[error("{path}:{line}: {message}; see providers/generic.toml for an example")]
    At {
        /// Path of the file.
        path: String,
        /// Line number, from 1.
        line: usize,
        /// Description of the error.
        message: String,
    },
    /// The endpoint URL contains a placeholder that has no value.
    #[error("{provider} needs {hole}= or endpoint= in the store URL")]
    Hole {
        /// Name of the provider.
        provider: String,
        /// Name of the missing parameter.
        hole: String,
    },
}

/// Returns the names of the built-in profiles.
pub fn names() -> Vec<&'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).collect()
}

fn parse(path: &str, text: &str) -> Result<Profile, ProfileError> {
    toml::from_str(text).map_err(|e| {
        let offset = e.span().map_or(0, |s| s.start).min(text.len());
        let line = text[..offset].matches('\n').count() + 1;
        ProfileError::At { path: path.into(), line, message: e.message().trim().replace('\n', " ") }
    })
}

/// Parses all built-in profiles.
///
/// # Errors
/// If a built-in file is invalid, which is a bug.
pub fn all() -> Result<Vec<Profile>, ProfileError> {
    BUILT_IN.iter().map(|(name, text)| parse(name, text)).collect()
}

/// Loads the built-in profile called `name`, or the profile in the file `name` if it ends in `.toml`.
///
/// # Errors
/// If there is no such profile, or the file is unreadable or invalid; see [`ProfileError`].
pub fn load(name: &str) -> Result<Profile, ProfileError> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
        return parse(name, text);
    }
    if !name.ends_with(".toml") {
        return Err(ProfileError::Unknown(name.into()));
    }
    let text = std::fs::read_to_string(name)
        .map_err(|e| ProfileError::File { path: name.into(), reason: e.to_string() })?;
    parse(name, &text)
}

/// Returns the built-in profile that lists this host, or `None` if no profile does.
pub fn of_host(host: &str) -> Option<Profile> {
    // The longest pattern is the most specific one.
    let fits = |text| hosts_in(text).filter(|pattern| matches(pattern, host)).map(str::len).max();
    let found = BUILT_IN.iter().filter_map(|(name, text)| Some((fits(text)?, name, text)));
    let (_, name, text) = found.max_by_key(|(length, ..)| *length)?;
    parse(name, text).ok()
}

/// Returns the patterns of hosts in the text of a built-in profile, so that only one of them must be parsed.
fn hosts_in(text: &str) -> impl Iterator<Item = &str> {
    let list = text.lines().find_map(|line| line.strip_prefix("hosts = [")).unwrap_or_default();
    list.split('"').skip(1).step_by(2)
}

/// Returns true if `host` belongs to the provider itself rather than to an emulator or a compatible server. DynamoDB
/// has a host but no profile.
pub fn is_own_host(provider: &str, host: &str) -> bool {
    let dynamo = provider == "aws-dynamodb" && host.ends_with(".amazonaws.com");
    dynamo || of_host(host).is_some_and(|profile| profile.name == provider)
}

/// Returns true if `text` matches `pattern`, in which `*` matches one or more characters.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (1..=rest.len()).filter(|&i| rest.is_char_boundary(i)).any(|i| matches(tail, &rest[i..]))
        }),
    }
}

/// Values of the placeholders in an endpoint URL.
#[derive(Debug, Clone, Copy, Default)]
pub struct EndpointParameters<'a> {
    /// Value of `{region}`.
    pub region: &'a str,
    /// Value of `{account}`; `None` if it is not known.
    pub account: Option<&'a str>,
    /// Value of `{zone}`, a zone id; `None` if the bucket has none.
    pub zone: Option<&'a str>,
}

impl Profile {
    /// Returns the URL of the endpoint, or `None` if the provider has no fixed endpoint.
    ///
    /// # Errors
    /// [`ProfileError::Hole`] if a placeholder has no value.
    pub fn endpoint(&self, holes: EndpointParameters<'_>) -> Result<Option<String>, ProfileError> {
        let template = self.endpoints.get(holes.region).or(self.endpoint.as_ref());
        template.map(|t| self.fill(t, holes)).transpose()
    }

    /// Returns the URL of the endpoint that creates and deletes buckets, or `None` if it is the main endpoint.
    ///
    /// # Errors
    /// [`ProfileError::Hole`] if a placeholder has no value.
    pub fn control(&self, holes: EndpointParameters<'_>) -> Result<Option<String>, ProfileError> {
        self.control_endpoint.as_ref().map(|t| self.fill(t, holes)).transpose()
    }

    fn fill(&self, template: &str, holes: EndpointParameters<'_>) -> Result<String, ProfileError> {
        let mut out = template.to_string();
        for (hole, value) in
            [("region", Some(holes.region)), ("account", holes.account), ("zone", holes.zone)]
        {
            let place = format!("{{{hole}}}");
            if out.contains(&place) {
                let value = value
                    .ok_or_else(|| ProfileError::Hole { provider: self.name.clone(), hole: hole.into() })?;
                out = out.replace(&place, value);
            }
        }
        Ok(out)
    }

    /// Returns the region of a zone id, or `None` if it is not known.
    pub fn region_of(&self, zone: &str) -> Option<&str> {
        self.zones.get(zone.split("-az").next()?).map(String::as_str)
    }

    /// Returns true if the store computes this checksum over a whole multipart object.
    pub fn keeps_whole(&self, checksum: &str) -> bool {
        self.full_object.iter().any(|c| c == checksum)
    }

    /// Returns true if uploads may carry this checksum.
    pub fn takes(&self, checksum: &str) -> bool {
        self.checksums.iter().any(|c| c == checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_is_valid_and_has_its_name() {
        for (profile, (name, text)) in all().unwrap().iter().zip(BUILT_IN) {
            assert_eq!(profile.name, *name);
            assert_eq!(hosts_in(text).collect::<Vec<_>>(), profile.hosts, "{name}: hosts in one line");
            let known = ["md5", "crc32", "crc32c", "crc64nvme", "sha1", "sha256"];
            let named = profile.checksums.iter().chain(&profile.full_object);
            for checksum in named.chain([&profile.request_checksum]) {
                assert!(known.contains(&checksum.as_str()), "{name}: {checksum}");
            }
            assert!(profile.takes(&profile.request_checksum), "{name}");
            assert!(profile.full_object.iter().all(|c| profile.takes(c)), "{name}");
            assert!(profile.parts.least <= profile.parts.most && profile.parts.count > 0, "{name}");
            for (row, fact) in profile.fact.iter().map(|f| (f.key, f)) {
                assert_eq!(profile.fact.iter().filter(|f| f.key == row).count(), 1, "{name}: {row:?}");
                assert!(fact.source.len() > 3 && fact.as_of.starts_with("20"), "{name}: {row:?}");
            }
        }
    }

    #[test]
    fn providers_are_recognised_by_host() {
        for (host, name) in [
            ("abc123.r2.cloudflarestorage.com", Some("cloudflare-r2")),
            ("bucket.s3.eu-west-1.amazonaws.com", Some("aws-s3")),
            ("b--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com", Some("aws-s3-express")),
            ("storage.googleapis.com", Some("google-cloud-storage")),
            ("t3.storage.dev", Some("tigris")),
            ("s3.us-west-004.backblazeb2.com", Some("backblaze-b2")),
            ("s3.wasabisys.com", Some("wasabi")),
            ("127.0.0.1", None),
            ("s3.example.org", None),
        ] {
            assert_eq!(of_host(host).map(|p| p.name).as_deref(), name, "{host}");
        }
    }

    #[test]
    fn endpoint_placeholders_are_filled_or_reported() {
        let r2 = load("cloudflare-r2").unwrap();
        let holes = EndpointParameters { region: "auto", account: Some("abc"), zone: None };
        assert_eq!(r2.endpoint(holes).unwrap().unwrap(), "https://abc.r2.cloudflarestorage.com");
        let missing = r2.endpoint(EndpointParameters { account: None, ..holes }).unwrap_err().to_string();
        assert!(missing.contains("cloudflare-r2 needs account="), "{missing}");
        let wasabi = load("wasabi").unwrap();
        let at = |region| {
            wasabi.endpoint(EndpointParameters { region, ..EndpointParameters::default() }).unwrap().unwrap()
        };
        assert_eq!(at("us-east-1"), "https://s3.wasabisys.com");
        assert_eq!(at("eu-central-1"), "https://s3.eu-central-1.wasabisys.com");
        let unknown = load("amazon").unwrap_err().to_string();
        assert!(unknown.contains("aws-s3-express") && unknown.contains("plimsoll list providers"));
    }
}
