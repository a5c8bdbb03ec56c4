//! Store URLs, such as `s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1`, `memory:` and
//! `embedded:`.

pub mod azure;
pub mod dynamodb;
pub mod file;
pub mod gcs;
pub mod s3;
pub mod web;

use crate::endpoint::EndpointError;
use plimsoll_base::net::encode::decode;
use plimsoll_base::provider::ProfileError;

pub use azure::AzureUrl;
pub use dynamodb::DynamoDbUrl;
pub use file::Steps;
pub use gcs::GcsUrl;
pub use s3::{PayloadSigning, S3Url};
pub use web::WebUrl;

/// A parsed store URL with all defaults resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreUrl {
    /// An S3-compatible bucket.
    S3(Box<S3Url>),
    /// A bucket of Google Cloud Storage, accessed through the JSON API.
    Gcs(Box<GcsUrl>),
    /// A container of Azure Blob Storage.
    Azure(Box<AzureUrl>),
    /// A web URL, for reading only.
    Web(Box<WebUrl>),
    /// An Amazon DynamoDB table.
    DynamoDb(Box<DynamoDbUrl>),
    /// A directory, and how puts write files in it.
    File(std::path::PathBuf, Steps),
    /// The memory of this process; for tests of Plimsoll, not for measurements.
    Memory,
    /// A `plimsoll serve` process that runs for the duration of the run.
    Embedded,
}

/// Storage class that stands for eventually consistent reads, which may return old data and cost half.
const EVENTUAL: &str = "eventually-consistent";

impl StoreUrl {
    /// Returns the region and the storage class for billing; each is `None` if the URL does not determine it.
    pub fn place(&self) -> (Option<&str>, Option<&str>) {
        match self {
            StoreUrl::S3(s3) => (Some(s3.endpoint.region.as_str()), s3.storage_class.as_deref()),
            StoreUrl::Gcs(gcs) => (None, gcs.storage_class.as_deref()),
            StoreUrl::Azure(azure) => (None, azure.storage_class.as_deref()),
            StoreUrl::DynamoDb(table) => {
                (Some(table.endpoint.region.as_str()), (!table.consistent).then_some(EVENTUAL))
            }
            _ => (None, None),
        }
    }
}

/// The reason why a store URL is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// The URL does not have the scheme of a store.
    #[error(
        "'{0}' is not a store; use s3://bucket/prefix?endpoint=http://host:port, gs://bucket/prefix, az://container/prefix, \
         dynamodb://table, https://host/path, file:///directory, memory:, embedded: or the name of a [store.NAME] table in plimsoll.toml"
    )]
    Scheme(String),
    /// The store has no parameters.
    #[error("'{0}' takes no parameters; remove '{1}'")]
    NoParameters(&'static str, String),
    /// The store does not have the parameter.
    #[error("unknown store parameter '{name}'; use one of {known}")]
    Parameter {
        /// Name of the parameter as written.
        name: String,
        /// Names of the parameters that the store has.
        known: &'static str,
    },
    /// The parameter is given more than once.
    #[error(
        "store parameter '{0}' is given twice; use it once (several endpoints need commas: endpoint=URL,URL)"
    )]
    Repeated(String),
    /// The value is not allowed for the parameter.
    #[error("invalid store parameter {name}={value}; allowed values: {allowed}")]
    Value {
        /// Name of the parameter.
        name: &'static str,
        /// Value as written.
        value: String,
        /// Description of the allowed values.
        allowed: String,
    },
    /// The endpoint or the bucket name is invalid.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The provider profile is unknown or invalid.
    #[error(transparent)]
    Provider(#[from] ProfileError),
    /// The provider has no default endpoint.
    #[error("{0} has no default endpoint; add endpoint=http://host:port")]
    Anywhere(String),
    /// The bucket is not a directory bucket.
    #[error("'{bucket}' is not the name of a directory bucket: {fault}")]
    Express {
        /// Bucket name as written.
        bucket: String,
        /// Description of the fault.
        fault: &'static str,
    },
    /// The zone is not in the given region.
    #[error("region={written}: zone {zone} is in {region}; omit region=, or use a bucket in {written}")]
    Zone {
        /// ID of the zone.
        zone: String,
        /// Region of the zone.
        region: String,
        /// Region as written.
        written: String,
    },
    /// The provider does not support the checksum.
    #[error("checksum={name}: {provider} does not support it; use one of none, {known}")]
    Checksum {
        /// Name of the checksum as written.
        name: String,
        /// Name of the provider.
        provider: String,
        /// Names of the checksums that the provider supports.
        known: String,
    },
    /// The provider does not have the storage class.
    #[error("storage_class={class}: {provider} does not offer it; use one of {known}")]
    StorageClass {
        /// Storage class as written.
        class: String,
        /// Name of the provider.
        provider: String,
        /// Storage classes that the provider has.
        known: String,
    },
    /// The URL contains credentials.
    #[error(
        "a store URL must not contain credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
    )]
    Secret,
    /// The URL contains credentials of Azure.
    #[error(
        "a store URL must not contain credentials; set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN instead"
    )]
    AzureSecret,
    /// No storage account is known.
    #[error("no storage account is known; add account=NAME to the store URL, or set AZURE_STORAGE_ACCOUNT")]
    NoAccount,
    /// The account has an invalid name.
    #[error("'{0}' is not the name of a storage account; use 3 to 24 of a-z and 0-9")]
    Account(String),
    /// The text is not a valid web URL.
    #[error("'{0}' is not a valid URL; use https://host/directory/ or https://host/object")]
    Web(String),
    /// The name is not a valid table name.
    #[error(
        "'{0}' is not a valid table name; use 3 to 255 of a-z, A-Z, 0-9, '_', '-' and '.', such as dynamodb://bench"
    )]
    Table(String),
    /// The path is not absolute, or it is the root directory.
    #[error("file://{0} is not the absolute path of a directory, such as file:///mnt/efs/bench")]
    Directory(String),
    /// The prefix cannot begin a key.
    #[error("invalid prefix '{0}'; use at most 512 bytes of UTF-8 with valid %-escapes")]
    Prefix(String),
}

