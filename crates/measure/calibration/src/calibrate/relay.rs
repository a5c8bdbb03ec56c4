//! Compares durations that a relay measured with the true ones in the timing log of a server with known latencies.
//!
//! A duration at a relay contains the network path between relay and server and the overhead of its platform, which
//! the server's log does not contain. What they add should not depend on the latency: the constant is the median of the
//! differences of all latencies, and the errors are what remains.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::DetectedPauses;
use super::true_values::quantile_ms;
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::store::body::Body;
use plimsoll_engine::store::http::Route;
use plimsoll_engine::store::http::relay::Relay;
use plimsoll_engine::store::{Ignore, Request, Store};
use plimsoll_server::timing_log::read;
use plimsoll_session::embedded::EmbeddedServer;
use plimsoll_session::error::RunError;
use plimsoll_session::runtime::block_on;

/// Bound of the error of the median after the correction, in milliseconds.
pub const P50_BOUND_MS: f64 = 1.0;
/// Bound of the error of the 99th percentile after the correction, in milliseconds.
pub const P99_BOUND_MS: f64 = 5.0;

/// Settings of the calibration of a relay.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// Address and port on which the server listens.
    pub listen: String,
    /// URL of the server as the relay reaches it.
    pub address: String,
    /// Latencies of the server in milliseconds.
    pub delays_ms: Vec<u64>,
    /// Number of measured operations for each latency.
    pub samples: usize,
}

/// Errors of one latency. All values are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelayRow {
    /// Latency that the server injected.
    pub delay_ms: u64,
    /// Median of the true service times, from the server's log.
    pub true_p50_ms: f64,
    /// 99th percentile of the true service times.
    pub true_p99_ms: f64,
    /// Median of the measured durations.
    pub p50_ms: f64,
    /// 99th percentile of the measured durations.
    pub p99_ms: f64,
    /// Measured minus true median, less the constant.
    pub p50_error_ms: f64,
    /// Measured minus true 99th percentile, less the constant.
    pub p99_error_ms: f64,
}

impl RelayRow {
    /// Returns true if both errors are within their bounds.
    pub fn within(&self) -> bool {
        self.p50_error_ms.abs() <= P50_BOUND_MS && self.p99_error_ms.abs() <= P99_BOUND_MS
    }
}

/// Result of the calibration of a relay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelayCalibration {
    /// Median of the network path to the server and the platform's overhead, in milliseconds.
    pub constant_ms: f64,
    /// Step of the relay's clock in microseconds, as far as the durations show it.
    pub clock_step_us: u64,
    /// One entry per latency.
    pub rows: Vec<RelayRow>,
}

/// Percentiles of one latency: true median, true 99th percentile, measured median, measured 99th percentile.
type Quartet = [f64; 4];

/// Calibrates a relay with servers of known latencies.
///
/// # Errors
/// If a server cannot be started, the relay does not reach it, or its log cannot be read.
pub fn calibrate_relay(relay: &Arc<Relay>, settings: &RelaySettings) -> Result<RelayCalibration, RunError> {
    let mut rows = Vec::new();
    for delay_ms in &settings.delays_ms {
        let [true_p50_ms, true_p99_ms, p50_ms, p99_ms] = quietest(relay, settings, *delay_ms)?;
        rows.push(RelayRow {
            delay_ms: *delay_ms,
            true_p50_ms,
            true_p99_ms,
            p50_ms,
            p99_ms,
            p50_error_ms: p50_ms - true_p50_ms,
            p99_error_ms: p99_ms - true_p99_ms,
        });
    }
    let mut differences: Vec<f64> = rows.iter().map(|row| row.p50_error_ms).collect();
    differences.sort_by(f64::total_cmp);
    let middle = |at: usize| differences.get(at).copied().unwrap_or_default();
    let constant_ms = (middle(differences.len().saturating_sub(1) / 2) + middle(differences.len() / 2)) / 2.0;
    for row in &mut rows {
        row.p50_error_ms -= constant_ms;
        row.p99_error_ms -= constant_ms;
    }
    Ok(RelayCalibration { constant_ms, clock_step_us: relay.seen().step_us, rows })
}

