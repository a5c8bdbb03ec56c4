//! The S3 store: operations of the [`Store`] trait as signed HTTP requests. Each connection slot owns its HTTP
//! connection. `prepare` builds requests, `answer` reads responses, and `session` renews the credentials of
//! directory buckets.

mod answer;
mod prepare;
mod session;

use std::sync::Arc;

use super::http::reading::Reading;
use super::http::{Destination, HttpTransport, OpenError, Route, Sending, Unsent, target_of};
use super::{
    BackgroundRequest, BodyChecksum, Capabilities, Connection, Description, ErrorClass, Failure, Local,
    Observer, Reply, Request, Store, Timings,
};
use answer::receive;
use plimsoll_recorder::store_facts::RelayFacts;
use plimsoll_s3::url::s3::BINDING;
use plimsoll_s3::url::{PayloadSigning, S3Url};
use prepare::SignedAhead;
use session::Sessions;

use plimsoll_base::clock::now_ns;
use plimsoll_base::provider::{ListOrder, Profile};
use plimsoll_s3::credentials::CredentialSource;
use plimsoll_s3::endpoint::Endpoint;
use plimsoll_s3::sign::Signer;

/// A store on an S3-compatible bucket.
pub struct S3Store {
    url: Arc<S3Url>,
    redacted: String,
    destination: Destination,
    /// URL and destination for creating and deleting the bucket; `None` if the object endpoint does this too.
    control: Option<(Arc<S3Url>, Destination)>,
    credentials: Option<CredentialSource>,
    sessions: Option<Arc<Sessions>>,
    signed_ahead: Arc<SignedAhead>,
}

/// Resolves the host of an endpoint and prepares TLS.
fn place_of(endpoint: &Endpoint, route: Route<'_>) -> Result<Destination, OpenError> {
    target_of(&endpoint.host, endpoint.port, endpoint.tls, route)
}

impl S3Store {
    /// Resolves the endpoint and prepares TLS, without connecting. `redacted` is the URL without secrets;
    /// `credentials` is `None` for unsigned requests.
    ///
    /// # Errors
    /// Returns an [`OpenError`] if the endpoint does not resolve or TLS cannot be set up.
    pub fn open(
        url: S3Url,
        redacted: &str,
        credentials: Option<CredentialSource>,
        route: Route<'_>,
    ) -> Result<S3Store, OpenError> {
        let destination = place_of(&url.endpoint, route)?;
        let control = match &url.control {
            // Creating and deleting buckets is rare. If their endpoint does not resolve, only these requests
            // fail.
            Some(endpoint) => place_of(endpoint, route).ok().map(|destination| {
                let url = S3Url { endpoint: endpoint.clone(), control: None, ..url.clone() };
                (Arc::new(url), destination)
            }),
            None => None,
        };
        let url = Arc::new(url);
        let sessions = match credentials.as_ref().filter(|_| url.profile.sessions) {
            // Only operations go through a relay.
            Some(by) => {
                let direct = place_of(&url.endpoint, Route { relay: None, ..route })?;
                Some(Arc::new(Sessions::new(Arc::clone(&url), direct.target, by.clone())))
            }
            None => None,
        };
        Ok(S3Store {
            url,
            redacted: redacted.to_string(),
            destination,
            control,
            credentials,
            sessions,
            signed_ahead: Arc::new(SignedAhead::now()),
        })
    }

    fn signing(&self) -> String {
        let payload = match self.url.payload {
            PayloadSigning::Signed => "signed payload",
            PayloadSigning::Unsigned => "unsigned payload",
        };
        match (&self.credentials, self.url.presign_s) {
            (None, _) => "none".into(),
            (Some(_), Some(seconds)) => format!("presigned URLs valid for {seconds} s"),
            (Some(_), None) if self.sessions.is_some() => format!("session, {payload}"),
            (Some(_), None) => payload.into(),
        }
    }
}

