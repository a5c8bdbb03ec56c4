//! A client of one bucket that sends any request of the S3 API and remembers its exchanges as evidence.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::call::{Answer, CheckCall, Framing, Retry};
use super::problem::Problem;
use plimsoll_base::clock::{MILLISECOND, Timer, now_ns, wall_now};
use plimsoll_base::net::client_limits::timeout;
use plimsoll_base::net::encode::hex;
use plimsoll_base::net::http1::outgoing::{HeadWriter, Payload};
use plimsoll_engine::store::http::reading::Reading;
use plimsoll_engine::store::http::{
    Destination, HttpTransport, OpenError, Prepared, Sending, Unsent, target_of,
};
use plimsoll_engine::store::{Failure, Ignore, Timings};
use plimsoll_recorder::ErrorClass;
use plimsoll_s3::checksum::Algorithm;
use plimsoll_s3::chunked::ChunkSigner;
use plimsoll_s3::credentials::{CredentialSource, Credentials};
use plimsoll_s3::error::S3Error;
use plimsoll_s3::sign::{EMPTY_SHA256, Signer, UNSIGNED_PAYLOAD, canonical_query, derive_key, sha256};
use plimsoll_s3::url::PayloadSigning;
use plimsoll_s3::url::s3::S3Url;
use plimsoll_session::open::Opened;

/// Attempts of a request that is sent again after failures that may be temporary.
const MAX_ATTEMPTS: u32 = 5;
/// Largest body of an answer, in bytes.
const MAX_BODY: usize = 32 << 20;
/// Lifetime of presigned URLs, in seconds.
pub const PRESIGNED_S: u32 = 900;
/// Exchanges that are remembered.
const MAX_EXCHANGES: usize = 20_000;
/// Slowest transfer of a body that its deadline allows, in bytes per second.
const SLOWEST_BODY: u64 = 1 << 20;

/// A request and the answer to it, as evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exchange {
    /// Number of the client that sent it.
    pub client: usize,
    /// Start, in milliseconds after the first exchange of the check.
    pub at_ms: f64,
    /// Time until the end of the answer, in milliseconds.
    pub took_ms: f64,
    /// Method, key and headers of the request.
    pub request: String,
    /// Status, error code and entity tag of the answer, or the reason why there is none.
    pub answer: String,
}

/// One connection slot.
struct Slot {
    wire: HttpTransport,
    signer: Signer,
}

/// A client of one bucket, with several connections.
pub struct BucketClient {
    url: S3Url,
    source: Option<CredentialSource>,
    destination: Destination,
    slots: RefCell<Vec<Option<Slot>>>,
    trace: RefCell<Vec<Exchange>>,
    began_ns: RefCell<Option<u64>>,
    prefix: RefCell<String>,
    /// Reason why no further requests are sent; `None` while they are.
    gave_up: RefCell<Option<String>>,
    /// Numbers of requests that were sent, and of those that were repetitions after a failure.
    sent: Cell<(u64, u64)>,
}

impl BucketClient {
    /// Returns a client of an opened store with the S3 API at `url`.
    ///
    /// # Errors
    /// If its host does not resolve or TLS cannot be set up.
    pub fn new(opened: &Opened, url: &S3Url) -> Result<BucketClient, OpenError> {
        let endpoint = &url.endpoint;
        let destination = target_of(&endpoint.host, endpoint.port, endpoint.tls, opened.route())?;
        Ok(BucketClient {
            url: url.clone(),
            source: opened.credentials.clone(),
            destination,
            slots: RefCell::default(),
            trace: RefCell::default(),
            began_ns: RefCell::default(),
            prefix: RefCell::default(),
            gave_up: RefCell::default(),
            sent: Cell::default(),
        })
    }

    /// Returns true if requests are signed.
    pub fn is_signed(&self) -> bool {
        self.source.is_some()
    }

    /// Returns the numbers of requests that were sent, and of those that were repetitions after a failure.
    pub fn sent(&self) -> (u64, u64) {
        self.sent.get()
    }

    /// Returns the name of the bucket.
    pub fn bucket(&self) -> &str {
        &self.url.endpoint.bucket
    }

    /// Forgets the exchanges so far. `prefix` is left out of the keys of later ones.
    pub fn begin_trace(&self, prefix: &str) {
        self.trace.borrow_mut().clear();
        *self.began_ns.borrow_mut() = None;
        *self.prefix.borrow_mut() = prefix.to_string();
    }

