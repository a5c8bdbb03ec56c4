//! The S3 store: operations of the [`Store`] trait as signed HTTP requests on connections owned by their lanes. Requests are
//! made here, answers read in `answer`.

mod answer;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use tokio_rustls::rustls::pki_types::ServerName;

use super::url::{PayloadSigning, S3Url};
use super::{Body, Description, ErrorClass, Failure, Lane, Local, Observer, Reply, Request, Store, Timings};
use answer::{Exchange, broken};

use crate::clock::now_ns;
use crate::s3::checksum::{base64, md5};
use crate::s3::connection::{ConnectError, Connection, Payload, Target, resolve};
use crate::s3::credentials::CredentialSource;
use crate::s3::encode::{encode_into, hex_into};
use crate::s3::message::{complete_body, delete_many_body};
use crate::s3::sign::{EMPTY_SHA256, Signer, UNSIGNED_PAYLOAD};
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
    credentials: Option<CredentialSource>,
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
        let host = url.endpoint.host.clone();
        let addresses: Arc<[SocketAddr]> = resolve(&host, url.endpoint.port)
            .map_err(|e| OpenError::Resolve { host: host.clone(), reason: e.to_string() })?
            .into();
        let tls = if url.endpoint.tls {
            let name = ServerName::try_from(host.clone()).map_err(|_| OpenError::ServerName(host))?;
            Some((client_config(ca_bundle)?, name))
        } else {
            None
        };
        Ok(S3Store {
            url: Arc::new(url),
            shown: shown.to_string(),
            target: Target { tls, addresses },
            credentials,
        })
    }
}

impl Store for S3Store {
    fn describe(&self) -> Description {
        Description {
            url: self.shown.clone(),
            provider: self.url.provider.clone(),
            endpoint: self.url.endpoint.url(),
            addresses: self.target.addresses.iter().map(ToString::to_string).collect(),
            signing: match (&self.credentials, self.url.payload) {
                (None, _) => "none".into(),
                (Some(_), PayloadSigning::Signed) => "signed payload".into(),
                (Some(_), PayloadSigning::Unsigned) => "unsigned payload".into(),
            },
        }
    }

    fn lane(&self, index: usize) -> Box<dyn Lane> {
        let authority = HeaderValue::from_str(&self.url.endpoint.authority);
        Box::new(S3Lane {
            turn: index,
            host: authority.unwrap_or_else(|_| HeaderValue::from_static("")),
            date: HeaderValue::from_static(""),
            signer: Signer::new(&self.url.endpoint.region, "s3"),
            url: Arc::clone(&self.url),
            target: self.target.clone(),
            credentials: self.credentials.clone(),
            connection: None,
            path: String::new(),
            query: String::new(),
        })
    }

    fn prefix(&self) -> &str {
        &self.url.prefix
    }

    fn container(&self) -> &str {
        &self.url.endpoint.bucket
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
    credentials: Option<CredentialSource>,
    connection: Option<Box<Connection>>,
    path: String,
    query: String,
}

/// Bodies beyond this are not worth copying behind their head.
const LARGE_BODY: u64 = 32 * 1024;

/// A request made ready, before the clock starts.
type Prepared = hyper::Request<Payload>;

fn payload_of(body: Option<Body>) -> Payload {
    match body {
        None => Payload::empty(),
        Some(Body::Whole(data)) => Payload::whole(data),
        Some(body) => Payload::pieces(body.len(), body.pieces()),
    }
}

fn body_sha256(body: &Body) -> String {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    match body {
        Body::Whole(data) => context.update(data),
        Body::Segmented(_) => body.pieces().for_each(|piece| context.update(&piece)),
    }
    let mut out = String::with_capacity(64);
    hex_into(&mut out, context.finish().as_ref());
    out
}

impl S3Lane {
    /// Writes path and query of a request and returns its method.
    fn address(&mut self, request: &Request<'_>) -> hyper::Method {
        self.query.clear();
        let (method, key) = match request {
            Request::Put { key, .. } => (hyper::Method::PUT, *key),
            Request::Get { key, .. } => (hyper::Method::GET, *key),
            Request::Head { key } => (hyper::Method::HEAD, *key),
            Request::Delete { key } => (hyper::Method::DELETE, *key),
            Request::List { prefix, start_after, token, max_keys } => {
                // Sorted by name, as the signature wants them.
                for (name, value) in [("continuation-token=", *token), ("list-type=", "2")] {
                    self.parameter(name, value);
                }
                self.parameter("max-keys=", &max_keys.to_string());
                self.parameter("prefix=", prefix);
                self.parameter("start-after=", start_after);
                (hyper::Method::GET, "")
            }
            Request::DeleteMany { .. } => {
                self.query.push_str("delete=");
                (hyper::Method::POST, "")
            }
            Request::CreateMultipart { key } => {
                self.query.push_str("uploads=");
                (hyper::Method::POST, *key)
            }
            Request::UploadPart { key, upload_id, number, .. } => {
                self.parameter("partNumber=", &number.to_string());
                self.parameter("uploadId=", upload_id);
                (hyper::Method::PUT, *key)
            }
            Request::CompleteMultipart { key, upload_id, .. } => {
                self.parameter("uploadId=", upload_id);
                (hyper::Method::POST, *key)
            }
            Request::AbortMultipart { key, upload_id } => {
                self.parameter("uploadId=", upload_id);
                (hyper::Method::DELETE, *key)
            }
            Request::ListUploads { prefix } => {
                self.parameter("prefix=", prefix);
                self.query.push_str(if self.query.is_empty() { "uploads=" } else { "&uploads=" });
                (hyper::Method::GET, "")
            }
            Request::CheckBucket => (hyper::Method::HEAD, ""),
            Request::CreateBucket => (hyper::Method::PUT, ""),
        };
        let mut path = std::mem::take(&mut self.path);
        self.url.endpoint.path_into(&mut path, key);
        self.path = path;
        method
    }

