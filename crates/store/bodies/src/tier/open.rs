//! Opens the backend of a tier from its URL.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AwsCredential};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};
use plimsoll_base::clock::SECOND;
use plimsoll_base::units::parse_duration;
use plimsoll_s3::credentials::{Credentials, from_file};
use plimsoll_s3::endpoint::Style;
use plimsoll_s3::url::{GcsUrl, PayloadSigning, S3Url, StoreUrl, UrlError, parse};

use crate::tier::Backend;
use crate::tier::TierTable;
use crate::tier::details::DetailedBucket;
use crate::tier::http::{Connector, Signing};
use crate::tier::odd_keys::ListsOddKeys;
use plimsoll_catalog::blocking::block_on;
use plimsoll_catalog::disk::real::create_directory;
use plimsoll_server::credentials::only_for_owner;

/// Longest time of a request to a tier by default.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the longest time of a request to a tier. A request that takes longer is repeated or fails, and the read
/// continues at another place of the blob.
fn timeout(table: &TierTable) -> Result<Duration, String> {
    let text = &table.timeout;
    if text.is_empty() {
        return Ok(TIMEOUT);
    }
    match parse_duration(text) {
        Ok(ns) if ns >= SECOND => Ok(Duration::from_nanos(ns)),
        Ok(_) => Err(format!("timeout: {text} is less than a second")),
        Err(error) => Err(format!("timeout: {error}")),
    }
}

/// Returns the creator of the HTTP client of a tier.
fn connector(table: &TierTable) -> Result<Connector, String> {
    Ok(Connector { timeout: timeout(table)?, signing: None })
}

fn retries() -> RetryConfig {
    RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(15), ..RetryConfig::default() }
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| format!("set {name}"))
}

/// Returns the credentials that the settings name; `None` for those of the environment.
fn credentials(table: &TierTable) -> Result<Option<Credentials>, String> {
    if let Some(file) = &table.credentials_file {
        only_for_owner(file).map_err(|e| format!("credentials_file {}: {e}", file.display()))?;
        let profile = table.profile.as_deref().unwrap_or("default");
        return block_on(from_file(file, profile)).map(Some).map_err(|e| e.to_string());
    }
    let (Some(access), Some(secret)) = (&table.access_key_env, &table.secret_key_env) else {
        return Ok(None);
    };
    let token = table.session_token_env.as_ref().map(|name| variable(name)).transpose()?;
    let found = Credentials::new(&variable(access)?, &variable(secret)?, token.as_deref());
    found.hide();
    Ok(Some(found))
}

/// Returns the place of objects: the parts without empty ones, each with a slash.
fn root(start: &str, parts: &[&str]) -> String {
    let parts = parts.iter().flat_map(|part| part.split('/')).filter(|part| !part.is_empty());
    std::iter::once(start.trim_end_matches('/')).chain(parts).map(|part| format!("{part}/")).collect()
}

/// Puts the objects of a store under a prefix.
fn under<S: ObjectStore>(store: S, prefix: &str) -> Arc<dyn ObjectStore> {
    match prefix.trim_end_matches('/') {
        "" => Arc::new(store),
        prefix => Arc::new(PrefixStore::new(store, prefix)),
    }
}

fn s3(table: &TierTable, url: &S3Url) -> Result<Backend, String> {
    let endpoint = &url.endpoint;
    let is_virtual = endpoint.style == Style::VirtualHost;
    // With virtual-host style, the endpoint includes the bucket.
    // The client of the backends makes the sessions of a directory bucket, and signs with their keys.
    let signs = url.sign && url.zone.is_none();
    let covers_bodies = url.payload != PayloadSigning::Unsigned;
    let signing = signs.then(|| Arc::new(Signing::new(endpoint, covers_bodies)));
    let connector = Connector { signing: signing.clone(), ..connector(table)? };
    let http = connector.client();
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&endpoint.bucket)
        .with_region(&endpoint.region)
        .with_endpoint(endpoint.url())
        .with_virtual_hosted_style_request(is_virtual)
        .with_s3_express(url.zone.is_some())
        .with_unsigned_payload(!covers_bodies)
        .with_skip_signature(signs || !url.sign)
        .with_client_options(ClientOptions::new().with_allow_http(!endpoint.tls))
        .with_http_connector(connector)
        .with_retry(retries());
    if let Some(found) = credentials(table)? {
        // Keys given one by one would be used with a session token of the environment.
        let credential = AwsCredential {
            key_id: found.access_key.clone(),
            secret_key: found.secret_key().to_string(),
            token: found.session_token.clone(),
        };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(credential)));
    }
    let client = builder.build().map_err(|e| e.to_string())?;
    if let Some(signing) = &signing {
        signing.use_source(Arc::clone(client.credentials()));
    }
    // A directory bucket has neither tags nor sizes of parts, and other keys.
    let details = (url.zone.is_none()).then(|| DetailedBucket {
        http,
        endpoint: endpoint.clone(),
        prefix: url.prefix.clone(),
    });
    let store = under(ListsOddKeys::new(client), &url.prefix);
    Ok(Backend {
        root: root(&endpoint.url(), &[&endpoint.bucket, &url.prefix]),
        storage_class: url.storage_class.clone(),
        details: details.map(Arc::new),
        provider: Some(url.profile.name.clone()),
        region: Some(endpoint.region.clone()),
        ..Backend::new(store)
    })
}

