//! A read-only store behind a URL: a public bucket, a CDN, an edge cache or a presigned URL.
//!
//! Responses are classified by the status that caches on the path report ([`cache_status`]). Redirects are not
//! followed, because each would add a second request to the time of an operation.

use std::ops::Range;
use std::sync::Arc;

use hyper::header::{HOST, HeaderName, HeaderValue, RANGE};

use super::http::cache_status::cache_status;
use super::http::reading::{Reading, SHORT_BODY};
use super::http::{
    Destination, HttpTransport, OpenError, Prepared, Route, Sending, Unsent, payload_of, target_of,
};
use super::{
    Capabilities, Connection, Description, ErrorClass, Failure, Local, Observer, Reply, Request, Store,
    Timings,
};
use plimsoll_base::clock::now_ns;
use plimsoll_base::net::encode::encode_path;
use plimsoll_recorder::store_facts::RelayFacts;
use plimsoll_s3::error::S3Error;
use plimsoll_s3::url::web::WebUrl;

/// A read-only store behind a URL.
pub struct WebStore {
    url: Arc<WebUrl>,
    destination: Destination,
}

impl WebStore {
    /// Resolves the host and prepares TLS, without connecting.
    ///
    /// # Errors
    /// Returns an [`OpenError`] if the host does not resolve or TLS cannot be set up.
    pub fn open(url: WebUrl, route: Route<'_>) -> Result<WebStore, OpenError> {
        let destination = target_of(&url.host, url.port, url.tls, route)?;
        Ok(WebStore { url: Arc::new(url), destination })
    }
}

impl Store for WebStore {
    fn describe(&self) -> Description {
        let scheme = if self.url.tls { "https" } else { "http" };
        Description {
            url: self.url.redacted.clone(),
            provider: "web".into(),
            endpoint: format!("{scheme}://{}", self.url.authority),
            addresses: self.destination.addresses(),
            signing: if self.url.query.is_empty() { "none" } else { "in the URL query" }.into(),
        }
    }

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        Box::new(WebConnection {
            url: Arc::clone(&self.url),
            wire: HttpTransport::new(self.destination.clone(), index),
        })
    }

    fn relayed(&self) -> Option<RelayFacts> {
        self.destination.seen()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            copies: false,
            writes: false,
            lists: false,
            start_after: false,
            multipart: false,
            ..Capabilities::default()
        }
    }

    fn only_object(&self) -> Option<&str> {
        (!self.url.path.ends_with('/')).then_some("")
    }
}

/// A connection slot of the host.
struct WebConnection {
    url: Arc<WebUrl>,
    wire: HttpTransport,
}

impl WebConnection {
    fn prepare(&self, head: bool, key: &str, range: Option<&Range<u64>>) -> Result<Prepared, String> {
        let mut target = format!("{}{}", self.url.path, encode_path(key));
        if !self.url.query.is_empty() {
            target.push('?');
            target.push_str(&self.url.query);
        }
        let mut request = hyper::Request::new(payload_of(None));
        *request.method_mut() = if head { hyper::Method::HEAD } else { hyper::Method::GET };
        *request.uri_mut() =
            hyper::Uri::try_from(target).map_err(|e| format!("the key does not give a valid URL: {e}"))?;
        let value = |text: &str| HeaderValue::from_str(text).map_err(|e| e.to_string());
        request.headers_mut().insert(HOST, value(&self.url.authority)?);
        // Requests the content as stored, without compression.
        request
            .headers_mut()
            .insert(HeaderName::from_static("accept-encoding"), HeaderValue::from_static("identity"));
        if let Some(range) = range {
            request.headers_mut().insert(RANGE, value(&format!("bytes={}-{}", range.start, range.end - 1))?);
        }
        Ok(request.into())
    }

