//! Signed requests that the store interface does not have: tags and copies.

use bytes::Bytes;

use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::encode_into;
use plimsoll_base::net::fetch::fetch_blocking;
use plimsoll_s3::credentials::Credentials;
use plimsoll_s3::sign::Signer;
use plimsoll_s3::url::s3::S3Url;

/// Lifetime of a request, in seconds.
const LIFETIME_S: u32 = 300;

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

    /// Sends a request for a key, and returns its status and body.
    ///
    /// # Errors
    /// A message if there was no answer.
    fn send(
        &self,
        method: &str,
        key: &str,
        pairs: &[(String, String)],
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<(u16, String), String> {
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
        let request = request.body(Bytes::copy_from_slice(body.as_bytes())).map_err(|e| e.to_string())?;
        let answer = fetch_blocking(request)?;
        Ok((answer.status().as_u16(), String::from_utf8_lossy(answer.body()).into_owned()))
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
        let (status, _) = self.send("PUT", key, &[("tagging".into(), String::new())], &[], &body)?;
        Ok((200..300).contains(&status))
    }

    /// Reads the tag of an object; `None` if it has none.
    ///
    /// # Errors
    /// A message if the store does not answer with tags.
    pub fn tag(&self, key: &str) -> Result<Option<u64>, String> {
        let (status, text) = self.send("GET", key, &[("tagging".into(), String::new())], &[], "")?;
        if status != 200 {
            return Err(format!("HTTP status {status}"));
        }
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
        let (status, text) = self.send("PUT", to, &[], &[("x-amz-copy-source", &source)], "")?;
        // A copy can fail after its status was sent.
        Ok(status == 200 && text.contains("CopyObjectResult"))
    }
}
