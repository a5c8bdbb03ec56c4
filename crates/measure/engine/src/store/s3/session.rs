//! Sessions of directory buckets (S3 API reference, CreateSession): short-lived credentials that sign every
//! object request.
//!
//! One thread per store creates the session and renews it before it expires. So at most one session request is
//! in flight, and no operation waits for a renewal. Session requests are recorded separately from operations.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::store::Failure;
use plimsoll_base::clock::{Timer, now_ns, wall_now};
use plimsoll_base::net::client_limits;
use plimsoll_base::net::connection::{HttpConnection, ResolvedEndpoint};
use plimsoll_base::net::http1::outgoing::{HeadWriter, Payload};
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;
use plimsoll_recorder::store_facts::BackgroundRequest;
use plimsoll_recorder::store_facts::BackgroundRequestKind;
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_s3::error::S3Error;
use plimsoll_s3::sign::{EMPTY_SHA256, Signer};
use plimsoll_s3::url::S3Url;
use plimsoll_s3::xml::Element;

/// The state of the session.
#[derive(Clone)]
enum State {
    /// No session has been requested yet, or it is being created.
    Absent,
    /// A session is open; these are its credentials.
    Open(Arc<Credentials>),
    /// The first session could not be created.
    Refused(Box<Failure>),
}

/// State shared between the renewing thread and the connections.
struct Inner {
    url: Arc<S3Url>,
    target: ResolvedEndpoint,
    own: CredentialSource,
    state: watch::Sender<State>,
    calls: Mutex<Vec<BackgroundRequest>>,
    working: AtomicBool,
}

/// The session of one bucket. Dropping this value ends the renewing thread.
pub struct Sessions {
    inner: Arc<Inner>,
    alive: watch::Sender<()>,
}

/// Maximum duration of a session request.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(10);
/// Maximum remaining lifetime at which a session is renewed. It is renewed when a fifth of its lifetime
/// remains, but no earlier than one minute before it expires.
const MAX_MARGIN: Duration = Duration::from_secs(60);
/// Pause after a failed renewal. Renewal is retried until it succeeds, even after the session has expired.
const PAUSE: Duration = Duration::from_millis(250);

impl Sessions {
    /// Creates the value without a session. The first call of [`Sessions::ready`] creates the session.
    pub fn new(url: Arc<S3Url>, target: ResolvedEndpoint, own: CredentialSource) -> Sessions {
        let inner = Inner {
            url,
            target,
            own,
            state: watch::Sender::new(State::Absent),
            calls: Mutex::default(),
            working: AtomicBool::new(false),
        };
        Sessions { inner: Arc::new(inner), alive: watch::Sender::new(()) }
    }

    /// Waits until a session is open, and starts its creation if necessary. Returns immediately if it is open
    /// already.
    ///
    /// # Errors
    /// Returns the failure if the first session could not be created.
    pub async fn ready(&self) -> Result<(), Failure> {
        if matches!(*self.inner.state.borrow(), State::Open(_)) {
            return Ok(());
        }
        if !self.inner.working.swap(true, Ordering::AcqRel) {
            self.inner.state.send_replace(State::Absent);
            let (inner, alive) = (Arc::clone(&self.inner), self.alive.subscribe());
            let thread = std::thread::Builder::new().name("session".into());
            thread.spawn(move || inner.keep_fresh(alive)).map_err(|e| no_session(e.to_string()))?;
        }
        let mut changes = self.inner.state.subscribe();
        let state = changes.wait_for(|state| !matches!(state, State::Absent)).await;
        match state.as_deref() {
            Ok(State::Refused(failure)) => Err((**failure).clone()),
            _ => Ok(()),
        }
    }

    /// Returns the credentials of the open session; `None` if there is none.
    pub fn current(&self) -> Option<Arc<Credentials>> {
        match &*self.inner.state.borrow() {
            State::Open(credentials) => Some(Arc::clone(credentials)),
            _ => None,
        }
    }

