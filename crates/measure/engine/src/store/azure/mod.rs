//! Azure Blob Storage, through the REST API of block blobs.
//!
//! A multipart upload of the [`Store`] trait becomes an upload of blocks: no request starts it, each part is a block of
//! the blob to be, and one request makes the blob of them ([`blocks`]).

mod authorization;
mod blocks;
mod call;

use std::sync::Arc;

use super::http::reading::{Reading, SHORT_BODY, store_clock_s};
use super::http::tokens::Tokens;
use super::http::{Answer, Destination, HttpTransport, OpenError, Route, Sending, Unsent, target_of};
use super::{
    BackgroundRequest, BodyChecksum, Capabilities, Connection, Description, ErrorClass, Failure, Local,
    Observer, Reply, Request, Store, Timings,
};
use plimsoll_base::clock::{MILLISECOND, SECOND, Timer, now_ns};
use plimsoll_base::net::client_limits::MAX_RESPONSE_BYTES;
use plimsoll_base::net::http1::head::Head;
use plimsoll_base::provider::Profile;
use plimsoll_base::provider::calls::Call as BilledCall;
use plimsoll_recorder::store_facts::RelayFacts;
use plimsoll_s3::azure::message::{Page, error_of};
use plimsoll_s3::url::AzureUrl;
use plimsoll_s3::xml::XmlError;

pub use authorization::{Authorization, AuthorizationError};
use call::{BlobCall, Preparer};

/// A store on a container of Azure Blob Storage.
pub struct AzureStore {
    url: Arc<AzureUrl>,
    redacted: String,
    destination: Destination,
    authorization: Option<Authorization>,
}

impl AzureStore {
    /// Resolves the endpoint and prepares TLS, without connecting. Requests without `authorization` are anonymous.
    ///
    /// # Errors
    /// Returns an [`OpenError`] if the endpoint does not resolve or TLS cannot be set up.
    pub fn open(
        url: AzureUrl,
        redacted: &str,
        authorization: Option<Authorization>,
        route: Route<'_>,
    ) -> Result<AzureStore, OpenError> {
        let place = &url.endpoint;
        // The endpoint does not name the container, so the host is that of the account.
        let destination = target_of(&place.host, place.port, place.tls, route)?;
        Ok(AzureStore { url: Arc::new(url), redacted: redacted.to_string(), destination, authorization })
    }

    fn tokens(&self) -> Option<&Arc<Tokens>> {
        match &self.authorization {
            Some(Authorization::Token(tokens)) => Some(tokens),
            _ => None,
        }
    }
}