/// A function that returns the value of an environment variable; `None` if it is not set.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Parses a store URL. Takes defaults such as endpoint and region from the variables in `environment` that the
/// providers' own tools use.
///
/// # Errors
/// Returns a [`UrlError`] that names the invalid part.
pub fn parse(text: &str, environment: Lookup<'_>) -> Result<StoreUrl, UrlError> {
    for (name, url) in [("memory:", StoreUrl::Memory), ("embedded:", StoreUrl::Embedded)] {
        match text.strip_prefix(name) {
            Some("") => return Ok(url),
            Some(rest) if rest.starts_with('?') => {
                return Err(UrlError::NoParameters(name, rest.to_string()));
            }
            _ => {}
        }
    }
    match text.split_once("://") {
        Some(("file", rest)) => file::parse(rest),
        Some(("dynamodb", rest)) => Ok(StoreUrl::DynamoDb(Box::new(dynamodb::parse(rest, environment)?))),
        Some(("https" | "http", _)) => Ok(StoreUrl::Web(Box::new(web::parse(text)?))),
        Some(("az", rest)) => Ok(StoreUrl::Azure(Box::new(azure::parse(rest, environment)?))),
        Some(("gs", rest)) => Ok(StoreUrl::Gcs(Box::new(gcs::parse(rest, environment)?))),
        Some(("s3", rest)) => Ok(StoreUrl::S3(Box::new(s3::parse(rest, environment)?))),
        _ => Err(UrlError::Scheme(text.split('?').next().unwrap_or("").to_string())),
    }
}

/// Parses a key prefix, and appends a `/` unless it is empty or ends in one.
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

/// The query parameters of a store URL that have not been taken yet, and the name of one that is given more than once.
struct Query(Vec<(String, String)>, Option<String>);

impl Query {
    fn parse(query: &str) -> Query {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_string(), decode(value, false).unwrap_or_else(|| value.to_string()))
        };
        let all: Vec<(String, String)> = query.split('&').filter(|p| !p.is_empty()).map(pair).collect();
        let repeated = (1..all.len()).find(|i| all[..*i].iter().any(|(name, _)| *name == all[*i].0));
        let repeated = repeated.map(|i| all[i].0.clone());
        Query(all, repeated)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }

    /// Takes a parameter.
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes a parameter and returns the value that its name selects from `choices`.
    fn choice<T: Copy>(&mut self, name: &'static str, choices: &[(&str, T)]) -> Result<Option<T>, UrlError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let found = choices.iter().find(|(n, _)| *n == value).map(|(_, choice)| Some(*choice));
        found.ok_or_else(|| UrlError::Value {
            name,
            value,
            allowed: choices.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns an error if any parameter was not taken, or is given more than once.
    fn finish(self, known: &'static str) -> Result<(), UrlError> {
        if let Some(name) = self.1 {
            return Err(UrlError::Repeated(name));
        }
        match self.0.into_iter().next() {
            Some((name, _)) => Err(UrlError::Parameter { name, known }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_schemes_list_the_known_ones() {
        assert_eq!(parse("memory:", &|_| None), Ok(StoreUrl::Memory));
        let refused = parse("embedded:?latency=1", &|_| None).unwrap_err().to_string();
        assert_eq!(refused, "'embedded:' takes no parameters; remove '?latency=1'");
        let message = |text: &str| parse(text, &|_| None).unwrap_err().to_string();
        assert!(message("ftp://bucket").contains("s3://bucket/prefix"));
        assert!(message("bucket").contains("[store.NAME]"));
    }
}