    /// Returns the session requests made so far.
    pub fn calls(&self) -> Vec<BackgroundRequest> {
        self.inner.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn no_session(message: String) -> Failure {
    Failure::new(ErrorClass::Connect, format!("cannot create a session: {message}"), Timings::default())
}

impl Inner {
    /// Creates the session and renews it until the [`Sessions`] value is dropped.
    fn keep_fresh(&self, mut alive: watch::Receiver<()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return self.refuse(no_session(error.to_string())),
        };
        runtime.block_on(async {
            let mut first = true;
            loop {
                let pause = match self.create().await {
                    Ok((credentials, life)) => {
                        self.state.send_replace(State::Open(Arc::new(credentials)));
                        first = false;
                        life.saturating_sub((life / 5).min(MAX_MARGIN)).max(PAUSE)
                    }
                    Err(failure) if first => return self.refuse(failure),
                    Err(_) => PAUSE,
                };
                let Ok(mut timer) = Timer::new() else { return };
                tokio::select! {
                    _ = timer.until(now_ns() + pause.as_nanos() as u64) => {}
                    _ = alive.changed() => return,
                }
            }
        });
    }

    fn refuse(&self, failure: Failure) {
        self.working.store(false, Ordering::Release);
        self.state.send_replace(State::Refused(Box::new(failure)));
    }

    /// Creates one session and records the request.
    async fn create(&self) -> Result<(Credentials, Duration), Failure> {
        let began_ns = now_ns();
        let time_limit = MAX_REQUEST_TIME.min(client_limits::timeout());
        let made = tokio::time::timeout(time_limit, self.request()).await;
        let slow = || no_session(format!("no response within {} s", time_limit.as_secs_f64()));
        let made = made.unwrap_or_else(|_| Err(slow()));
        let error = made.as_ref().err().map(ToString::to_string);
        let call = BackgroundRequest {
            kind: BackgroundRequestKind::CreateSession,
            began_ns,
            took_ns: now_ns() - began_ns,
            error,
        };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        made
    }

    async fn request(&self) -> Result<(Credentials, Duration), Failure> {
        let endpoint = &self.url.endpoint;
        let mut connection =
            HttpConnection::open(&self.target, 0, false).await.map_err(|e| no_session(e.to_string()))?;
        let mut path = String::new();
        endpoint.path_into(&mut path, "");
        let own = self.own.current();
        let requested_at = wall_now();
        let mut headers = vec![
            ("host", endpoint.authority.as_str()),
            ("x-amz-content-sha256", EMPTY_SHA256),
            ("x-amz-create-session-mode", "ReadWrite"),
        ];
        if let Some(token) = &own.session_token {
            headers.push(("x-amz-security-token", token));
        }
        let mut signer = Signer::new(&endpoint.region, "s3express");
        let signed = signer.sign(&own, "GET", &path, "session=", &headers, EMPTY_SHA256);
        let mut request = HeadWriter::new("GET", &path, "session=").map_err(|e| no_session(e.to_string()))?;
        headers.push(("authorization", signed.authorization));
        headers.push(("x-amz-date", signed.date_time));
        for (name, value) in headers {
            request.field(name, value.as_bytes()).map_err(|e| no_session(e.to_string()))?;
        }
        let request = request.finish(false, Payload::empty());
        let head = connection.send(request).await.map_err(|e| no_session(e.to_string()))?;
        let mut answer = Vec::new();
        while let Some(piece) = connection.next_piece().await.map_err(|e| no_session(e.to_string()))? {
            if answer.len() + piece.len() > client_limits::MAX_CREDENTIAL_BYTES {
                return Err(no_session("the response is too large".into()));
            }
            answer.extend_from_slice(piece);
        }
        if !head.is_success() {
            let error = S3Error::parse(head.status(), "", &answer);
            let class = ErrorClass::Response(error.class());
            return Err(Failure::new(class, format!("CreateSession: {}", error.message), Timings::default()));
        }
        let date = head.text("date").and_then(|d| jiff::fmt::rfc2822::parse(d).ok()).map(|d| d.timestamp());
        read(&answer, store_time(date, requested_at)).map_err(|missing| {
            let class = ErrorClass::Response("200 NoCredentials".into());
            let text = format!(
                "the CreateSession response has no {missing}; the server does not support directory buckets"
            );
            Failure::new(class, text, Timings::default())
        })
    }
}

/// Returns the store's current time. If the clocks agree within 2 s, this is the local time, because the `Date`
/// header has only whole seconds; otherwise it is the latest time that the `Date` header allows.
fn store_time(date: Option<jiff::Timestamp>, ours: jiff::Timestamp) -> jiff::Timestamp {
    match date {
        Some(date) if (date.as_second() - ours.as_second()).abs() > 2 => {
            date + jiff::SignedDuration::from_secs(1)
        }
        _ => ours,
    }
}

/// Parses a CreateSessionResult and returns the credentials with their remaining lifetime at the store's time
/// `now`. An error names the missing element.
fn read(answer: &[u8], now: jiff::Timestamp) -> Result<(Credentials, Duration), &'static str> {
    let root = Element::parse(answer).map_err(|_| "XML document")?;
    let found = root.child("Credentials").ok_or("credentials")?;
    let text = |name: &str| found.text_of(name).filter(|t| !t.is_empty());
    let access = text("AccessKeyId").ok_or("access key")?;
    let secret = text("SecretAccessKey").ok_or("secret key")?;
    let token = text("SessionToken").ok_or("session token")?;
    let ends: jiff::Timestamp = text("Expiration").and_then(|t| t.parse().ok()).ok_or("expiration time")?;
    let life = Duration::try_from(ends.duration_since(now)).unwrap_or(PAUSE);
    let credentials = Credentials::new(access, secret, Some(token));
    credentials.hide();
    Ok((credentials, life))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_parsed_with_its_lifetime() {
        let answer = b"<CreateSessionResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Credentials>\
            <SessionToken>t</SessionToken><SecretAccessKey>s</SecretAccessKey><AccessKeyId>a</AccessKeyId>\
            <Expiration>2026-11-21T12:05:00Z</Expiration></Credentials></CreateSessionResult>";
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let (credentials, life) = read(answer, now).unwrap();
        assert_eq!((credentials.access_key.as_str(), life.as_secs()), ("a", 300));
        assert_eq!(credentials.session_token.as_deref(), Some("t"));
        assert_eq!(read(b"<CreateSessionResult/>", now).unwrap_err(), "credentials", "as emulators respond");
    }
}
