//! Metrics of a process. A Prometheus endpoint serves `GET /metrics` in OpenMetrics text format from a separate thread,
//! which is idle between scrapes; [`push`] sends live figures to collectors of OpenTelemetry ([`otlp`]) and InfluxDB
//! ([`influx`]).

pub mod influx;
pub mod otlp;
pub mod push;
pub mod sample;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::header::ALLOW;
use http::{Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::pages::{Page, PageRequest, serve};

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
    serve(address, "metrics", None, Arc::new(move |request| answer(request, &registry, pages.as_ref())))
}

fn answer(request: &PageRequest, registry: &Registry, pages: Option<&Pages>) -> Page {
    let page = pages.and_then(|pages| pages(&request.path));
    if let (Some((status, text)), &Method::GET | &Method::HEAD) = (&page, &request.method) {
        let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return Page::new(status, "text/plain", text.clone());
    }
    if request.path != "/metrics" {
        return Page::text(StatusCode::NOT_FOUND, "not found; the metrics are at /metrics\n");
    }
    if request.method != Method::GET {
        let refused = Page::text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; use GET\n");
        return Page { headers: vec![(ALLOW, "GET")], ..refused };
    }
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => Page::new(StatusCode::OK, OPEN_METRICS, text),
        Err(e) => Page::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")),
    }
}