/// Number of attempts to measure a latency while pauses disturb the server's machine.
const ATTEMPTS: u32 = 3;
/// Share of a measurement that pauses may cover; above it, the measurement is repeated.
const MAX_PAUSED_SHARE: f64 = 0.01;

/// Measures one latency up to [`ATTEMPTS`] times, and returns the measurement with the fewest pauses.
fn quietest(relay: &Arc<Relay>, settings: &RelaySettings, delay_ms: u64) -> Result<Quartet, RunError> {
    let mut best = measure(relay, settings, delay_ms)?;
    for _ in 1..ATTEMPTS {
        if best.1 <= MAX_PAUSED_SHARE {
            break;
        }
        let next = measure(relay, settings, delay_ms)?;
        if next.1 < best.1 {
            best = next;
        }
    }
    Ok(best.0)
}

/// A temporary file that is deleted when this value is dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Measures one latency. Returns the percentiles, and the share of the time that pauses of the server's machine cover.
fn measure(relay: &Arc<Relay>, settings: &RelaySettings, delay_ms: u64) -> Result<(Quartet, f64), RunError> {
    let name = format!("plimsoll-timing-log-{}-relay-{delay_ms}.csv", std::process::id());
    let log = Temporary(std::env::temp_dir().join(name));
    let latency = format!("latency={delay_ms}ms");
    let mut arguments = vec!["--timings", log.0.to_str().unwrap_or_default()];
    if delay_ms > 0 {
        arguments.extend(["--inject", &latency]);
    }
    let server = EmbeddedServer::start_on(&settings.listen, &arguments)?;
    let store =
        server.store_at(&settings.address, "calibrate", Route { ca_bundle: None, relay: Some(relay) })?;
    let mut durations = block_on(sample(store.as_ref(), settings.samples))??;
    server.stop();
    let entries = read(&log.0).map_err(RunError::store)?;
    let served =
        entries.requests.iter().filter(|e| e.method == "GET" && e.last_byte_ns > 0 && e.status < 300);
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    let served = served.inspect(|e| {
        (first_ns, last_ns) = (first_ns.min(e.received_ns), last_ns.max(e.last_byte_ns));
    });
    let mut truth: Vec<u64> = served.map(|e| e.last_byte_ns.saturating_sub(e.received_ns)).collect();
    // The first operations open the relay's connection to the server.
    truth.drain(..truth.len().saturating_sub(settings.samples));
    let paused = DetectedPauses::new(&entries.pauses, first_ns.min(last_ns), last_ns).share;
    let of = |values: &mut Vec<u64>, q| quantile_ms(values, q).unwrap_or_default();
    let quartet =
        [of(&mut truth, 0.5), of(&mut truth, 0.99), of(&mut durations, 0.5), of(&mut durations, 0.99)];
    Ok((quartet, paused))
}

/// Number of operations before the measured ones.
const WARM_UP: usize = 20;

/// Reads an object one time after another, and returns the durations in nanoseconds.
async fn sample(store: &dyn Store, samples: usize) -> Result<Vec<u64>, RunError> {
    let mut background = Background::new(store);
    let failed = |failure: plimsoll_engine::store::Failure| {
        RunError::store(format!("the calibration failed: {failure}"))
    };
    let key = "calibration";
    background.send(Request::CreateBucket, &mut Ignore).await.map_err(failed)?;
    let body = Body::Whole(bytes::Bytes::from_static(&[7; 1024]));
    background.send(Request::Put { key, body }, &mut Ignore).await.map_err(failed)?;
    let mut durations = Vec::with_capacity(samples);
    for number in 0..WARM_UP + samples {
        let reply = background.send(Request::Get { key, range: None }, &mut Ignore).await.map_err(failed)?;
        if number >= WARM_UP {
            durations.push(reply.timings.end_ns - reply.timings.start_ns);
        }
    }
    Ok(durations)
}
