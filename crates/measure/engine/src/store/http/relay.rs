//! Requests through a relay: a small program in another place, such as a Cloudflare Worker or an AWS Lambda function,
//! that sends each request to the store and reports how long it took there (`edge/`).
//!
//! A request is signed here and travels to the relay as a POST: URL, method and headers as `x-plimsoll-...` headers,
//! its body as the body. The relay returns status and headers of the store in the same form. The credentials never
//! leave this process; the relay sees a signature that is valid for one request and a few minutes. An operation
//! starts when its request is sent to the relay and takes as long as the relay measured. Its
//! latency therefore excludes the network path between this process and the relay.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use http::{Request, request};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};

use super::{OpenError, Route, target_of};
use plimsoll_base::net::connection::ResolvedEndpoint;
use plimsoll_base::net::http1::head::Head;
use plimsoll_base::net::http1::outgoing::Payload;
use plimsoll_recorder::store_facts::RelayFacts;

/// Environment variable that contains the token of relays.
pub const TOKEN_VARIABLE: &str = "PLIMSOLL_RELAY_TOKEN";

/// Path of the relay's interface, below the path of its URL.
const PATH: &str = "v1/fetch";
/// Prefix of the headers that carry headers of the store's requests and responses.
const CARRIED: &str = "x-plimsoll-h-";
/// Maximum length in bytes of the name of a place.
const MAX_PLACE: usize = 64;
/// Maximum number of places that are counted separately.
const MAX_PLACES: usize = 1000;

/// A relay that sends requests to stores.
pub struct Relay {
    target: ResolvedEndpoint,
    authority: HeaderValue,
    path: hyper::Uri,
    token: HeaderValue,
    seen: Mutex<RelayFacts>,
}

/// Durations of an operation, measured by the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relayed {
    /// Time until the response began, in nanoseconds.
    pub first_byte_ns: u64,
    /// Time until the whole response had arrived, in nanoseconds.
    pub total_ns: u64,
}

impl Relay {
    /// Resolves the host of a relay and prepares TLS, without connecting. `token` is the bearer token that the relay
    /// expects.
    ///
    /// # Errors
    /// If the URL or the token is invalid, the host does not resolve, or TLS cannot be set up.
    pub fn open(url: &str, token: &str, ca_bundle: Option<&Path>) -> Result<Relay, OpenError> {
        let invalid = |fault: &str| OpenError::Relay(format!("'{url}' {fault}"));
        let uri: hyper::Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
        let authority = uri.authority().filter(|a| !a.as_str().contains('@'));
        let authority = authority.ok_or_else(|| invalid("has no host, such as https://host"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("must begin with https:// or http://")),
        };
        if uri.query().is_some() {
            return Err(invalid("must not have a query"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let mut token = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
            OpenError::Relay(format!("{TOKEN_VARIABLE} contains characters that no header can have"))
        })?;
        token.set_sensitive(true);
        Ok(Relay {
            target: target_of(host, port, tls, Route { ca_bundle, relay: None })?.target,
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| invalid("has an invalid host"))?,
            path: format!("{}/{PATH}", uri.path().trim_end_matches('/'))
                .parse()
                .map_err(|_| invalid("has an invalid path"))?,
            token,
            seen: Mutex::default(),
        })
    }

    /// Returns the addresses of the relay.
    pub fn target(&self) -> &ResolvedEndpoint {
        &self.target
    }