impl Store for S3Store {
    fn describe(&self) -> Description {
        Description {
            url: self.redacted.clone(),
            provider: self.url.profile.name.clone(),
            endpoint: self.url.endpoint.url(),
            addresses: self.destination.addresses(),
            signing: self.signing(),
        }
    }

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        let mut connection = S3Connection::new(Arc::clone(&self.url), self.destination.clone(), index);
        connection.control.clone_from(&self.control);
        connection.credentials.clone_from(&self.credentials);
        connection.sessions.clone_from(&self.sessions);
        connection.signed_ahead = Arc::clone(&self.signed_ahead);
        Box::new(connection)
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
        let by_key = self.url.profile.list_order == ListOrder::Key;
        let multipart = self.url.endpoint.host != BINDING;
        Capabilities { start_after: by_key, conditions: true, multipart, ..Capabilities::default() }
    }

    fn profile(&self) -> Option<&Profile> {
        Some(&self.url.profile)
    }

    fn background_requests(&self) -> Vec<BackgroundRequest> {
        self.sessions.as_ref().map(|s| s.calls()).unwrap_or_default()
    }
}

/// A connection slot of the bucket, with the state needed to sign requests.
struct S3Connection {
    signer: Signer,
    url: Arc<S3Url>,
    control: Option<(Arc<S3Url>, Destination)>,
    credentials: Option<CredentialSource>,
    sessions: Option<Arc<Sessions>>,
    signed_ahead: Arc<SignedAhead>,
    wire: HttpTransport,
    /// Checksum of the part that is being uploaded; `None` if it has none.
    declared: Option<(BodyChecksum, String)>,
    path: String,
    query: String,
}

impl S3Connection {
    fn new(url: Arc<S3Url>, destination: Destination, turn: usize) -> S3Connection {
        let service = if url.profile.sessions { "s3express" } else { "s3" };
        S3Connection {
            signer: Signer::new(&url.endpoint.region, service),
            url,
            control: None,
            credentials: None,
            sessions: None,
            signed_ahead: Arc::new(SignedAhead::now()),
            wire: HttpTransport::new(destination, turn),
            declared: None,
            path: String::new(),
            query: String::new(),
        }
    }
}

impl S3Connection {
    /// Creates or deletes the bucket, on a separate connection if another endpoint does this.
    async fn manage(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        match self.control.clone() {
            None => self.run(request, observer).await,
            Some((url, destination)) => {
                let mut connection = S3Connection::new(url, destination, 0);
                connection.credentials.clone_from(&self.credentials);
                connection.run(request, observer).await
            }
        }
    }

    async fn run(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        if let Some(sessions) = self.sessions.as_ref().filter(|_| prepare::needs_session(&request)) {
            sessions.ready().await?;
        }
        let invalid_request = |message: &'static str| {
            let now = now_ns();
            let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
            Failure::new(ErrorClass::Response("400 InvalidRequest".into()), message, timings)
        };
        let prepared = self.prepare(&request, &*observer).map_err(invalid_request)?;
        let mut timings = Timings { start_ns: now_ns(), ..Timings::default() };
        observer.started(timings.start_ns);
        let bytes = match &request {
            Request::Put { body, .. } | Request::UploadPart { body, .. } => body.len(),
            _ => 0,
        };
        let sending = Sending { bytes, idempotent: request.is_idempotent() };
        let mut answer = match self.wire.send(prepared, sending, &mut timings).await {
            Ok(answer) => answer,
            Err(Unsent::Failed(failure)) => return Err(failure),
            Err(Unsent::ConnectionClosed) => {
                let again = self.prepare(&request, &*observer).map_err(invalid_request)?;
                self.wire.send_on_new_connection(again, sending, &mut timings).await?
            }
        };
        let mut reading = Reading { answer: &mut answer, timings: &mut timings, observer };
        let mut reply = receive(&mut reading, &request).await;
        if let (Ok(reply), Some(declared)) = (&mut reply, self.declared.take()) {
            reply.checksum = Some(declared);
        }
        self.wire.keep(answer);
        reply
    }
}

impl Connection for S3Connection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        match request {
            Request::CreateBucket | Request::DeleteBucket => Box::pin(self.manage(request, observer)),
            request => Box::pin(self.run(request, observer)),
        }
    }

    fn address(&self) -> Option<usize> {
        self.wire.address()
    }
}