    /// Returns the exchanges since the trace began, in the order of their starts.
    pub fn trace(&self) -> Vec<Exchange> {
        let mut trace = self.trace.borrow().clone();
        trace.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
        trace
    }

    /// Sends a request on connection slot `index` and returns the answer, whatever its status. If the request allows
    /// it, sends it again after failures that may be temporary.
    ///
    /// # Errors
    /// [`Problem::Inconclusive`] if there is no answer, or none but 429, 502, 503 or 504. After a timeout, a store that
    /// cannot be reached or an endless answer, no further requests are sent.
    pub async fn send(&self, index: usize, call: CheckCall) -> Result<Answer, Problem> {
        if let Some(reason) = &*self.gave_up.borrow() {
            return Err(Problem::Inconclusive(format!("not executed, because earlier {reason}")));
        }
        let attempts = if call.retry == Retry::Never { 1 } else { MAX_ATTEMPTS };
        let (mut last, mut sent, mut is_dead) = (String::new(), 0, false);
        while sent < attempts {
            if sent > 0 {
                pause(sent).await;
            }
            sent += 1;
            let (all, repeated) = self.sent.get();
            self.sent.set((all + 1, repeated + u64::from(sent > 1)));
            let is_temporary = match self.attempt(index, &call).await {
                Ok(answer) if !matches!(answer.status, 429 | 500 | 502..=504) => return Ok(answer),
                // An internal error that repeats is the store's answer to this request.
                Ok(answer) if answer.status == 500 && sent == MAX_ATTEMPTS => return Ok(answer),
                Ok(answer) => {
                    is_dead = false;
                    last = format!("was answered {}", answer.outcome());
                    call.retry == Retry::Temporary || matches!(answer.status, 429 | 503)
                }
                Err(failure) => {
                    last = format!("had no answer ({}: {})", failure.class, failure.message);
                    let classes =
                        [ErrorClass::Timeout, ErrorClass::Connect, ErrorClass::Tls, ErrorClass::Corrupt];
                    is_dead = classes.contains(&failure.class);
                    call.retry == Retry::Temporary && failure.class != ErrorClass::Timeout
                }
            };
            if !is_temporary {
                break;
            }
        }
        let again = if sent > 1 { format!(", {sent} times") } else { String::new() };
        let text = format!("{} {} {last}{again}", call.method, self.short(&call.key));
        if is_dead {
            *self.gave_up.borrow_mut() = Some(text.clone());
        }
        Err(Problem::Inconclusive(text))
    }

    /// Sends a request once.
    async fn attempt(&self, index: usize, call: &CheckCall) -> Result<Answer, Failure> {
        let mut slot = self.take(index);
        let began = now_ns();
        let deadline = timeout() + Duration::from_secs(call.bytes() / SLOWEST_BODY);
        let result = tokio::time::timeout(deadline, self.exchange(&mut slot, call)).await;
        let result = result.unwrap_or_else(|_| {
            slot = self.slot(index);
            let text = format!("no answer within {} s (--timeout)", deadline.as_secs_f64());
            Err(Failure::new(ErrorClass::Timeout, text, Timings::default()))
        });
        self.remember(index, call, began, &result);
        if let Some(place) = self.slots.borrow_mut().get_mut(index) {
            *place = Some(slot);
        }
        result
    }

    fn slot(&self, index: usize) -> Slot {
        let signer = Signer::new(&self.url.endpoint.region, "s3");
        Slot { wire: HttpTransport::new(self.destination.clone(), index), signer }
    }

    /// Takes a connection slot, which its request gives back.
    fn take(&self, index: usize) -> Slot {
        let mut slots = self.slots.borrow_mut();
        while slots.len() <= index {
            slots.push(None);
        }
        slots[index].take().unwrap_or_else(|| self.slot(index))
    }

