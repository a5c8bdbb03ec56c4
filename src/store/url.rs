//! Stores as arguments: `s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=us-east-1`, `memory:`, `embedded:`.

use crate::s3::encode::decode;
use crate::s3::endpoint::{Endpoint, EndpointError, Style};
use crate::store::file::Steps;

/// Whether a put's body is covered by the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadSigning {
    /// SHA-256 over the body, before the operation starts.
    Signed,
    /// `UNSIGNED-PAYLOAD`; TLS protects the body.
    Unsigned,
}

/// A store as written, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// An S3-compatible bucket.
    S3(Box<S3Url>),
    /// A directory.
    File(std::path::PathBuf, Steps),
    /// In this process's memory; for tests of the instrument, not for measurements.
    Memory,
    /// `plimsoll serve`, started as a process of its own for the length of the run.
    Embedded,
}

/// An S3-compatible bucket as written, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Url {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Prefix for keys: empty or ending in `/`.
    pub prefix: String,
    /// Name of the provider for the record.
    pub provider: String,
    /// Whether bodies are signed.
    pub payload: PayloadSigning,
    /// Whether requests are signed at all.
    pub sign: bool,
}

/// Why a store could not be read from its URL.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// Not a kind of store.
    #[error(
        "'{0}' is not a store; write s3://bucket/prefix?endpoint=http://host:port, file:///directory, memory:, embedded: or the name of a [store.NAME] table in plimsoll.toml"
    )]
    Scheme(String),
    /// A parameter that no store has.
    #[error("store parameter '{0}' is unknown; known are endpoint, region, provider, style, payload, sign")]
    Parameter(String),
    /// A value that the parameter does not take.
    #[error("store parameter {name}={value} must be one of {allowed}")]
    Value {
        /// Parameter.
        name: &'static str,
        /// Value as written.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// The endpoint or bucket is wrong.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// Credentials where none belong.
    #[error("a store URL must not hold credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")]
    Secret,
    /// Not a directory of its own.
    #[error("file://{0} must name a directory by its whole path, such as file:///mnt/efs/bench")]
    Directory(String),
    /// A parameter that directories do not have.
    #[error("store parameter '{0}' is unknown; a directory has fsync, rename and dirsync, each on or off")]
    FileParameter(String),
    /// The prefix cannot be a key.
    #[error("the prefix '{0}' must be UTF-8 of at most 512 bytes, without broken %-escapes")]
    Prefix(String),
}

/// The environment variable, when set and not empty.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

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
    if let Some(rest) = text.strip_prefix("file://") {
        return parse_file(rest);
    }
    let rest = text
        .strip_prefix("s3://")
        .ok_or_else(|| UrlError::Scheme(text.split('?').next().unwrap_or("").to_string()))?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.contains('@') {
        return Err(UrlError::Secret);
    }
    let parameters = Parameters::parse(query)?;
    let mut prefix = decode(prefix, false).ok_or_else(|| UrlError::Prefix(prefix.to_string()))?;
    if prefix.len() > 512 {
        return Err(UrlError::Prefix(prefix));
    }
    if !prefix.is_empty() && !prefix.ends_with('/') {
        prefix.push('/');
    }
    let variable = |name: &str| environment(name).filter(|v| !v.is_empty());
    let region = parameters
        .region
        .or_else(|| variable("AWS_REGION"))
        .or_else(|| variable("AWS_DEFAULT_REGION"))
        .unwrap_or_else(|| "us-east-1".into());
    let custom = parameters
        .endpoint
        .or_else(|| variable("AWS_ENDPOINT_URL_S3"))
        .or_else(|| variable("AWS_ENDPOINT_URL"));
    let endpoint = match &custom {
        Some(url) => Endpoint::new(url, bucket, parameters.style.unwrap_or(Style::Path), &region)?,
        None => match parameters.style {
            Some(style) => {
                Endpoint::new(&format!("https://s3.{region}.amazonaws.com"), bucket, style, &region)?
            }
            None => Endpoint::aws(bucket, &region)?,
        },
    };
    let default_payload = if endpoint.tls { PayloadSigning::Unsigned } else { PayloadSigning::Signed };
    let default_provider = if custom.is_some() { "generic" } else { "aws-s3" };
    Ok(StoreUrl::S3(Box::new(S3Url {
        endpoint,
        prefix,
        provider: parameters.provider.unwrap_or_else(|| default_provider.into()),
        payload: parameters.payload.unwrap_or(default_payload),
        sign: parameters.sign.unwrap_or(true),
    })))
}

