//! Signed requests that the store interface does not have: tags, copies and versions.

use std::time::Duration;

use bytes::Bytes;

use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::encode_into;
use plimsoll_base::net::fetch::fetch_within;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::Signer;
use plimsoll_s3::url::s3::S3Url;

/// Time within which the server accepts a connection. A busy one drops the first request for it.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(10);
/// Lifetime of a request, in seconds.
const LIFETIME_S: u32 = 300;

/// Runs a blocking request while other requests continue.
///
/// # Errors
/// The error of the request.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err("the request thread panicked".into()))
}

/// A client that sends one request per connection.
#[derive(Clone)]
pub struct SignedClient {
    url: S3Url,
    credentials: Credentials,
}

impl SignedClient {
    /// Returns a client of the bucket at `url`.
    pub fn new(url: S3Url, credentials: Credentials) -> SignedClient {
        SignedClient { url, credentials }
    }

    /// Returns a client of another bucket of the same store.
    pub fn of_bucket(&self, bucket: &str) -> SignedClient {
        let mut other = self.clone();
        other.url.endpoint.bucket = bucket.into();
        other
    }

    /// Sends a request for a key, or for the bucket if the key is empty, and returns the answer.
    ///
    /// # Errors
    /// A message if there was no answer.
    fn send(
        &self,
        method: &str,
        key: &str,
        pairs: &[(String, String)],
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<http::Response<Bytes>, String> {
        let mut path = String::new();
        self.url.endpoint.path_into(&mut path, key);
        let mut signer = Signer::new(&self.url.endpoint.region, "s3");
        let (host, now) = (&self.url.endpoint.authority, wall_now().as_second());
        let query =
            signer.presign_at(&self.credentials, now, method, host, &path, (pairs, headers), LIFETIME_S);
        let url = format!("{}{path}?{query}", self.url.endpoint.url());
        let mut request = http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        fetch_within(ACCEPTED_WITHIN, request.body(body).map_err(|e| e.to_string())?)
    }

    /// Creates the bucket. Returns true if the store acknowledged it.
    ///
    /// # Errors
    /// A message if there was no answer.
    pub fn create_bucket(&self) -> Result<bool, String> {
        Ok(self.send("PUT", "", &[], &[], Bytes::new())?.status().is_success())
    }

    /// Lets the bucket keep versions. Returns true if the store acknowledged it.
    ///
    /// # Errors
    /// A message if there was no answer.
    pub fn enable_versions(&self) -> Result<bool, String> {
        let body = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status>\
                    </VersioningConfiguration>";
        let pairs = [("versioning".into(), String::new())];
        Ok(self.send("PUT", "", &pairs, &[], body.into())?.status().is_success())
    }

    /// Writes an object.
    ///
    /// # Errors
    /// A message if there was no answer.
    pub fn put(&self, key: &str, content: Bytes) -> Result<http::Response<Bytes>, String> {
        self.send("PUT", key, &[], &[], content)
    }

    /// Reads an object, or the version with this id.
    ///
    /// # Errors
    /// A message if there was no answer.
    pub fn get(&self, key: &str, version: Option<&str>) -> Result<http::Response<Bytes>, String> {
        self.send("GET", key, &version_pairs(version), &[], Bytes::new())
    }

    /// Deletes an object, or the version with this id.
    ///
    /// # Errors
    /// A message if there was no answer.
    pub fn delete(&self, key: &str, version: Option<&str>) -> Result<http::Response<Bytes>, String> {
        self.send("DELETE", key, &version_pairs(version), &[], Bytes::new())
    }

    /// Sets the only tag of an object. Returns true if the store acknowledged it.
    ///
    /// # Errors
    /// A message if there was no answer.
    pub fn set_tag(&self, key: &str, value: u64) -> Result<bool, String> {
        let body = format!(
            "<Tagging xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TagSet><Tag><Key>operation</Key>\
             <Value>{value}</Value></Tag></TagSet></Tagging>"
        );
        let pairs = [("tagging".into(), String::new())];
        Ok(self.send("PUT", key, &pairs, &[], body.into())?.status().is_success())
    }

    /// Reads the tag of an object; `None` if it has none.
    ///
    /// # Errors
    /// A message if the store does not answer with tags.
    pub fn tag(&self, key: &str) -> Result<Option<u64>, String> {
        let answer = self.send("GET", key, &[("tagging".into(), String::new())], &[], Bytes::new())?;
        if answer.status() != 200 {
            return Err(format!("HTTP status {}", answer.status().as_u16()));
        }
        let text = String::from_utf8_lossy(answer.body());
        let value = text.split_once("<Value>").and_then(|(_, rest)| rest.split_once("</Value>"));
        Ok(value.and_then(|(value, _)| value.trim().parse().ok()))
    }

    /// Copies an object. Returns true if the store acknowledged it.
    ///
    /// # Errors
    /// A message if there was no answer.
    pub fn copy(&self, from: &str, to: &str) -> Result<bool, String> {
        let mut source = format!("/{}/", self.url.endpoint.bucket);
        encode_into(&mut source, from.as_bytes(), true);
        let answer = self.send("PUT", to, &[], &[("x-amz-copy-source", &source)], Bytes::new())?;
        // A copy can fail after its status was sent.
        let is_done = String::from_utf8_lossy(answer.body()).contains("CopyObjectResult");
        Ok(answer.status() == 200 && is_done)
    }
}

fn version_pairs(version: Option<&str>) -> Vec<(String, String)> {
    version.map(|id| ("versionId".to_string(), id.to_string())).into_iter().collect()
}