    /// Returns the properties of the responses so far.
    pub fn seen(&self) -> RelayFacts {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Converts a request to a store into a request to the relay. `tls` is true if the store uses TLS.
    pub(super) fn wrap(&self, request: Request<Payload>, tls: bool) -> Request<Payload> {
        let (request::Parts { method, uri, headers, .. }, body) = request.into_parts();
        let scheme = if tls { "https" } else { "http" };
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let mut wrapped = HeaderMap::with_capacity(headers.len() + 5);
        wrapped.insert(HOST, self.authority.clone());
        wrapped.insert(AUTHORIZATION, self.token.clone());
        let mut insert = |name: &str, value: HeaderValue| {
            if let Ok(name) = HeaderName::try_from(name) {
                wrapped.insert(name, value);
            }
        };
        // Both were parts of a valid request, so they are valid in a header.
        if let Ok(url) = HeaderValue::from_str(&format!("{scheme}://{host}{uri}")) {
            insert("x-plimsoll-url", url);
        }
        if let Ok(method) = HeaderValue::from_str(method.as_str()) {
            insert("x-plimsoll-method", method);
        }
        for (name, value) in headers.iter().filter(|(name, _)| **name != HOST && **name != CONTENT_LENGTH) {
            insert(&format!("{CARRIED}{name}"), value.clone());
        }
        if body.is_empty() {
            insert("content-length", HeaderValue::from_static("0"));
        }
        let mut prepared = hyper::Request::new(body);
        *prepared.method_mut() = hyper::Method::POST;
        *prepared.uri_mut() = self.path.clone();
        *prepared.headers_mut() = wrapped;
        prepared
    }

    /// Replaces status and headers of a response of the relay by those of the store, and returns the durations. Returns
    /// `None` and leaves the response as it is if the relay itself refused the request.
    pub(super) fn unwrap(&self, head: &mut Head) -> Option<Relayed> {
        let text = |name: &str| head.text(name);
        let number = |name: &str| text(name).and_then(|value| value.parse::<u64>().ok());
        let status = text("x-plimsoll-status")
            .and_then(|status| http::StatusCode::from_bytes(status.as_bytes()).ok())?;
        let (first_us, total_us) = (number("x-plimsoll-first-byte-us")?, number("x-plimsoll-total-us")?);
        self.count(text("x-plimsoll-place").unwrap_or_default(), first_us, total_us);
        let own = head.parts().headers;
        let mut headers = HeaderMap::with_capacity(own.len());
        for (name, value) in &own {
            if let Some(name) = name.as_str().strip_prefix(CARRIED)
                && let Ok(name) = HeaderName::try_from(name)
            {
                headers.append(name, value.clone());
            }
        }
        *head = Head::from_parts(status, &headers);
        Some(Relayed {
            first_byte_ns: first_us.saturating_mul(1000),
            total_ns: total_us.saturating_mul(1000).max(first_us.saturating_mul(1000)),
        })
    }

    fn count(&self, place: &str, first_us: u64, total_us: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.step_us = divisor(divisor(seen.step_us, first_us), total_us);
        let place: String = place.chars().filter(|c| c.is_ascii_graphic()).take(MAX_PLACE).collect();
        if seen.places.len() < MAX_PLACES || seen.places.contains_key(&place) {
            *seen.places.entry(place).or_default() += 1;
        }
    }
}

/// Returns the greatest common divisor (Euclid's algorithm).
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay() -> Relay {
        Relay::open("http://127.0.0.1:8787/edge/", "a token of a relay", None).unwrap()
    }

    #[test]
    fn requests_keep_their_url_method_and_headers() {
        let request = hyper::Request::builder()
            .method("PUT")
            .uri("/bucket/a%20b?x=1")
            .header("host", "store.example")
            .header("content-length", "0")
            .header("authorization", "signature")
            .body(Payload::empty());
        let wrapped = relay().wrap(request.unwrap(), true);
        let header = |name: &str| wrapped.headers().get(name).map(|v| v.to_str().unwrap()).unwrap_or("-");
        assert_eq!((wrapped.method().as_str(), wrapped.uri().path()), ("POST", "/edge/v1/fetch"));
        assert_eq!(header("host"), "127.0.0.1:8787");
        assert_eq!(header("x-plimsoll-url"), "https://store.example/bucket/a%20b?x=1");
        assert_eq!(header("x-plimsoll-method"), "PUT");
        assert_eq!(header("x-plimsoll-h-authorization"), "signature");
        assert_eq!((header("authorization"), header("content-length")), ("Bearer a token of a relay", "0"));
        assert!(
            !format!("{:?}", wrapped.headers()).contains("a token of a relay"),
            "the token is not printed"
        );
    }

    #[test]
    fn responses_become_those_of_the_store_and_the_step_of_the_clock_is_found() {
        let relay = relay();
        let answer = |first: &str, total: &str| {
            let response = http::Response::builder()
                .header("x-plimsoll-status", "404")
                .header("x-plimsoll-first-byte-us", first)
                .header("x-plimsoll-total-us", total)
                .header("x-plimsoll-place", "FRA")
                .header("x-plimsoll-h-etag", "\"tag\"")
                .header("server", "relay");
            let parts = response.body(()).unwrap().into_parts().0;
            Head::from_parts(parts.status, &parts.headers)
        };
        let mut head = answer("2000", "5000");
        let relayed = relay.unwrap(&mut head);
        assert_eq!(relayed, Some(Relayed { first_byte_ns: 2_000_000, total_ns: 5_000_000 }));
        assert_eq!((head.status(), head.fields().count()), (404, 1));
        assert_eq!(head.text("etag"), Some("\"tag\""));
        relay.unwrap(&mut answer("4000", "9000"));
        let places = std::collections::BTreeMap::from([("FRA".to_string(), 2)]);
        assert_eq!(relay.seen(), RelayFacts { places, step_us: 1000 });
        let mut refused = Head::from_parts(http::StatusCode::OK, &HeaderMap::new());
        assert_eq!(relay.unwrap(&mut refused), None);
    }

    #[test]
    fn invalid_urls_are_refused() {
        for url in ["ftp://host", "https://", "worker.example", "https://h/?token=x", "https://me:hush@h"] {
            let error = Relay::open(url, "token", None).err().unwrap().to_string();
            assert!(error.contains("--relay"), "{error}");
        }
    }
}