    async fn exchange(&self, slot: &mut Slot, call: &CheckCall) -> Result<Answer, Failure> {
        let refused = |text: &str| Failure::new(ErrorClass::Connect, text.to_string(), Timings::default());
        let prepared = self.prepare(&mut slot.signer, call).map_err(refused)?;
        let sending = Sending { bytes: call.bytes(), idempotent: call.retry == Retry::Temporary };
        let mut timings = Timings { start_ns: now_ns(), ..Timings::default() };
        let sent = slot.wire.send(prepared, sending, &mut timings).await;
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(Unsent::Failed(failure)) => return Err(failure),
            Err(Unsent::ConnectionClosed) => {
                let prepared = self.prepare(&mut slot.signer, call).map_err(refused)?;
                slot.wire.send_on_new_connection(prepared, sending, &mut timings).await?
            }
        };
        let mut reading = Reading { answer: &mut answer, timings: &mut timings, observer: &mut Ignore };
        let body = reading.collect(MAX_BODY).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = answer.head.fields().map(|(name, value)| (text(name), text(value))).collect();
        let status = answer.head.status();
        let error = match status {
            200..=299 => S3Error::inside_success("", &body),
            _ => Some(S3Error::parse(status, "", &body)),
        };
        slot.wire.keep(answer);
        let code = error.map_or(String::new(), |error| error.code);
        Ok(Answer { status, headers, body, code })
    }

    /// Builds and signs a request.
    fn prepare(&self, signer: &mut Signer, call: &CheckCall) -> Result<Prepared, &'static str> {
        let credentials = self.source.as_ref().map(CredentialSource::current);
        let credentials = credentials.as_deref();
        let mut path = String::new();
        self.url.endpoint.path_into(&mut path, &call.key);
        let mut headers = call.headers.clone();
        let authority = &self.url.endpoint.authority;
        if let (Some(age_s), Some(credentials)) = (call.presigned, credentials) {
            let second = wall_now().as_second() - age_s;
            let extras = (&call.query[..], &[][..]);
            let query =
                signer.presign_at(credentials, second, call.method, authority, &path, extras, PRESIGNED_S);
            let mut head = HeadWriter::new(call.method, &path, &query)?;
            head.field("host", authority.as_bytes())?;
            for (name, value) in &headers {
                head.field(name, value.as_bytes())?;
            }
            return Ok(self.finish(head, call));
        }
        let query = canonical_query(&call.query);
        let mut head = HeadWriter::new(call.method, &path, &query)?;
        head.field("host", authority.as_bytes())?;
        let payload = self.payload(call);
        if let Some(framing) = &call.framing {
            headers.push(("content-encoding", "aws-chunked".into()));
            headers.push(("x-amz-decoded-content-length", call.bytes().to_string()));
            if matches!(framing, Framing::Trailer(_)) {
                headers.push(("x-amz-trailer", Algorithm::Crc32.header().into()));
            }
        }
        headers.push(("x-amz-content-sha256", payload.clone()));
        if let Some(token) = credentials.and_then(|credentials| credentials.session_token.clone()) {
            headers.push(("x-amz-security-token", token));
        }
        headers.push(("host", authority.clone()));
        headers.sort_unstable();
        let mut chunks = None;
        if let Some(credentials) = credentials {
            let signed: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let done = signer.sign(credentials, call.method, &path, &query, &signed, &payload);
            head.field("authorization", done.authorization.as_bytes())?;
            head.field("x-amz-date", done.date_time.as_bytes())?;
            if call.framing.is_some() && payload != UNSIGNED_TRAILER {
                chunks = Some(self.chunk_signer(credentials, done.date_time, done.authorization));
            }
        }
        for (name, value) in headers.iter().filter(|(name, _)| *name != "host") {
            head.field(name, value.as_bytes())?;
        }
        let Some(framing) = &call.framing else { return Ok(self.finish(head, call)) };
        let body = framed(&call.body.0, framing, chunks);
        head.length(body.len() as u64);
        Ok(head.finish(false, Payload::whole(body.into())))
    }

    fn chunk_signer(&self, credentials: &Credentials, date_time: &str, authorization: &str) -> ChunkSigner {
        let (date, region) = (&date_time[..8], &self.url.endpoint.region);
        ChunkSigner {
            key: derive_key(credentials.secret_key(), date, region, "s3"),
            date_time: date_time.to_string(),
            scope: format!("{date}/{region}/s3/aws4_request"),
            previous: authorization.rsplit("Signature=").next().unwrap_or_default().to_string(),
        }
    }

    /// Ends a request with its body.
    fn finish(&self, mut head: HeadWriter, call: &CheckCall) -> Prepared {
        let (piece, times) = call.body.clone();
        if times > 0 {
            head.length(call.bytes());
        }
        let payload = match times {
            0 => Payload::empty(),
            1 => Payload::whole(piece),
            _ => {
                let mut left = times;
                let pieces = std::iter::from_fn(move || {
                    left = left.checked_sub(1)?;
                    Some(piece.clone())
                });
                Payload::pieces(call.bytes(), Box::new(pieces))
            }
        };
        head.finish(call.method == "HEAD", payload)
    }

    /// Returns the value of `x-amz-content-sha256`.
    fn payload(&self, call: &CheckCall) -> String {
        let is_protected = self.url.endpoint.tls || self.source.is_none();
        match call.framing {
            Some(Framing::Signed) => return SIGNED_CHUNKS.into(),
            // SDKs sign the chunks if the connection does not protect them.
            Some(Framing::Trailer(_)) if is_protected => return UNSIGNED_TRAILER.into(),
            Some(Framing::Trailer(_)) => return SIGNED_TRAILER.into(),
            None => {}
        }
        match () {
            () if call.bytes() == 0 => EMPTY_SHA256.into(),
            () if call.body.1 > 1 || self.url.payload == PayloadSigning::Unsigned => UNSIGNED_PAYLOAD.into(),
            () => hex(&sha256(&call.body.0)),
        }
    }

    fn short(&self, key: &str) -> String {
        let prefix = self.prefix.borrow();
        let short = key.strip_prefix(prefix.as_str()).unwrap_or(key);
        if short.is_empty() { "the bucket".into() } else { format!("{short:?}") }
    }

    fn remember(&self, client: usize, call: &CheckCall, start: u64, result: &Result<Answer, Failure>) {
        let end = now_ns();
        let began = *self.began_ns.borrow_mut().get_or_insert(start);
        let mut trace = self.trace.borrow_mut();
        if trace.len() >= MAX_EXCHANGES {
            return;
        }
        let mut request = format!("{} {}", call.method, self.short(&call.key));
        for (name, value) in &call.query {
            let value = value.replace(self.prefix.borrow().as_str(), "");
            request += &if value.is_empty() { format!(" {name}") } else { format!(" {name}={value}") };
        }
        for (name, value) in &call.headers {
            request += &format!(" {name}: {}", value.chars().take(80).collect::<String>());
        }
        if call.presigned.is_some() {
            request += " (presigned)";
        }
        if call.bytes() > 0 && call.method != "POST" {
            request += &format!(", {} bytes", call.bytes());
        }
        let answer = match result {
            Ok(answer) => {
                let etag = Some(answer.etag()).filter(|etag| !etag.is_empty());
                let etag = etag.map_or(String::new(), |etag| format!(", ETag {etag}"));
                let bytes = match answer.body.len() {
                    0 => String::new(),
                    _ if !answer.code.is_empty() => String::new(),
                    bytes => format!(", {bytes} bytes"),
                };
                format!("{}{etag}{bytes}", answer.outcome())
            }
            Err(failure) => format!("{}: {}", failure.class, failure.message),
        };
        let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / MILLISECOND as f64;
        trace.push(Exchange { client, at_ms: ms(began, start), took_ms: ms(start, end), request, answer });
    }
}

