//! Parsing of `gs://bucket/prefix?upload=resumable&chunk=8MiB`: Google Cloud Storage through its JSON API.

use std::sync::Arc;

use super::{Lookup, Query, UrlError, prefix_of};
use crate::endpoint::{Endpoint, Style};
use plimsoll_base::provider::{self, Profile};
use plimsoll_base::units::parse_size;

/// The upload method of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadMethod {
    /// One request for objects up to 8 MiB, a resumable upload for larger ones.
    Auto,
    /// One request for objects of any size.
    Media,
    /// A resumable upload for objects of any size.
    Resumable,
}

/// A parsed URL of a Google Cloud Storage bucket with all defaults resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct GcsUrl {
    /// Endpoint of the JSON API.
    pub endpoint: Endpoint,
    /// Prefix of keys; empty or ending in `/`.
    pub prefix: String,
    /// Profile of the provider.
    pub profile: Arc<Profile>,
    /// Upload method of a put.
    pub upload: UploadMethod,
    /// Size of a chunk of a resumable upload in bytes; 0 sends all remaining bytes in one request.
    pub chunk: u64,
    /// Storage class of uploaded objects; `None` for the bucket's default.
    pub storage_class: Option<String>,
    /// True if requests carry an access token.
    pub sign: bool,
    /// Project of a new bucket; `None` if no project is known.
    pub project: Option<String>,
}

/// Unit of the chunk size in bytes: every chunk except the last must be a multiple of it (Google Cloud Storage
/// documentation, resumable uploads).
pub const CHUNK_UNIT: u64 = 256 * 1024;

const PARAMETERS: &str = "endpoint, upload, chunk, storage_class, sign, project";

/// Parses the part of a URL after `gs://`.
///
/// # Errors
/// Returns a [`UrlError`] that names the invalid part.
pub fn parse(rest: &str, environment: Lookup<'_>) -> Result<GcsUrl, UrlError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.contains('@') {
        return Err(UrlError::Secret);
    }
    let mut query = Query::parse(query);
    let profile = provider::load("google-cloud-storage")?;
    let variable = |name: &str| environment(name).filter(|v| !v.is_empty());
    let emulator = variable("STORAGE_EMULATOR_HOST")
        .map(|host| if host.contains("://") { host } else { format!("http://{host}") });
    let written = query.take("endpoint");
    let emulated = written.is_none() && emulator.is_some();
    let url = written.or(emulator).or_else(|| profile.endpoint.clone()).unwrap_or_default();
    let ways = [
        ("auto", UploadMethod::Auto),
        ("media", UploadMethod::Media),
        ("resumable", UploadMethod::Resumable),
    ];
    let upload = query.choice("upload", &ways)?.unwrap_or(UploadMethod::Auto);
    let chunk = match query.take("chunk") {
        None => 0,
        Some(value) => {
            let bytes = parse_size(&value).unwrap_or(1);
            if !bytes.is_multiple_of(CHUNK_UNIT) {
                let allowed = "multiples of 256 KiB, such as 8MiB".into();
                return Err(UrlError::Value { name: "chunk", value, allowed });
            }
            bytes
        }
    };
    let class = query.take("storage_class");
    if let Some(class) = class.as_ref().filter(|class| !profile.storage_classes.contains(class)) {
        return Err(UrlError::StorageClass {
            class: class.clone(),
            provider: profile.name.clone(),
            known: profile.storage_classes.join(", "),
        });
    }
    let url = GcsUrl {
        endpoint: Endpoint::new(&url, bucket, Style::Path, "auto")?,
        prefix: prefix_of(prefix)?,
        upload,
        chunk,
        storage_class: class,
        sign: query.choice("sign", &[("on", true), ("off", false)])?.unwrap_or(!emulated),
        project: query
            .take("project")
            .or_else(|| variable("GOOGLE_CLOUD_PROJECT"))
            .or_else(|| variable("CLOUDSDK_CORE_PROJECT")),
        profile: Arc::new(profile),
    };
    query.finish(PARAMETERS)?;
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::super::{StoreUrl, parse};
    use super::*;

    #[test]
    fn parameters_and_the_emulator_variable_are_parsed() {
        let read = |text: &str| parse(text, &|_| None);
        let Ok(StoreUrl::Gcs(url)) = read("gs://bucket/p?chunk=8MiB&upload=resumable") else { panic!() };
        assert_eq!((url.endpoint.url().as_str(), url.chunk), ("https://storage.googleapis.com", 8 << 20));
        assert!(url.sign && url.prefix == "p/" && url.upload == UploadMethod::Resumable);
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("gs://bucket?chunk=1MB").contains("multiples of 256 KiB"));
        assert!(message("gs://bucket?upload=fast").contains("auto, media, resumable"));
        assert!(message("gs://bucket?region=x").contains("use one of endpoint"));
        assert!(message("gs://bucket?storage_class=GLACIER").contains("NEARLINE"));
        let emulated = |name: &str| (name == "STORAGE_EMULATOR_HOST").then(|| "127.0.0.1:4443".to_string());
        let Ok(StoreUrl::Gcs(url)) = parse("gs://bucket", &emulated) else { panic!() };
        assert!(!url.sign && url.endpoint.url() == "http://127.0.0.1:4443");
    }
}
