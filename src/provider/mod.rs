//! Providers as data: what a kind of store expects, allows and promises. `providers/*.toml` holds the built-in ones; a file of the same
//! form adds another.
//!
//! A [`Profile`] says how requests to it are addressed, which checksums they may bear and which rules parts obey. Nothing here talks to a
//! store; [`rules`] holds a workload's figures against a profile's limits.

pub use matrix::Row;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::parse_size;

pub mod calls;
mod matrix;
pub mod rules;
pub mod zone;

/// The built-in profiles: name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("aws-s3", include_str!("../../providers/aws-s3.toml")),
    ("aws-s3-express", include_str!("../../providers/aws-s3-express.toml")),
    ("cloudflare-r2", include_str!("../../providers/cloudflare-r2.toml")),
    ("google-cloud-storage", include_str!("../../providers/google-cloud-storage.toml")),
    ("tigris", include_str!("../../providers/tigris.toml")),
    ("backblaze-b2", include_str!("../../providers/backblaze-b2.toml")),
    ("wasabi", include_str!("../../providers/wasabi.toml")),
    ("minio", include_str!("../../providers/minio.toml")),
    ("generic", include_str!("../../providers/generic.toml")),
    ("embedded", include_str!("../../providers/embedded.toml")),
];

/// How a bucket is named in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// `https://host/bucket/key`.
    #[default]
    Path,
    /// `https://bucket.host/key`.
    Virtual,
}

/// What an entity tag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// MD5 of the content; for a multipart object MD5 of its parts' MD5s, with their number behind it.
    Md5,
    /// Nothing that can be computed.
    #[default]
    Opaque,
}

/// In which order keys are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListOrder {
    /// By key.
    #[default]
    Key,
    /// In none; `start-after` is not understood.
    None,
}

/// Which prefixes a listing takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListPrefix {
    /// Any.
    #[default]
    Any,
    /// Those that end in `/`.
    Directory,
}

/// Rules of multipart uploads; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Least size of a part that is not the last.
    #[serde(deserialize_with = "size")]
    pub least: u64,
    /// Most bytes of a part.
    #[serde(deserialize_with = "size")]
    pub most: u64,
    /// Most parts.
    pub count: u64,
    /// Whether all parts but the last must have one size.
    #[serde(default)]
    pub equal: bool,
    /// Whether part numbers must be 1, 2, 3 and so on.
    #[serde(default)]
    pub consecutive: bool,
}

/// Limits on objects; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Most bytes that one request may put.
    #[serde(deserialize_with = "size")]
    pub put: u64,
    /// Most bytes of an object.
    #[serde(deserialize_with = "size")]
    pub object: u64,
    /// Writes to one key per second, where there is such a limit.
    pub writes_per_key_per_s: Option<f64>,
}

/// How sure a stated fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The provider says so, and it was read.
    High,
    /// Others say so, or it was read in passing.
    Medium,
    /// Not confirmed by a source.
    Low,
}

impl Confidence {
    /// Name in files and tables.
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
    /// Which requests.
    pub what: String,
    /// How many per second; `None` where it depends.
    pub per_s: Option<f64>,
    /// Per what: key, prefix, bucket, account.
    pub scope: String,
    /// How the store answers beyond it.
    pub answer: String,
    /// Where it is written.
    pub source: String,
    /// When it was read, year and month.
    pub as_of: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// One fact of the decision matrix.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// Row of the matrix.
    pub key: Row,
    /// What is said.
    pub value: String,
    /// Where it is written.
    pub source: String,
    /// When it was read, year and month.
    pub as_of: String,
    /// How sure it is.
    pub confidence: Confidence,
}

/// A kind of store.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name in store URLs and results.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// Where it is: a URL with `{region}`, `{account}` or `{zone}` in it; `None` where it can be anywhere.
    pub endpoint: Option<String>,
    /// Where single regions differ from `endpoint`.
    #[serde(default)]
    pub endpoints: BTreeMap<String, String>,
    /// Where buckets are created and deleted, when that is elsewhere.
    pub control_endpoint: Option<String>,
    /// Host names by which it is recognised; `*` stands for any letters.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Region where none is said.
    pub region: String,
    /// Known regions; empty where there are none to know.
    #[serde(default)]
    pub regions: Vec<String>,
    /// Region by the first part of a zone id.
    #[serde(default)]
    pub zones: BTreeMap<String, String>,
    /// How buckets are addressed.
    #[serde(default)]
    pub style: Addressing,
    /// Whether requests are signed with the credentials of a session.
    #[serde(default)]
    pub sessions: bool,
    /// True if buckets may keep old versions of objects, which a deletion leaves behind.
    #[serde(default = "yes")]
    pub versions: bool,
    /// Checksums that uploads may bear: `md5` (Content-MD5), `crc32`, `crc32c`, `crc64nvme`, `sha1`, `sha256`.
    #[serde(default)]
    pub checksums: Vec<String>,
    /// Of those, the ones that it keeps over a whole multipart object.
    #[serde(default)]
    pub full_object: Vec<String>,
    /// The one that requests bear which must have one, such as a deletion of many.
    #[serde(default = "md5")]
    pub request_checksum: String,
    /// Entity tag of an object that one request put.
    #[serde(default)]
    pub etag: Tag,
    /// Entity tag of a multipart object.
    #[serde(default)]
    pub multipart_etag: Tag,
    /// Order of listings.
    #[serde(default)]
    pub list_order: ListOrder,
    /// Prefixes of listings.
    #[serde(default)]
    pub list_prefix: ListPrefix,
    /// The header that asks for a storage class.
    #[serde(default = "storage_class_header")]
    pub storage_class_header: String,
    /// Storage classes that may be asked for; empty where that is not known.
    #[serde(default)]
    pub storage_classes: Vec<String>,
    /// What else is known to be peculiar.
    #[serde(default)]
    pub quirks: Vec<String>,
    /// Rules of multipart uploads.
    pub parts: Parts,
    /// Limits on objects.
    pub limits: Limits,
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