    fn parameter(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            if !self.query.is_empty() {
                self.query.push('&');
            }
            self.query.push_str(name);
            encode_into(&mut self.query, value.as_bytes(), false);
        }
    }

    fn prepare(&mut self, request: &Request<'_>, observer: &dyn Observer) -> Result<Prepared, String> {
        let method = self.address(request);
        let body = match request {
            Request::Put { body, .. } | Request::UploadPart { body, .. } => Some(body.clone()),
            Request::CompleteMultipart { etags, .. } => Some(Body::Whole(Bytes::from(complete_body(etags)))),
            Request::CreateMultipart { .. } => Some(Body::Whole(Bytes::new())),
            Request::DeleteMany { keys } => Some(Body::Whole(Bytes::from(delete_many_body(keys)))),
            Request::CreateBucket if self.url.endpoint.region != "us-east-1" => {
                let region = &self.url.endpoint.region;
                let text = format!(
                    "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                     <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
                );
                Some(Body::Whole(Bytes::from(text)))
            }
            _ => None,
        };
        let range = match request {
            Request::Get { range: Some(range), .. } => {
                Some(format!("bytes={}-{}", range.start, range.end - 1))
            }
            _ => None,
        };
        let digest = match request {
            Request::DeleteMany { .. } => {
                body.as_ref().and_then(|b| b.pieces().next()).map(|b| base64(&md5(&b)))
            }
            _ => None,
        };
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(HOST, self.host.clone());
        let value = |text: &str| HeaderValue::from_str(text).map_err(|e| e.to_string());
        let mut extra: Vec<(HeaderName, String)> = Vec::new();
        if let Some(digest) = digest {
            extra.push((HeaderName::from_static("content-md5"), digest));
        }
        if let Some(range) = range {
            extra.push((hyper::header::RANGE, range));
        } else if matches!(request, Request::Get { .. }) && observer.wants_checksum() {
            extra.push((HeaderName::from_static("x-amz-checksum-mode"), "ENABLED".into()));
        }
        for (name, text) in &extra {
            headers.insert(name, value(text)?);
        }
        if let Some(source) = self.credentials.clone() {
            self.sign(&source.current(), &method, body.as_ref(), &extra, &mut headers)?;
        }
        if let Some(tag) = observer.tag() {
            headers.insert(HeaderName::from_static("x-plimsoll-tag"), value(tag)?);
        }
        let mut target = std::mem::take(&mut self.path);
        if !self.query.is_empty() {
            target.push('?');
            target.push_str(&self.query);
        }
        let uri = hyper::Uri::try_from(target.as_str()).map_err(|e| format!("the key makes no URL: {e}"));
        self.path = target;
        if body.as_ref().is_some_and(Body::is_empty) {
            // The HTTP library says nothing about an empty body, but S3 insists on a length.
            headers.insert(hyper::header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut prepared = hyper::Request::new(payload_of(body));
        *prepared.method_mut() = method;
        *prepared.uri_mut() = uri?;
        *prepared.headers_mut() = headers;
        Ok(prepared)
    }

    fn sign(
        &mut self,
        credentials: &crate::s3::credentials::Credentials,
        method: &hyper::Method,
        body: Option<&Body>,
        extra: &[(HeaderName, String)],
        headers: &mut HeaderMap,
    ) -> Result<(), String> {
        let hashed;
        let payload = match body {
            None => EMPTY_SHA256,
            Some(body) if body.is_empty() => EMPTY_SHA256,
            Some(_) if self.url.payload == PayloadSigning::Unsigned => UNSIGNED_PAYLOAD,
            Some(body) => {
                hashed = body_sha256(body);
                &hashed
            }
        };
        let mut signed: [(&str, &str); 8] = [("", ""); 8];
        let mut count = 0;
        let mut push = |name, value| {
            signed[count] = (name, value);
            count += 1;
        };
        for (name, text) in extra.iter().filter(|(name, _)| name.as_str() < "host") {
            push(name.as_str(), text.as_str());
        }
        push("host", &self.url.endpoint.authority);
        for (name, text) in extra.iter().filter(|(name, _)| name.as_str() > "host") {
            push(name.as_str(), text.as_str());
        }
        push("x-amz-content-sha256", payload);
        if let Some(token) = &credentials.session_token {
            push("x-amz-security-token", token);
        }
        let done = self.signer.sign(
            credentials,
            method.as_str(),
            &self.path,
            &self.query,
            &signed[..count],
            payload,
        );
        let value = |text: &str| HeaderValue::from_str(text).map_err(|e| e.to_string());
        headers.insert(AUTHORIZATION, value(done.authorization)?);
        if self.date.as_bytes() != done.date_time.as_bytes() {
            self.date = value(done.date_time)?;
        }
        headers.insert(HeaderName::from_static("x-amz-date"), self.date.clone());
        let shown = match payload {
            EMPTY_SHA256 => HeaderValue::from_static(EMPTY_SHA256),
            UNSIGNED_PAYLOAD => HeaderValue::from_static(UNSIGNED_PAYLOAD),
            other => value(other)?,
        };
        headers.insert(HeaderName::from_static("x-amz-content-sha256"), shown);
        if let Some(token) = &credentials.session_token {
            headers.insert(HeaderName::from_static("x-amz-security-token"), value(token)?);
        }
        Ok(())
    }

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

    async fn run(&mut self, request: Request<'_>, observer: &mut dyn Observer) -> Result<Reply, Failure> {
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
        let reply = exchange.receive(&request, &head).await;
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
        Box::pin(self.run(request, observer))
    }
}