/// `file:///directory?fsync=on&rename=on&dirsync=off`.
fn parse_file(rest: &str) -> Result<StoreUrl, UrlError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') || path.len() < 2 {
        return Err(UrlError::Directory(path.into()));
    }
    let mut steps = Steps::default();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, step) = match name {
            "fsync" => ("fsync", &mut steps.fsync),
            "rename" => ("rename", &mut steps.rename),
            "dirsync" => ("dirsync", &mut steps.dirsync),
            other => return Err(UrlError::FileParameter(other.into())),
        };
        *step = match value {
            "on" => true,
            "off" => false,
            _ => return Err(UrlError::Value { name, value: value.into(), allowed: "on, off" }),
        };
    }
    let path = decode(path, false).unwrap_or_else(|| path.to_string());
    Ok(StoreUrl::File(path.into(), steps))
}

#[derive(Default)]
struct Parameters {
    endpoint: Option<String>,
    region: Option<String>,
    provider: Option<String>,
    style: Option<Style>,
    payload: Option<PayloadSigning>,
    sign: Option<bool>,
}

impl Parameters {
    fn parse(query: &str) -> Result<Parameters, UrlError> {
        let mut out = Parameters::default();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value, false).unwrap_or_else(|| value.to_string());
            let wrong = |name, allowed| UrlError::Value { name, value: value.clone(), allowed };
            match name {
                "endpoint" => out.endpoint = Some(value),
                "region" => out.region = Some(value),
                "provider" => out.provider = Some(value),
                "style" => {
                    out.style = Some(match value.as_str() {
                        "path" => Style::Path,
                        "virtual" => Style::VirtualHost,
                        _ => return Err(wrong("style", "path, virtual")),
                    });
                }
                "payload" => {
                    out.payload = Some(match value.as_str() {
                        "signed" => PayloadSigning::Signed,
                        "unsigned" => PayloadSigning::Unsigned,
                        _ => return Err(wrong("payload", "signed, unsigned")),
                    });
                }
                "sign" => {
                    out.sign = Some(match value.as_str() {
                        "on" => true,
                        "off" => false,
                        _ => return Err(wrong("sign", "on, off")),
                    });
                }
                "access_key" | "secret_key" | "access-key" | "secret-key" => return Err(UrlError::Secret),
                other => return Err(UrlError::Parameter(other.to_string())),
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(text: &str) -> S3Url {
        match parse(text, &|_| None) {
            Ok(StoreUrl::S3(url)) => *url,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_forms_of_the_manual() {
        let url = s3("s3://bucket/some/prefix?endpoint=http://127.0.0.1:9000&region=eu-1&provider=minio");
        assert_eq!((url.prefix.as_str(), url.provider.as_str()), ("some/prefix/", "minio"));
        assert_eq!((url.endpoint.port, url.payload), (9000, PayloadSigning::Signed));
        let aws = s3("s3://bucket");
        assert_eq!(aws.endpoint.authority, "bucket.s3.us-east-1.amazonaws.com");
        assert_eq!(
            (aws.payload, aws.provider.as_str(), aws.prefix.as_str()),
            (PayloadSigning::Unsigned, "aws-s3", "")
        );
        assert_eq!(parse("memory:", &|_| None), Ok(StoreUrl::Memory));
    }

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
    fn the_environment_fills_what_is_left_out() {
        let environment = |name: &str| match name {
            "AWS_REGION" => Some("eu-west-1".to_string()),
            "AWS_ENDPOINT_URL_S3" => Some("https://s3.example.org".to_string()),
            _ => None,
        };
        let Ok(StoreUrl::S3(url)) = parse("s3://bucket", &environment) else { panic!() };
        assert_eq!(
            (url.endpoint.authority.as_str(), url.endpoint.region.as_str()),
            ("s3.example.org", "eu-west-1")
        );
    }

    #[test]
    fn errors_name_the_parameter_and_the_fix() {
        let message = |text: &str| parse(text, &|_| None).unwrap_err().to_string();
        assert!(message("gs://bucket").contains("s3://bucket/prefix"));
        assert!(message("s3://bucket?endpont=x").contains("'endpont' is unknown; known are endpoint"));
        assert!(message("s3://bucket?style=host").contains("path, virtual"));
        assert!(message("s3://key:secret@bucket").contains("AWS_ACCESS_KEY_ID"));
        assert!(!message("s3://key:secret@bucket").contains("secret@"));
        assert!(!message("s3://bucket?secret_key=hush").contains("hush"));
        assert!(message("s3://bucket?endpoint=localhost:9000").contains("http://"));
    }
}
