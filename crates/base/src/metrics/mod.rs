//! Metrics of a process. A Prometheus endpoint serves `GET /metrics` in OpenMetrics text format from a separate thread,
//! which is idle between scrapes; [`push`] sends live figures to collectors of OpenTelemetry ([`otlp`]) and InfluxDB
//! ([`influx`]).

pub mod influx;
pub mod otlp;
pub mod push;
pub mod sample;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Upper bounds of the latency buckets, in seconds: 1, 2 and 5 in each decade from 100 us to 50 s.
pub const LATENCY_EDGES_S: [f64; 18] = [
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0,
    50.0,
];

/// Media type of OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Pages besides `/metrics`: maps a path to a status and a text, or to `None` if there is no such page.
pub type Pages = Arc<dyn Fn(&str) -> Option<(u16, String)> + Send + Sync>;

/// Starts a thread that serves the metrics of `registry` on `address` until the process ends. Returns the bound
/// address.
///
/// # Errors
/// If the address cannot be bound, or the thread cannot be started.
pub fn listen(address: &str, registry: Arc<Registry>, pages: Option<Pages>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("metrics".into())
        .spawn(move || runtime.block_on(accept(listener, registry, pages)))?;
    Ok(bound)
}

async fn accept(listener: TcpListener, registry: Arc<Registry>, pages: Option<Pages>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let (registry, pages) = (Arc::clone(&registry), pages.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request: http::Request<Incoming>| {
                let answer = answer(&request, &registry, pages.as_ref());
                async move { Ok::<_, Infallible>(answer) }
            });
            // Ignore scrapers that disconnect.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(request: &http::Request<Incoming>, registry: &Registry, pages: Option<&Pages>) -> Response<Whole> {
    let plain = |status: StatusCode, text: String, kind: &'static str| {
        let mut response = Response::new(Whole(Some(Bytes::from(text))));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
        response
    };
    let page = pages.and_then(|pages| pages(request.uri().path()));
    if let (Some((status, text)), &Method::GET | &Method::HEAD) = (&page, request.method()) {
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return plain(status, text.clone(), "text/plain");
    }
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "not found; the metrics are at /metrics\n".into(), "text/plain");
    }
    if request.method() != Method::GET {
        let mut refused =
            plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; use GET\n".into(), "text/plain");
        refused.headers_mut().insert(ALLOW, http::HeaderValue::from_static("GET"));
        return refused;
    }
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => plain(StatusCode::OK, text, OPEN_METRICS),
        Err(e) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n"), "text/plain"),
    }
}

/// A response body of one buffer.
struct Whole(Option<Bytes>);

impl hyper::body::Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(hyper::body::Frame::data(bytes))))
    }
}
