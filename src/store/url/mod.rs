//! Stores as arguments: `s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1`, `memory:`, `embedded:`.

pub mod dynamodb;
pub mod gcs;
pub mod s3;
pub mod web;

use crate::net::encode::decode;
use crate::provider::ProfileError;
use crate::s3::endpoint::EndpointError;
use crate::store::file::Steps;

pub use dynamodb::DynamoDbUrl;
pub use gcs::GcsUrl;
pub use s3::{PayloadSigning, S3Url};
pub use web::WebUrl;

/// A store as written, resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreUrl {
    /// An S3-compatible bucket.
    S3(Box<S3Url>),
    /// A bucket of Google Cloud Storage, by its own API.
    Gcs(Box<GcsUrl>),
    /// What a URL names, to be read only.
    Web(Box<WebUrl>),
    /// A table of Amazon DynamoDB.
    DynamoDb(Box<DynamoDbUrl>),
    /// A directory.
    File(std::path::PathBuf, Steps),
    /// In this process's memory; for tests of the instrument, not for measurements.
    Memory,
    /// `plimsoll serve`, started as a process of its own for the length of the run.
    Embedded,
}

/// Stands for a storage class where reads may bring what was there before, and cost half.
const EVENTUAL: &str = "eventually-consistent";

impl StoreUrl {
    /// The region that it is in, as far as the URL says, and the storage class by which it is billed.
    pub fn place(&self) -> (Option<&str>, Option<&str>) {
        match self {
            StoreUrl::S3(s3) => (Some(s3.endpoint.region.as_str()), s3.storage_class.as_deref()),
            StoreUrl::Gcs(gcs) => (None, gcs.storage_class.as_deref()),
            StoreUrl::DynamoDb(table) => {
                (Some(table.endpoint.region.as_str()), (!table.consistent).then_some(EVENTUAL))
            }
            _ => (None, None),
        }
    }
}

/// Why a store could not be read from its URL.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// Not a kind of store.
    #[error(
        "'{0}' is not a store; write s3://bucket/prefix?endpoint=http://host:port, gs://bucket/prefix, dynamodb://table, https://host/path, file:///directory, memory:, embedded: or the name of a [store.NAME] table in plimsoll.toml"
    )]
    Scheme(String),
    /// A parameter that the store does not have.
    #[error("store parameter '{name}' is unknown; known are {known}")]
    Parameter {
        /// As written.
        name: String,
        /// What there is.
        known: &'static str,
    },
    /// A value that the parameter does not take.
    #[error("store parameter {name}={value} must be one of {allowed}")]
    Value {
        /// Parameter.
        name: &'static str,
        /// Value as written.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// The endpoint or bucket is wrong.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The provider is wrong.
    #[error(transparent)]
    Provider(#[from] ProfileError),
    /// The provider has no endpoint of its own.
    #[error("{0} can be anywhere; say where with endpoint=http://host:port")]
    Anywhere(String),
    /// Not a directory bucket.
    #[error("'{bucket}' is not the name of a directory bucket: {fault}")]
    Express {
        /// As written.
        bucket: String,
        /// What is wrong.
        fault: &'static str,
    },
    /// Region and zone do not fit.
    #[error(
        "region={written}: zone {zone} lies in {region}; leave region= out, or name a bucket of {written}"
    )]
    Zone {
        /// Zone id.
        zone: String,
        /// Its region.
        region: String,
        /// Region as written.
        written: String,
    },
    /// The provider does not take that checksum.
    #[error("checksum={name} is not taken by {provider}; choose none, {known}")]
    Checksum {
        /// As written.
        name: String,
        /// Provider.
        provider: String,
        /// What it takes.
        known: String,
    },
    /// The provider does not have that storage class.
    #[error("storage_class={class}: {provider} has {known}")]
    StorageClass {
        /// As written.
        class: String,
        /// Provider.
        provider: String,
        /// What it has.
        known: String,
    },
    /// Credentials where none belong.
    #[error("a store URL must not hold credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")]
    Secret,
    /// Not a web URL.
    #[error("'{0}' is not a URL; write https://host/directory/ or https://host/object")]
    Web(String),
    /// Not a table.
    #[error(
        "'{0}' is not a table name: 3 to 255 of a-z, A-Z, 0-9, '_', '-' and '.', such as dynamodb://bench"
    )]
    Table(String),
    /// Not a directory of its own.
    #[error("file://{0} must name a directory by its whole path, such as file:///mnt/efs/bench")]
    Directory(String),
    /// The prefix cannot be a key.
    #[error("the prefix '{0}' must be UTF-8 of at most 512 bytes, without broken %-escapes")]
    Prefix(String),
}