fn gcs(table: &TierTable, url: &GcsUrl) -> Result<Backend, String> {
    let endpoint = &url.endpoint;
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(&endpoint.bucket)
        .with_base_url(&endpoint.url())
        .with_skip_signature(!url.sign)
        .with_client_options(ClientOptions::new().with_allow_http(!endpoint.tls))
        .with_http_connector(connector(table)?)
        .with_retry(retries());
    if !url.sign {
        // Without it, the client requests a token for writes.
        let none = GcpCredential { bearer: String::new() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(none)));
    }
    let store = under(ListsOddKeys::new(builder.build().map_err(|e| e.to_string())?), &url.prefix);
    Ok(Backend {
        root: root(&endpoint.url(), &[&endpoint.bucket, &url.prefix]),
        storage_class: url.storage_class.clone(),
        provider: Some(url.profile.name.clone()),
        ..Backend::new(store)
    })
}

/// Opens a container of Azure Blob Storage, `az://CONTAINER/PREFIX`. Azure's environment variables select the account.
fn azure(table: &TierTable, place: &str) -> Result<Backend, String> {
    let (container, prefix) = place.split_once('/').unwrap_or((place, ""));
    let builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_http_connector(connector(table)?)
        .with_retry(retries());
    let store = under(ListsOddKeys::new(builder.build().map_err(|e| e.to_string())?), prefix);
    Ok(Backend { root: root("az:", &[place]), ..Backend::new(store) })
}

fn directory(path: &Path) -> Result<Backend, String> {
    create_directory(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let store = LocalFileSystem::new_with_prefix(path).map_err(|e| e.to_string())?;
    let store = Arc::new(store.with_fsync(true).with_automatic_cleanup(false));
    let path = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
    let root = root("file:", &[&path.to_string_lossy()]);
    Ok(Backend { directory: Some(path), root, ..Backend::new(store) })
}

/// Opens the backend of a tier. Nothing is sent.
///
/// # Errors
/// A message for the user if the URL is invalid or credentials are missing. It contains no secret.
pub fn open(table: &TierTable) -> Result<Backend, String> {
    let timeout = timeout(table)?;
    if let Some(place) = table.url.strip_prefix("az://") {
        return Ok(Backend { timeout, ..azure(table, place)? });
    }
    const SCHEMES: &str =
        "use s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIRECTORY";
    let parsed = parse(&table.url, &|name| std::env::var(name).ok()).map_err(|error| match error {
        UrlError::Scheme(url) => format!("'{url}' is not a tier; {SCHEMES}"),
        other => other.to_string(),
    });
    match parsed? {
        StoreUrl::S3(url) => Ok(Backend { timeout, ..s3(table, &url)? }),
        StoreUrl::Gcs(url) => Ok(Backend { timeout, ..gcs(table, &url)? }),
        StoreUrl::File(path, _) => directory(&path),
        _ => Err(format!("this store is not a tier; {SCHEMES}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(url: &str) -> TierTable {
        TierTable { url: url.into(), ..TierTable::default() }
    }

    #[test]
    fn an_unusable_url_is_refused() {
        for (url, problem) in [
            ("memory:", "use s3://"),
            ("dynamodb://table", "use s3://"),
            ("hot", "'hot' is not a tier"),
            ("s3://user:secret@bucket", "credentials"),
        ] {
            let error = open(&table(url)).unwrap_err();
            assert!(error.contains(problem) && !error.contains("secret@"), "{url}: {error}");
        }
        let named = TierTable {
            access_key_env: Some("PLIMSOLL_TEST_UNSET".into()),
            secret_key_env: Some("PLIMSOLL_TEST_UNSET".into()),
            ..table("s3://bucket?endpoint=http://127.0.0.1:9")
        };
        assert_eq!(open(&named).unwrap_err(), "set PLIMSOLL_TEST_UNSET");
    }
}
