//! Google Cloud Storage, through its JSON API (Google Cloud Storage documentation, JSON API reference). Uploads
//! and verified reads of whole objects use CRC32C checksums.
//!
//! A multipart upload of the [`Store`] trait becomes a parallel composite upload: each part is a separate
//! object, `compose` joins the parts into one object, and then the parts are deleted ([`composite`]). A small
//! put is a media upload in one request; a large put is a resumable upload ([`resumable`]).

mod answer;
mod composite;
mod request;
mod resumable;
mod token;

use std::sync::Arc;

use http::Method;

use super::http::reading::{Reading, SHORT_BODY};
use super::http::tokens::Tokens;
use super::http::{
    Answer, Destination, HttpTransport, OpenError, Prepared, Route, Sending, Unsent, target_of,
};
use super::{
    Algorithm, BackgroundRequest, Body, BodyChecksum, Capabilities, Connection, Description, ErrorClass,
    Failure, Local, Observer, Reply, Request, Store, Timings,
};
use plimsoll_base::clock::now_ns;
use plimsoll_base::net::client_limits::MAX_RESPONSE_BYTES;
use plimsoll_base::provider::Profile;
use plimsoll_base::provider::calls::Call as BilledCall;
use plimsoll_recorder::store_facts::RelayFacts;
use plimsoll_s3::url::gcs::{GcsUrl, UploadMethod};
pub use token::{TokenError, tokens};

use answer::{Resource, Rewrite, failure_of, kept_checksum, page_of};
use request::JsonCall;

/// A store on a bucket of Google Cloud Storage.
pub struct GcsStore {
    url: Arc<GcsUrl>,
    redacted: String,
    destination: Destination,
    tokens: Option<Arc<Tokens>>,
}

impl GcsStore {
    /// Resolves the endpoint and prepares TLS, without connecting. If `tokens` is `None`, requests are not
    /// authorized.
    ///
    /// # Errors
    /// Returns an [`OpenError`] if the endpoint does not resolve or TLS cannot be set up.
    pub fn open(
        url: GcsUrl,
        redacted: &str,
        tokens: Option<Arc<Tokens>>,
        route: Route<'_>,
    ) -> Result<GcsStore, OpenError> {
        let place = &url.endpoint;
        let destination = target_of(&place.host, place.port, place.tls, route)?;
        Ok(GcsStore { url: Arc::new(url), redacted: redacted.to_string(), destination, tokens })
    }
}

impl Store for GcsStore {
    fn describe(&self) -> Description {
        Description {
            url: self.redacted.clone(),
            provider: self.url.profile.name.clone(),
            endpoint: self.url.endpoint.url(),
            addresses: self.destination.addresses(),
            signing: if self.tokens.is_some() { "OAuth token" } else { "none" }.into(),
        }
    }

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        Box::new(GcsConnection {
            url: Arc::clone(&self.url),
            tokens: self.tokens.clone(),
            wire: HttpTransport::new(self.destination.clone(), index),
        })
    }

    fn prefix(&self) -> &str {
        &self.url.prefix
    }

    fn container(&self) -> &str {
        &self.url.endpoint.bucket
    }

    fn relayed(&self) -> Option<RelayFacts> {
        self.destination.seen()
    }

    fn capabilities(&self) -> Capabilities {
        // A put can upload an object of any size, because large puts are resumable.
        let max_object_bytes = Some(self.url.profile.limits.object);
        Capabilities { max_object_bytes, bulk_deletes: false, ..Capabilities::default() }
    }

    fn profile(&self) -> Option<&Profile> {
        Some(&self.url.profile)
    }

    fn background_requests(&self) -> Vec<BackgroundRequest> {
        self.tokens.as_ref().map(|t| t.calls()).unwrap_or_default()
    }
}

/// A connection slot of the bucket.
struct GcsConnection {
    url: Arc<GcsUrl>,
    tokens: Option<Arc<Tokens>>,
    wire: HttpTransport,
}

/// Maximum object size in bytes for a media upload with `upload=auto`; larger objects use a resumable upload
/// (Google's advice for media uploads).
const MAX_MEDIA_BYTES: u64 = 8 << 20;

/// Returns the failure for a request that cannot be sent.
fn invalid_request(message: String) -> Failure {
    let now = now_ns();
    let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
    Failure::new(ErrorClass::Response("400 InvalidRequest".into()), message, timings)
}