/// Why there is no such profile.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProfileError {
    /// No built-in has that name.
    #[error("provider '{0}' is unknown; known are {known} (`plimsoll list providers`), or name a file such as ./mine.toml", known = names().join(", "))]
    Unknown(String),
    /// The file cannot be read.
    #[error("provider file {path}: {reason}")]
    File {
        /// As written.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// The file is wrong somewhere.
    #[error("{path}:{line}: {message}; see providers/generic.toml for the form")]
    At {
        /// File.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The endpoint has a hole that nothing fills.
    #[error("{provider} needs {hole}= in the store's URL, or an endpoint= of its own")]
    Hole {
        /// Provider.
        provider: String,
        /// Name of what is missing.
        hole: String,
    },
}

/// Names of the built-in profiles.
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

/// All built-in profiles.
///
/// # Errors
/// Never, unless a built-in file is broken.
pub fn all() -> Result<Vec<Profile>, ProfileError> {
    BUILT_IN.iter().map(|(name, text)| parse(name, text)).collect()
}

/// The built-in profile of that name, or the one in that file (a path that ends in `.toml`).
///
/// # Errors
/// See [`ProfileError`].
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

/// The built-in profile that serves at this host, if any says so.
pub fn of_host(host: &str) -> Option<Profile> {
    let profiles = all().ok()?;
    // The longest pattern is the most particular one.
    let fits = |p: &Profile| p.hosts.iter().filter(|h| matches(h, host)).map(String::len).max();
    profiles.into_iter().filter_map(|p| Some((fits(&p)?, p))).max_by_key(|(len, _)| *len).map(|(_, p)| p)
}

/// Whether a provider itself serves at this host, and nothing that stands in for it. DynamoDB has no profile, but a host.
pub fn is_home(provider: &str, host: &str) -> bool {
    let dynamo = provider == "aws-dynamodb" && host.ends_with(".amazonaws.com");
    dynamo || of_host(host).is_some_and(|profile| profile.name == provider)
}

/// Whether `text` fits `pattern`, in which `*` stands for one or more characters.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (1..=rest.len()).filter(|&i| rest.is_char_boundary(i)).any(|i| matches(tail, &rest[i..]))
        }),
    }
}

/// What fills the holes of an endpoint.
#[derive(Debug, Clone, Copy, Default)]
pub struct Holes<'a> {
    /// Region.
    pub region: &'a str,
    /// Account.
    pub account: Option<&'a str>,
    /// Zone id.
    pub zone: Option<&'a str>,
}

impl Profile {
    /// The endpoint in a region; `None` where the provider can be anywhere.
    ///
    /// # Errors
    /// [`ProfileError::Hole`] when something is missing that the endpoint names.
    pub fn endpoint(&self, holes: Holes<'_>) -> Result<Option<String>, ProfileError> {
        let template = self.endpoints.get(holes.region).or(self.endpoint.as_ref());
        template.map(|t| self.fill(t, holes)).transpose()
    }

    /// Where buckets are created and deleted, when that is elsewhere.
    ///
    /// # Errors
    /// As [`Profile::endpoint`].
    pub fn control(&self, holes: Holes<'_>) -> Result<Option<String>, ProfileError> {
        self.control_endpoint.as_ref().map(|t| self.fill(t, holes)).transpose()
    }

    fn fill(&self, template: &str, holes: Holes<'_>) -> Result<String, ProfileError> {
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

    /// The region that a zone id lies in, where that is known.
    pub fn region_of(&self, zone: &str) -> Option<&str> {
        self.zones.get(zone.split("-az").next()?).map(String::as_str)
    }

    /// Whether it keeps that checksum over a whole multipart object.
    pub fn keeps_whole(&self, checksum: &str) -> bool {
        self.full_object.iter().any(|c| c == checksum)
    }

    /// Whether uploads may bear that checksum.
    pub fn takes(&self, checksum: &str) -> bool {
        self.checksums.iter().any(|c| c == checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_can_be_read_and_bears_its_name() {
        for (profile, (name, _)) in all().unwrap().iter().zip(BUILT_IN) {
            assert_eq!(profile.name, *name);
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
    fn providers_are_known_by_their_hosts() {
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
    fn endpoints_are_filled_and_say_what_is_missing() {
        let r2 = load("cloudflare-r2").unwrap();
        let holes = Holes { region: "auto", account: Some("abc"), zone: None };
        assert_eq!(r2.endpoint(holes).unwrap().unwrap(), "https://abc.r2.cloudflarestorage.com");
        let missing = r2.endpoint(Holes { account: None, ..holes }).unwrap_err().to_string();
        assert!(missing.contains("cloudflare-r2 needs account="), "{missing}");
        let wasabi = load("wasabi").unwrap();
        let at = |region| wasabi.endpoint(Holes { region, ..Holes::default() }).unwrap().unwrap();
        assert_eq!(at("us-east-1"), "https://s3.wasabisys.com");
        assert_eq!(at("eu-central-1"), "https://s3.eu-central-1.wasabisys.com");
        let unknown = load("amazon").unwrap_err().to_string();
        assert!(unknown.contains("aws-s3-express") && unknown.contains("plimsoll list providers"));
    }
}
