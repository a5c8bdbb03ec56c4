//! The S3 store: operations of the [`Store`] trait as signed HTTP requests on connections owned by their lanes. Requests are
//! made in `prepare`, answers read in `answer`; `session` keeps the credentials of directory buckets fresh.

mod answer;
mod prepare;
mod session;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use hyper::header::HeaderValue;
use tokio_rustls::rustls::pki_types::ServerName;

use super::url::{PayloadSigning, S3Url};
use super::{
    BodyChecksum, Capabilities, Description, ErrorClass, Failure, Lane, Local, Observer, Reply, Request,
    SideCall, Store, Timings,
};
use answer::{Exchange, broken};
use prepare::SignedAhead;
use session::Sessions;

use crate::clock::now_ns;
use crate::provider::{ListOrder, Profile};
use crate::s3::connection::{ConnectError, Connection, Target, resolve};
use crate::s3::credentials::CredentialSource;
use crate::s3::endpoint::Endpoint;
use crate::s3::sign::Signer;
use crate::s3::tls::{TlsError, client_config};

/// Why an S3 store could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The endpoint's name does not resolve.
    #[error("endpoint host '{host}' does not resolve ({reason}); check endpoint= and region= of the store")]
    Resolve {
        /// Host name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The host cannot be in a certificate.
    #[error("'{0}' is not a name that a certificate can bear")]
    ServerName(String),
}

/// An S3-compatible bucket.
pub struct S3Store {
    url: Arc<S3Url>,
    shown: String,
    target: Target,
    /// Where it is created and deleted, when that is elsewhere.
    control: Option<(Arc<S3Url>, Target)>,
    credentials: Option<CredentialSource>,
    sessions: Option<Arc<Sessions>>,
    signed_ahead: Arc<SignedAhead>,
}

/// Addresses of an endpoint, and TLS where it speaks it.
fn target_of(endpoint: &Endpoint, ca_bundle: Option<&Path>) -> Result<Target, OpenError> {
    let host = endpoint.host.clone();
    let addresses: Arc<[SocketAddr]> = resolve(&host, endpoint.port)
        .map_err(|e| OpenError::Resolve { host: host.clone(), reason: e.to_string() })?
        .into();
    let tls = if endpoint.tls {
        let name = ServerName::try_from(host.clone()).map_err(|_| OpenError::ServerName(host))?;
        Some((client_config(ca_bundle)?, name))
    } else {
        None
    };
    Ok(Target { tls, addresses })
}

impl S3Store {
    /// Resolves the endpoint and prepares TLS; connects to nothing yet. `shown` is the URL as the user wrote it;
    /// `credentials` are `None` for unsigned requests.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        url: S3Url,
        shown: &str,
        credentials: Option<CredentialSource>,
        ca_bundle: Option<&Path>,
    ) -> Result<S3Store, OpenError> {
        let target = target_of(&url.endpoint, ca_bundle)?;
        let control = match &url.control {
            // Bucket management is rare; where its endpoint does not resolve, only that fails.
            Some(endpoint) => target_of(endpoint, ca_bundle).ok().map(|target| {
                let url = S3Url { endpoint: endpoint.clone(), control: None, ..url.clone() };
                (Arc::new(url), target)
            }),
            None => None,
        };
        let url = Arc::new(url);
        let sessions = credentials
            .as_ref()
            .filter(|_| url.profile.sessions)
            .map(|by| Arc::new(Sessions::new(Arc::clone(&url), target.clone(), by.clone())));
        Ok(S3Store {
            url,
            shown: shown.to_string(),
            target,
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
            (Some(_), Some(seconds)) => format!("URLs signed ahead for {seconds} s"),
            (Some(_), None) if self.sessions.is_some() => format!("session, {payload}"),
            (Some(_), None) => payload.into(),
        }
    }
}

impl Store for S3Store {
    fn describe(&self) -> Description {
        Description {
            url: self.shown.clone(),
            provider: self.url.profile.name.clone(),
            endpoint: self.url.endpoint.url(),
            addresses: self.target.addresses.iter().map(ToString::to_string).collect(),
            signing: self.signing(),
        }
    }

    fn lane(&self, index: usize) -> Box<dyn Lane> {
        let mut lane = S3Lane::new(Arc::clone(&self.url), self.target.clone(), index);
        lane.control.clone_from(&self.control);
        lane.credentials.clone_from(&self.credentials);
        lane.sessions.clone_from(&self.sessions);
        lane.signed_ahead = Arc::clone(&self.signed_ahead);
        Box::new(lane)
    }

    fn prefix(&self) -> &str {
        &self.url.prefix
    }

    fn container(&self) -> &str {
        &self.url.endpoint.bucket
    }

    fn capabilities(&self) -> Capabilities {
        let by_key = self.url.profile.list_order == ListOrder::Key;
        Capabilities { start_after: by_key, ..Capabilities::default() }
    }

    fn profile(&self) -> Option<&Profile> {
        Some(&self.url.profile)
    }