/// Returns the CRC32C of a body in base64, the format that Google uses.
fn crc32c(body: &Body) -> String {
    BodyChecksum::Declared(Algorithm::Crc32c).of(body.pieces())
}

impl GcsConnection {
    /// Converts a call to an HTTP request.
    fn prepare(&self, call: &JsonCall, observer: &dyn Observer) -> Result<Prepared, Failure> {
        let token = self.tokens.as_ref().map(Tokens::header);
        call.prepare(&self.url.endpoint.authority, token.as_deref(), observer.tag()).map_err(invalid_request)
    }

    /// Sends a call and waits for the head of the response.
    async fn send(
        &mut self,
        call: &JsonCall,
        prepared: Prepared,
        observer: &dyn Observer,
        timings: &mut Timings,
    ) -> Result<Answer, Failure> {
        let sending = Sending { bytes: call.len(), idempotent: call.idempotent };
        match self.wire.send(prepared, sending, timings).await {
            Ok(answer) => Ok(answer),
            Err(Unsent::Failed(failure)) => Err(failure),
            Err(Unsent::ConnectionClosed) => {
                let again = self.prepare(call, observer)?;
                self.wire.send_on_new_connection(again, sending, timings).await
            }
        }
    }

    /// Sends a call and reads the whole response: head and body.
    async fn exchange(
        &mut self,
        call: &JsonCall,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<(http::response::Parts, Vec<u8>), Failure> {
        let prepared = self.prepare(call, observer)?;
        if timings.start_ns == 0 {
            timings.start_ns = now_ns();
            observer.started(timings.start_ns);
        }
        let mut answer = self.send(call, prepared, observer, timings).await?;
        timings.end_ns = 0;
        let mut reading = Reading { answer: &mut answer, timings, observer };
        reading.begin();
        let body = reading.collect(MAX_RESPONSE_BYTES).await;
        reading.end();
        let body = body?;
        let head = answer.head.parts();
        if call.len() > 0 {
            let stamps = answer.connection.stamps();
            if timings.body_first_ns == 0 {
                timings.body_first_ns = stamps.first_write.get();
            }
            timings.body_last_ns = stamps.last_write.get();
        }
        self.wire.keep(answer);
        Ok((head, body))
    }

    /// Sends a call and returns the response; fails unless the status is 2xx.
    async fn ask(
        &mut self,
        call: &JsonCall,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<(http::response::Parts, Vec<u8>), Failure> {
        let (head, body) = self.exchange(call, observer, timings).await?;
        if head.status.is_success() {
            return Ok((head, body));
        }
        let failure = failure_of(&head, &body, *timings);
        Err(if call.of_bucket && head.status == 404 { failure.of_container() } else { failure })
    }

    /// Reads an object or a byte range of it.
    async fn get(&mut self, call: JsonCall, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let prepared = self.prepare(&call, observer)?;
        let mut timings = Timings { start_ns: now_ns(), ..Timings::default() };
        observer.started(timings.start_ns);
        let mut answer = self.send(&call, prepared, observer, &mut timings).await?;
        let kept = (observer.wants_checksum() && !call.ranged()).then(|| kept_checksum(&answer.head.parts()));
        let mut reading = Reading { answer: &mut answer, timings: &mut timings, observer };
        reading.begin();
        let result = if reading.answer.head.is_success() {
            reading.stream(kept.flatten()).await
        } else {
            let body = reading.collect(SHORT_BODY).await?;
            reading.end();
            Err(failure_of(&reading.answer.head.parts(), &body, *reading.timings))
        };
        reading.end();
        self.wire.keep(answer);
        Ok(Reply { bytes: result?, timings, ..Reply::default() })
    }

    /// Puts an object in one request and verifies the checksum that the store reports.
    async fn put_media(
        &mut self,
        key: &str,
        body: &Body,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let sum = crc32c(body);
        let call = JsonCall::media(&self.url, key, body, &sum);
        let mut timings = Timings::default();
        let (_, answer) = self.ask(&call, observer, &mut timings).await?;
        let made = Resource::parse(&answer, timings)?;
        self.finished(key, made, body.len(), &sum, timings, observer).await
    }

    /// Returns the reply to an upload. If the store's checksum differs from the one sent, deletes the object
    /// and fails.
    async fn finished(
        &mut self,
        key: &str,
        made: Resource,
        bytes: u64,
        sum: &str,
        timings: Timings,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        if let Some(found) = made.crc32c.as_deref().filter(|found| *found != sum) {
            let mut ignored = timings;
            let _ = self.exchange(&JsonCall::delete(&self.url, key), observer, &mut ignored).await;
            let message =
                format!("the CRC32C of the object is {found}, but that of the content sent is {sum}");
            return Err(Failure::new(ErrorClass::Corrupt, message, timings));
        }
        let checksum = Some((BodyChecksum::Declared(Algorithm::Crc32c), sum.to_string()));
        Ok(Reply { bytes, etag: made.generation, checksum, timings, ..Reply::default() })
    }

    async fn put(&mut self, key: &str, body: Body, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let resumable = match self.url.upload {
            UploadMethod::Auto => body.len() > MAX_MEDIA_BYTES,
            UploadMethod::Media => false,
            UploadMethod::Resumable => true,
        };
        if resumable {
            self.put_resumable(key, body, observer).await
        } else {
            self.put_media(key, &body, observer).await
        }
    }

    /// Copies an object. Large copies, or those between storage classes, can need several calls.
    async fn copy(&mut self, from: &str, key: &str, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let (mut timings, mut also, mut token) = (Timings::default(), Vec::new(), String::new());
        loop {
            let call = JsonCall::rewrite(&self.url, from, key, &token);
            let (_, body) = self.ask(&call, observer, &mut timings).await?;
            match Rewrite::parse(&body, timings)? {
                Rewrite::Done(etag) => return Ok(Reply { etag, also, timings, ..Reply::default() }),
                Rewrite::Continues(next) => token = next,
            }
            also.push(BilledCall::CopyObject);
        }
    }

    /// Deletes an object. A missing object is not an error.
    async fn delete(
        &mut self,
        key: &str,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<(), Failure> {
        let (head, body) = self.exchange(&JsonCall::delete(&self.url, key), observer, timings).await?;
        let failure = failure_of(&head, &body, *timings);
        if head.status.is_success() || failure.is_code("NoSuchKey") { Ok(()) } else { Err(failure) }
    }

    async fn run(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let mut timings = Timings::default();
        match request {
            Request::Put { key, body } => self.put(key, body, observer).await,
            Request::Get { key, range } => self.get(JsonCall::get(&self.url, key, range), observer).await,
            Request::Copy { from, key } => self.copy(from, key, observer).await,
            Request::Head { key } => {
                let call = JsonCall::head(&self.url, key);
                let (_, body) = self.ask(&call, observer, &mut timings).await?;
                let found = Resource::parse(&body, timings)?;
                Ok(Reply { size: Some(found.size), etag: found.generation, timings, ..Reply::default() })
            }
            Request::List { prefix, start_after, token, max_keys } => {
                let call = JsonCall::list(&self.url, prefix, start_after, token, max_keys);
                let (head, body) = self.ask(&call, observer, &mut timings).await?;
                let listing = Some(page_of(&body, start_after, timings)?);
                let date = head.headers.get(hyper::header::DATE).and_then(|v| v.to_str().ok());
                let date = date.and_then(|d| jiff::fmt::rfc2822::parse(d).ok());
                let store_clock_s = date.map(|d| d.timestamp().as_second());
                Ok(Reply { listing, store_clock_s, timings, ..Reply::default() })
            }
            Request::Delete { key } => {
                self.delete(key.as_str(), observer, &mut timings).await?;
                Ok(Reply { timings, ..Reply::default() })
            }
            Request::DeleteMany { keys } => {
                for key in keys.as_slice() {
                    self.delete(key, observer, &mut timings).await?;
                }
                Ok(Reply { timings, ..Reply::default() })
            }
            Request::CheckBucket | Request::CreateBucket | Request::DeleteBucket => {
                let method = match request {
                    Request::CreateBucket => Method::POST,
                    Request::DeleteBucket => Method::DELETE,
                    _ => Method::GET,
                };
                let call = JsonCall::bucket(&self.url, method).map_err(invalid_request)?;
                self.ask(&call, observer, &mut timings).await?;
                Ok(Reply { timings, ..Reply::default() })
            }
            parts => self.composite(parts, observer).await,
        }
    }
}

impl Connection for GcsConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        Box::pin(self.run(request, observer))
    }

    fn address(&self) -> Option<usize> {
        self.wire.address()
    }
}
