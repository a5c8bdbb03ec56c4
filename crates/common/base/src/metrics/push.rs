//! Sends the live figures of a run to a collector every ten seconds and at the end, from a separate thread.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Uri};

use super::sample::Sample;
use super::{influx, otlp};
use crate::net::fetch::fetch_blocking;

/// Time between two requests.
const PERIOD: Duration = Duration::from_secs(10);

/// Protocols of collectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// OpenTelemetry over HTTP in JSON.
    Otlp,
    /// Line protocol of InfluxDB.
    Influx,
}

/// A collector of metrics.
#[derive(Debug, Clone)]
pub struct Collector {
    protocol: Protocol,
    uri: Uri,
    /// Headers from the environment; they may contain secrets.
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Collector {
    /// Parses `otlp+http://host:4318` or `influx+http://host:8086/api/v2/write?org=o&bucket=b`; `https` works too. The
    /// secrets come from the environment: `OTEL_EXPORTER_OTLP_HEADERS` as `name=value,name=value`, and `INFLUX_TOKEN`.
    ///
    /// # Errors
    /// Describes the expected syntax.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Collector, String> {
        let example =
            "write otlp+http://host:4318 or influx+http://host:8086/api/v2/write?org=ORG&bucket=BUCKET";
        let (protocol, url) = match text.split_once('+') {
            Some(("otlp", url)) => (Protocol::Otlp, url),
            Some(("influx", url)) => (Protocol::Influx, url),
            _ => return Err(example.into()),
        };
        let uri: Uri = url.parse().map_err(|e| format!("{e}; {example}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(example.into());
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            let instead = "set OTEL_EXPORTER_OTLP_HEADERS or INFLUX_TOKEN instead";
            return Err(format!("the URL contains a user or password; {instead}"));
        }
        let bare = uri.path() == "/" && uri.query().is_none();
        let uri = match protocol {
            Protocol::Otlp if bare => {
                let whole = format!("{}/v1/metrics", url.trim_end_matches('/'));
                whole.parse().map_err(|e| format!("{e}; {example}"))?
            }
            Protocol::Influx if bare => {
                return Err(format!("the path of the database is missing; {example}"));
            }
            _ => uri,
        };
        Ok(Collector { protocol, uri, headers: headers(protocol, variable)? })
    }

    fn request(&self, sample: &Sample) -> Result<Request<Bytes>, String> {
        let (kind, body) = match self.protocol {
            Protocol::Otlp => ("application/json", otlp::request(sample)),
            Protocol::Influx => ("text/plain; charset=utf-8", influx::lines(sample)),
        };
        let mut request = Request::post(self.uri.clone()).header(CONTENT_TYPE, kind);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Bytes::from(body)).map_err(|e| e.to_string())
    }

    /// Sends a sample.
    ///
    /// # Errors
    /// If the collector cannot be reached or answers with an error.
    fn send(&self, sample: &Sample) -> Result<(), String> {
        let answer = fetch_blocking(self.request(sample)?)?;
        if answer.status().is_success() {
            return Ok(());
        }
        let body: String = String::from_utf8_lossy(answer.body()).chars().take(200).collect();
        Err(format!("the collector answered {}: {}", answer.status(), body.trim()))
    }
}

/// Returns the headers that the environment gives.
fn headers(
    protocol: Protocol,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let secret = |name: &str, text: &str| {
        let mut value = HeaderValue::from_str(text).map_err(|_| format!("{name} is not a valid header"))?;
        value.set_sensitive(true);
        Ok::<HeaderValue, String>(value)
    };
    match protocol {
        Protocol::Influx => {
            let token = variable("INFLUX_TOKEN").filter(|token| !token.is_empty());
            let value = token.map(|token| secret("INFLUX_TOKEN", &format!("Token {token}"))).transpose()?;
            Ok(value.map(|value| (AUTHORIZATION, value)).into_iter().collect())
        }
        Protocol::Otlp => {
            let name = "OTEL_EXPORTER_OTLP_HEADERS";
            let text = variable(name).unwrap_or_default();
            let pair = |pair: &str| {
                let wrong = || format!("{name} must have the form name=value,name=value");
                let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
                let key: HeaderName = key.trim().to_ascii_lowercase().parse().map_err(|_| wrong())?;
                Ok((key, secret(name, value.trim())?))
            };
            text.split(',').filter(|pair| !pair.trim().is_empty()).map(pair).collect()
        }
    }
}

/// Sends samples until it is dropped, which sends the last one.
#[derive(Debug)]
pub struct Pusher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pusher {
    /// Starts the thread. It calls `report` with the first error and with the first success after an error.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        collector: Collector,
        sample: impl Fn() -> Sample + Send + 'static,
        report: impl Fn(&str) + Send + 'static,
    ) -> std::io::Result<Pusher> {
        let (stop, stopped) = channel::<()>();
        let work = move || {
            let mut failed = false;
            loop {
                let last = stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
                let sent = collector.send(&sample());
                match &sent {
                    Ok(()) if failed => report("the collector accepts metrics again"),
                    Err(e) if !failed => report(&format!("{e}; the run continues")),
                    _ => {}
                }
                failed = sent.is_err();
                if last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(work)?;
        Ok(Pusher { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_parsed_or_refused_and_keep_secrets_out_of_their_text() {
        let none = |_: &str| None;
        let path = |text| Collector::parse(text, none).unwrap().uri.to_string();
        assert_eq!(path("otlp+http://host:4318"), "http://host:4318/v1/metrics");
        assert_eq!(path("otlp+https://host/custom"), "https://host/custom");
        assert_eq!(
            path("influx+http://host:8086/api/v2/write?org=o&bucket=b"),
            "http://host:8086/api/v2/write?org=o&bucket=b"
        );
        for (text, expected) in [
            ("http://host", "write otlp+http://"),
            ("otlp+ftp://host", "write otlp+http://"),
            ("influx+http://host:8086", "the path of the database is missing"),
            ("otlp+http://user:secret@host", "contains a user or password"),
        ] {
            let message = Collector::parse(text, none).unwrap_err();
            assert!(message.contains(expected) && !message.contains("secret@"), "{text}: {message}");
        }
        let token = |name: &str| (name == "INFLUX_TOKEN").then(|| "top-secret".to_string());
        let collector = Collector::parse("influx+http://host/write", token).unwrap();
        assert!(!format!("{collector:?}").contains("top-secret"));
        let wrong = |_: &str| Some("no-equals-sign".to_string());
        let message = Collector::parse("otlp+http://host", wrong).unwrap_err();
        assert!(message.contains("name=value") && !message.contains("no-equals-sign"), "{message}");
    }
}