    fn side_calls(&self) -> Vec<SideCall> {
        self.sessions.as_ref().map(|s| s.calls()).unwrap_or_default()
    }
}

/// One connection to the bucket with what it needs to sign.
struct S3Lane {
    turn: usize,
    host: HeaderValue,
    /// The `x-amz-date` of the last request; it serves for a whole second.
    date: HeaderValue,
    signer: Signer,
    url: Arc<S3Url>,
    target: Target,
    control: Option<(Arc<S3Url>, Target)>,
    credentials: Option<CredentialSource>,
    sessions: Option<Arc<Sessions>>,
    signed_ahead: Arc<SignedAhead>,
    connection: Option<Box<Connection>>,
    /// The checksum that the part on its way bears.
    declared: Option<(BodyChecksum, String)>,
    path: String,
    query: String,
}

impl S3Lane {
    fn new(url: Arc<S3Url>, target: Target, turn: usize) -> S3Lane {
        let authority = HeaderValue::from_str(&url.endpoint.authority);
        let service = if url.profile.sessions { "s3express" } else { "s3" };
        S3Lane {
            turn,
            host: authority.unwrap_or_else(|_| HeaderValue::from_static("")),
            date: HeaderValue::from_static(""),
            signer: Signer::new(&url.endpoint.region, service),
            url,
            target,
            control: None,
            credentials: None,
            sessions: None,
            signed_ahead: Arc::new(SignedAhead::now()),
            connection: None,
            declared: None,
            path: String::new(),
            query: String::new(),
        }
    }
}

/// Bodies beyond this are not worth copying behind their head.
const LARGE_BODY: u64 = 32 * 1024;

impl S3Lane {
    async fn connect(&mut self, vectored: bool, timings: &mut Timings) -> Result<Box<Connection>, Failure> {
        let opened = Connection::open(&self.target, self.turn, vectored).await;
        // The next connection of this lane tries the endpoint's next address.
        self.turn += 1;
        match opened {
            Ok(connection) => {
                timings.connections += 1;
                timings.connect_ns += connection.connect_ns;
                timings.tls_ns += connection.tls_ns;
                Ok(Box::new(connection))
            }
            Err(error) => {
                timings.end_ns = now_ns();
                let class = match &error {
                    ConnectError::Tcp { .. } => ErrorClass::Connect,
                    ConnectError::Tls { .. } => ErrorClass::Tls,
                    ConnectError::Http { .. } => ErrorClass::Reset,
                };
                Err(Failure::new(class, error.to_string(), *timings))
            }
        }
    }

    /// Creates or deletes the bucket where that is done, on a connection of its own.
    async fn manage(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        match self.control.clone() {
            None => self.run(request, observer).await,
            Some((url, target)) => {
                let mut lane = S3Lane::new(url, target, 0);
                lane.credentials.clone_from(&self.credentials);
                lane.run(request, observer).await
            }
        }
    }

    async fn run(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
        if let Some(sessions) = self.sessions.as_ref().filter(|_| prepare::needs_session(&request)) {
            sessions.ready().await?;
        }
        let unfit = |message: String| {
            let now = now_ns();
            let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
            Failure::new(ErrorClass::Answered("400 InvalidRequest".into()), message, timings)
        };
        let prepared = self.prepare(&request, &*observer).map_err(unfit)?;
        let mut timings = Timings { start_ns: now_ns(), ..Timings::default() };
        observer.started(timings.start_ns);
        let vectored = matches!(&request, Request::Put { body, .. } | Request::UploadPart { body, .. } if body.len() > LARGE_BODY);
        if vectored && self.connection.as_ref().is_some_and(|c| !c.is_vectored()) {
            // A connection made for small bodies would copy every large one.
            self.connection = None;
        }
        let mut reused = false;
        let mut connection = match self.connection.take().filter(|c| c.is_open()) {
            Some(connection) => {
                reused = true;
                connection
            }
            None => self.connect(vectored, &mut timings).await?,
        };
        let answer = match connection.send(prepared).await {
            Err(_) if reused && connection.stamps().first_read.get() == 0 && request.is_idempotent() => {
                timings.reconnects += 1;
                let again = self.prepare(&request, &*observer).map_err(unfit)?;
                connection = self.connect(vectored, &mut timings).await?;
                connection.send(again).await
            }
            answer => answer,
        };
        let (head, mut body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(error) => return Err(broken(&error, &mut timings)),
        };
        let mut exchange =
            Exchange { connection: connection.as_mut(), timings: &mut timings, observer, body: &mut body };
        let mut reply = exchange.receive(&request, &head).await;
        if let (Ok(reply), Some(declared)) = (&mut reply, self.declared.take()) {
            reply.checksum = Some(declared);
        }
        // A body that was not read to its end leaves the connection unusable, and a server may say that it will close it.
        let closing = head.headers.get(hyper::header::CONNECTION).is_some_and(|v| v == "close");
        if closing {
            return reply;
        }
        if hyper::body::Body::is_end_stream(&body) || reply.is_ok() {
            self.connection = Some(connection);
        }
        reply
    }
}

impl Lane for S3Lane {
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
}