impl Store for AzureStore {
    fn describe(&self) -> Description {
        Description {
            url: self.redacted.clone(),
            provider: self.url.profile.name.clone(),
            endpoint: format!("{}{}", self.url.endpoint.url(), self.url.base),
            addresses: self.destination.addresses(),
            signing: self.authorization.as_ref().map_or("none", Authorization::name).into(),
        }
    }

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        Box::new(AzureConnection {
            preparer: Preparer::new(&self.url.account, self.authorization.clone()),
            url: Arc::clone(&self.url),
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
        // A listing continues only from a marker of the store.
        Capabilities { start_after: false, conditions: true, bulk_deletes: false, ..Capabilities::default() }
    }

    fn profile(&self) -> Option<&Profile> {
        Some(&self.url.profile)
    }

    fn background_requests(&self) -> Vec<BackgroundRequest> {
        self.tokens().map(|tokens| tokens.calls()).unwrap_or_default()
    }
}

/// Longest pause between two questions about the state of a copy, in nanoseconds.
const MAX_PAUSE_NS: u64 = SECOND;

/// A connection slot of the container.
struct AzureConnection {
    url: Arc<AzureUrl>,
    preparer: Preparer,
    wire: HttpTransport,
}

/// Returns the failure for a request that cannot be sent.
fn invalid_request(message: &str) -> Failure {
    let now = now_ns();
    let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
    Failure::new(ErrorClass::Response("400 InvalidRequest".into()), message, timings)
}

/// Returns the MD5 of the whole blob from the headers of a download. Azure computes it for the blobs of one request.
fn kept_checksum(head: &Head) -> Option<(BodyChecksum, String)> {
    Some((BodyChecksum::Md5, head.text("content-md5")?.to_string()))
}

impl AzureConnection {
    /// Sends a call and waits for the head of the response. The first call of an operation starts its clock.
    async fn send(
        &mut self,
        call: &BlobCall,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<Answer, Failure> {
        let host = &self.url.endpoint.authority;
        let prepared = self.preparer.prepare(call, host, observer.tag()).map_err(invalid_request)?;
        if timings.start_ns == 0 {
            timings.start_ns = now_ns();
            observer.started(timings.start_ns);
        }
        timings.end_ns = 0;
        let sending = Sending { bytes: call.len(), idempotent: true };
        match self.wire.send(prepared, sending, timings).await {
            Ok(answer) => Ok(answer),
            Err(Unsent::Failed(failure)) => Err(failure),
            Err(Unsent::ConnectionClosed) => {
                let again = self.preparer.prepare(call, host, observer.tag()).map_err(invalid_request)?;
                self.wire.send_on_new_connection(again, sending, timings).await
            }
        }
    }

    /// Sends a call and reads the whole response. Fails unless the status is 2xx.
    async fn ask(
        &mut self,
        call: &BlobCall,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<(Head, Vec<u8>), Failure> {
        let mut answer = self.send(call, observer, timings).await?;
        let mut reading = Reading { answer: &mut answer, timings, observer };
        reading.begin();
        if call.len() > 0 {
            reading.sent();
        }
        let success = reading.answer.head.is_success();
        let body = match success {
            true => reading.collect(MAX_RESPONSE_BYTES).await?,
            false => reading.excerpt(SHORT_BODY).await?,
        };
        reading.end();
        let head = std::mem::take(&mut answer.head);
        self.wire.keep(Answer { head: Head::default(), ..answer });
        match success {
            true => Ok((head, body)),
            false => Err(failure_of(call, &head, &body, *timings)),
        }
    }

    /// Reads a blob or a range of its bytes.
    async fn get(&mut self, call: BlobCall, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let mut timings = Timings::default();
        let mut answer = self.send(&call, observer, &mut timings).await?;
        let head = std::mem::take(&mut answer.head);
        let mut reading = Reading { answer: &mut answer, timings: &mut timings, observer };
        reading.begin();
        let etag = if reading.observer.wants_etag() { head.text("etag").map(str::to_string) } else { None };
        let is_verified = reading.observer.wants_checksum() && !call.is_ranged();
        let kept = if is_verified { kept_checksum(&head) } else { None };
        let result = match head.is_success() {
            true => reading.stream(kept).await,
            false => {
                let body = reading.excerpt(SHORT_BODY).await?;
                reading.end();
                Err(failure_of(&call, &head, &body, *reading.timings))
            }
        };
        reading.end();
        answer.head = head;
        self.wire.keep(answer);
        Ok(Reply { bytes: result?, etag, timings, ..Reply::default() })
    }

    async fn run(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let (url, mut timings) = (Arc::clone(&self.url), Timings::default());
        match request {
            Request::Put { key, body } => {
                let bytes = body.len();
                let call = BlobCall::put(&url, key, body, observer).map_err(invalid_request)?;
                let (head, _) = self.ask(&call, observer, &mut timings).await?;
                let etag = head.text("etag").filter(|_| observer.wants_etag()).map(str::to_string);
                Ok(Reply { bytes, etag, timings, ..Reply::default() })
            }
            Request::Get { key, range } => self.get(BlobCall::get(&url, key, range), observer).await,
            Request::Copy { from, key } => self.copy(from, key, observer).await,
            Request::Head { key } => {
                let (head, _) = self.ask(&BlobCall::head(&url, key), observer, &mut timings).await?;
                let size = head.text("content-length").and_then(|text| text.parse().ok());
                let etag = head.text("etag").map(str::to_string);
                Ok(Reply { size, etag, timings, ..Reply::default() })
            }
            Request::List { prefix, token, max_keys, .. } => {
                let call = BlobCall::list(&url, "", prefix, token, max_keys);
                let (head, body) = self.ask(&call, observer, &mut timings).await?;
                let listing = Some(page_of(&body, timings)?.listing);
                Ok(Reply { listing, store_clock_s: store_clock_s(&head), timings, ..Reply::default() })
            }
            Request::Delete { key } => {
                self.delete(&BlobCall::delete(&url, key.as_str()), observer, &mut timings).await?;
                Ok(Reply { timings, ..Reply::default() })
            }
            Request::DeleteMany { keys } => {
                for key in keys.as_slice() {
                    self.delete(&BlobCall::delete(&url, key), observer, &mut timings).await?;
                }
                Ok(Reply { timings, ..Reply::default() })
            }
            Request::CheckBucket | Request::CreateBucket | Request::DeleteBucket => {
                let method = match request {
                    Request::CreateBucket => "PUT",
                    Request::DeleteBucket => "DELETE",
                    _ => "HEAD",
                };
                self.ask(&BlobCall::container(&url, method), observer, &mut timings).await?;
                Ok(Reply { timings, ..Reply::default() })
            }
            Request::ListVersions { prefix, token } => {
                let call = BlobCall::list(&url, "versions", prefix, token, 1000);
                let (_, body) = self.ask(&call, observer, &mut timings).await?;
                let page = page_of(&body, timings)?;
                let next_token = page.listing.next_token;
                Ok(Reply { versions: page.versions, next_token, timings, ..Reply::default() })
            }
            Request::DeleteVersions { versions } => {
                for version in versions.as_slice() {
                    let call = BlobCall::delete_version(&url, &version.key, &version.id);
                    self.delete(&call, observer, &mut timings).await?;
                }
                Ok(Reply { timings, ..Reply::default() })
            }
            blocks => self.blocks(blocks, observer).await,
        }
    }

    /// Copies a blob. The store may go on copying after its answer; the copy then ends when the properties of the new
    /// blob say so.
    async fn copy(&mut self, from: &str, key: &str, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        let (mut timings, mut also, mut pause_ns) = (Timings::default(), Vec::new(), MILLISECOND);
        let (mut head, _) = self.ask(&BlobCall::copy(&self.url, from, key), observer, &mut timings).await?;
        loop {
            match head.text("x-ms-copy-status") {
                Some("success") | None => break,
                Some("pending") => {}
                Some(status) => {
                    let why = head.text("x-ms-copy-status-description").unwrap_or("no description");
                    let class = ErrorClass::Response("500 CopyFailed".into());
                    return Err(Failure::new(
                        class,
                        format!("the copy has the status {status}: {why}"),
                        timings,
                    ));
                }
            }
            if let Ok(mut timer) = Timer::new() {
                let _ = timer.until(now_ns() + pause_ns).await;
            }
            pause_ns = (2 * pause_ns).min(MAX_PAUSE_NS);
            (head, _) = self.ask(&BlobCall::head(&self.url, key), observer, &mut timings).await?;
            also.push(BilledCall::HeadObject);
        }
        let etag = head.text("etag").map(str::to_string);
        Ok(Reply { etag, also, timings, ..Reply::default() })
    }

    /// Deletes a blob. A missing blob is not an error.
    async fn delete(
        &mut self,
        call: &BlobCall,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<(), Failure> {
        match self.ask(call, observer, timings).await {
            Err(failure) if !failure.is_code("NoSuchKey") => Err(failure),
            _ => Ok(()),
        }
    }
}

/// Parses a page of a listing.
fn page_of(body: &[u8], timings: Timings) -> Result<Page, Failure> {
    Page::parse(body).map_err(|error| unreadable(&error, timings))
}

fn unreadable(error: &XmlError, timings: Timings) -> Failure {
    Failure::new(ErrorClass::Corrupt, format!("the response is {error}"), timings)
}

/// Returns the failure for an error response.
fn failure_of(call: &BlobCall, head: &Head, body: &[u8], timings: Timings) -> Failure {
    let text = |name: &str| head.text(name).unwrap_or("");
    // Responses to HEAD have no body, but this header.
    let error = error_of(head.status(), text("x-ms-error-code"), text("x-ms-request-id"), body);
    let mut message = if error.message.is_empty() { "no message".to_string() } else { error.message.clone() };
    if !error.request_id.is_empty() {
        message.push_str(&format!(" (request id {})", error.request_id));
    }
    let failure = Failure::new(ErrorClass::Response(error.class()), message, timings);
    if call.of_container && head.status() == 404 { failure.of_container() } else { failure }
}

impl Connection for AzureConnection {
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