    async fn read(
        &mut self,
        head: bool,
        key: &str,
        range: Option<Range<u64>>,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let invalid_request = |message| {
            let now = now_ns();
            let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
            Failure::new(ErrorClass::Response("400 InvalidRequest".into()), message, timings)
        };
        let prepared = self.prepare(head, key, range.as_ref()).map_err(invalid_request)?;
        let mut timings = Timings { start_ns: now_ns(), ..Timings::default() };
        observer.started(timings.start_ns);
        let sending = Sending { bytes: 0, idempotent: true };
        let mut answer = match self.wire.send(prepared, sending, &mut timings).await {
            Ok(answer) => answer,
            Err(Unsent::Failed(failure)) => return Err(failure),
            Err(Unsent::ConnectionClosed) => {
                let again = self.prepare(head, key, range.as_ref()).map_err(invalid_request)?;
                self.wire.send_on_new_connection(again, sending, &mut timings).await?
            }
        };
        let status = answer.head.parts().status;
        let mut reading = Reading { answer: &mut answer, timings: &mut timings, observer };
        reading.begin();
        let mut reply =
            Reply { cache: cache_status(&reading.answer.head.parts().headers), ..Reply::default() };
        let result = if !status.is_success() {
            let text = reading.excerpt(SHORT_BODY).await?;
            Err(refused(&mut reading, &text))
        } else if range.is_some() && status.as_u16() != 206 {
            // A whole object instead of a range would distort the measurement.
            Err(reading.answered(
                format!("{} NoRange", status.as_u16()),
                "the server does not support range requests".into(),
            ))
        } else if head {
            reply.size = reading.answer.head.text("content-length").and_then(|v| v.parse().ok());
            reading.collect(0).await.map(|_| 0)
        } else {
            reading.stream(None).await
        };
        reading.end();
        self.wire.keep(answer);
        reply.bytes = result?;
        reply.timings = timings;
        Ok(reply)
    }
}

/// Converts an error response to a failure.
fn refused(reading: &mut Reading<'_>, text: &[u8]) -> Failure {
    let status = reading.answer.head.parts().status;
    // If the URL leads to S3, the body is an XML error document.
    let error = S3Error::parse(status.as_u16(), "", text);
    if !error.code.is_empty() && !status.is_redirection() {
        return reading.answered(error.class(), error.message);
    }
    let code = match status.as_u16() {
        300..=399 => "Redirect",
        403 => "AccessDenied",
        404 => "NoSuchKey",
        416 => "InvalidRange",
        _ => "",
    };
    let to = reading.answer.head.text("location").map(|to| to.split('?').next().unwrap_or(to).to_string());
    let message = match to.filter(|_| status.is_redirection()) {
        Some(to) => format!("redirected to {to}: Plimsoll does not follow redirects; use that URL instead"),
        None => {
            let text = String::from_utf8_lossy(&text[..text.len().min(200)]).replace(['\n', '\r'], " ");
            if text.trim().is_empty() { "no message".into() } else { text.trim().to_string() }
        }
    };
    let class = format!("{} {code}", status.as_u16()).trim_end().to_string();
    reading.answered(class, message)
}

impl Connection for WebConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        match request {
            Request::Get { key, range } => Box::pin(self.read(false, key, range, observer)),
            Request::Head { key } => Box::pin(self.read(true, key, None, observer)),
            // Requests a single object. For a directory, any HTTP response shows that the host is reachable.
            Request::CheckBucket => Box::pin(async {
                let directory = self.url.path.ends_with('/');
                if self.url.is_presigned() {
                    // The signature is valid for GET, not for HEAD.
                    return match self.read(false, "", Some(0..1), observer).await {
                        Err(failure) if failure.is_code("NoRange") || failure.status() == Some(416) => {
                            Ok(Reply { timings: failure.timings, ..Reply::default() })
                        }
                        result => result,
                    };
                }
                match self.read(true, "", None, observer).await {
                    Err(failure) if directory && failure.status().is_some() => {
                        Ok(Reply { timings: failure.timings, ..Reply::default() })
                    }
                    result => result,
                }
            }),
            _ => Box::pin(async {
                let now = now_ns();
                let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
                let class = ErrorClass::Response("405 MethodNotAllowed".into());
                Err(Failure::new(class, "a web URL is read-only", timings))
            }),
        }
    }

    fn address(&self) -> Option<usize> {
        self.wire.address()
    }
}