/// Value of `x-amz-content-sha256` for signed chunks without a trailer.
const SIGNED_CHUNKS: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
/// Value of `x-amz-content-sha256` for chunks without signatures and a trailer.
const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
/// Value of `x-amz-content-sha256` for signed chunks and a trailer.
const SIGNED_TRAILER: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";

/// Returns content as an `aws-chunked` body of one chunk, with its trailer if it has one.
fn framed(content: &Bytes, framing: &Framing, mut signer: Option<ChunkSigner>) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 512);
    let chunks = [&content[..]].into_iter().filter(|data| !data.is_empty());
    for data in chunks.chain([&b""[..]]) {
        out.extend_from_slice(format!("{:x}", data.len()).as_bytes());
        if let Some(signer) = &mut signer {
            out.extend_from_slice(format!(";chunk-signature={}", signer.chunk(&sha256(data))).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(data);
        out.extend_from_slice(if data.is_empty() { b"" } else { &b"\r\n"[..] });
    }
    if let Framing::Trailer(crc32) = framing {
        let line = format!("{}:{crc32}", Algorithm::Crc32.header());
        out.extend_from_slice(format!("{line}\r\n").as_bytes());
        if let Some(signer) = signer {
            let signature = signer.trailer(&format!("{line}\n"));
            out.extend_from_slice(format!("x-amz-trailer-signature:{signature}\r\n").as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Waits 40 ms after the first attempt, and twice as long after each further attempt.
async fn pause(attempt: u32) {
    if let Ok(mut timer) = Timer::new() {
        let _ = timer.until(now_ns() + ((20 * MILLISECOND) << attempt)).await;
    }
}