/// The environment variable, when set and not empty.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a store from its URL, with the endpoint and region variables of the AWS tools taken from `environment`.
///
/// # Errors
/// See [`UrlError`].
pub fn parse(text: &str, environment: Lookup<'_>) -> Result<StoreUrl, UrlError> {
    match text {
        "memory:" => return Ok(StoreUrl::Memory),
        "embedded:" => return Ok(StoreUrl::Embedded),
        _ => {}
    }
    match text.split_once("://") {
        Some(("file", rest)) => parse_file(rest),
        Some(("dynamodb", rest)) => Ok(StoreUrl::DynamoDb(Box::new(dynamodb::parse(rest, environment)?))),
        Some(("https" | "http", _)) => Ok(StoreUrl::Web(Box::new(web::parse(text)?))),
        Some(("gs", rest)) => Ok(StoreUrl::Gcs(Box::new(gcs::parse(rest, environment)?))),
        Some(("s3", rest)) => Ok(StoreUrl::S3(Box::new(s3::parse(rest, environment)?))),
        _ => Err(UrlError::Scheme(text.split('?').next().unwrap_or("").to_string())),
    }
}

/// Reads a prefix for keys: empty, or ending in `/`.
fn prefix_of(written: &str) -> Result<String, UrlError> {
    let mut prefix = decode(written, false).ok_or_else(|| UrlError::Prefix(written.to_string()))?;
    if prefix.len() > 512 {
        return Err(UrlError::Prefix(prefix));
    }
    if !prefix.is_empty() && !prefix.ends_with('/') {
        prefix.push('/');
    }
    Ok(prefix)
}

/// Parameters of a store URL, taken one by one.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(query: &str) -> Query {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_string(), decode(value, false).unwrap_or_else(|| value.to_string()))
        };
        Query(query.split('&').filter(|p| !p.is_empty()).map(pair).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }

    /// The last value of a parameter; all of them are taken.
    fn take(&mut self, name: &str) -> Option<String> {
        let mut found = None;
        self.0.retain(|(n, value)| {
            let ours = n == name;
            if ours {
                found = Some(value.clone());
            }
            !ours
        });
        found
    }

    /// One of several values by name.
    fn choice<T: Copy>(&mut self, name: &'static str, choices: &[(&str, T)]) -> Result<Option<T>, UrlError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let found = choices.iter().find(|(n, _)| *n == value).map(|(_, choice)| Some(*choice));
        found.ok_or_else(|| UrlError::Value {
            name,
            value,
            allowed: choices.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", "),
        })
    }

    /// Refuses what nobody took.
    fn finish(self, known: &'static str) -> Result<(), UrlError> {
        match self.0.into_iter().next() {
            Some((name, _)) => Err(UrlError::Parameter { name, known }),
            None => Ok(()),
        }
    }
}

/// `file:///directory?fsync=on&rename=on&dirsync=off`.
fn parse_file(rest: &str) -> Result<StoreUrl, UrlError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') || path.len() < 2 {
        return Err(UrlError::Directory(path.into()));
    }
    let (mut steps, mut query) = (Steps::default(), Query::parse(query));
    for (name, step) in
        [("fsync", &mut steps.fsync), ("rename", &mut steps.rename), ("dirsync", &mut steps.dirsync)]
    {
        *step = query.choice(name, &[("on", true), ("off", false)])?.unwrap_or(*step);
    }
    query.finish("fsync, rename and dirsync, each on or off")?;
    let path = decode(path, false).unwrap_or_else(|| path.to_string());
    Ok(StoreUrl::File(path.into(), steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_have_their_steps() {
        let steps = Steps { fsync: false, rename: true, dirsync: true };
        let url = parse("file:///mnt/efs?fsync=off&dirsync=on", &|_| None);
        assert_eq!(url, Ok(StoreUrl::File("/mnt/efs".into(), steps)));
        let message = |text: &str| parse(text, &|_| None).unwrap_err().to_string();
        assert!(message("file://mnt/efs").contains("file:///mnt/efs"));
        assert!(message("file:///").contains("whole path"));
        assert!(message("file:///a?sync=on").contains("fsync, rename and dirsync"));
        assert!(message("file:///a?fsync=yes").contains("on, off"));
    }

    #[test]
    fn what_is_no_store_is_told_what_is_one() {
        assert_eq!(parse("memory:", &|_| None), Ok(StoreUrl::Memory));
        let message = |text: &str| parse(text, &|_| None).unwrap_err().to_string();
        assert!(message("ftp://bucket").contains("s3://bucket/prefix"));
        assert!(message("bucket").contains("[store.NAME]"));
    }
}
