//! The time that a client on this host measures beyond a delay that the server adds.

use std::sync::Arc;

use plimsoll_base::clock::now_ns;
use plimsoll_clients::clients::batch::{BatchOperation, OperationBatch};
use plimsoll_clients::clients::own::phase;
use plimsoll_emulator::twin::overhead::{Delayed, Overhead};
use plimsoll_engine::driver::Control;
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_engine::store::{Ignore, Request};
use plimsoll_session::RunError;
use plimsoll_session::embedded::EmbeddedServer;
use plimsoll_session::one_phase::{Timeline, run_phase};
use plimsoll_session::runtime::block_on;

/// Number of measured reads of a series: ten of them are beyond the 99th percentile.
const READS: u64 = 1000;
/// Number of series. The less disturbed one counts: a spread that only the start had would cut off the twin's tail.
const SERIES: usize = 2;
/// Delays that the server adds, in milliseconds, and as `--inject` has them; empty for none.
const DELAYS: [(f64, &str); 3] = [(0.0, ""), (0.1, "latency=100us"), (1.0, "latency=1ms")];

/// Measures reads of 1 KiB, one at a time, on servers on the loopback interface that delay each answer by some times.
/// Returns the medians and spreads of the service times beyond them.
///
/// # Errors
/// [`RunError::Store`] if a server does not start or answer.
pub fn measure() -> Result<Overhead, RunError> {
    let of = |(delay_ms, inject): (f64, &str)| {
        let [median_ms, p99_ms] = percentiles_ms(inject)?;
        let ns = |ms: f64| ms.max(0.0) * 1e6;
        let (overhead_ns, spread_ns) = (ns(median_ms - delay_ms), ns(p99_ms - median_ms));
        Ok(Delayed { median_ns: ns(median_ms), overhead_ns, spread_ns })
    };
    Ok(Overhead::new(DELAYS.into_iter().map(of).collect::<Result<_, RunError>>()?))
}

/// Returns the median and the 99th percentile of the service times at a server that injects these faults, in the series
/// with the lowest 99th percentile.
fn percentiles_ms(inject: &str) -> Result<[f64; 2], RunError> {
    let arguments: &[&str] = if inject.is_empty() { &[] } else { &["--inject", inject] };
    let server = EmbeddedServer::start(arguments)?;
    let store = server.store("embedded:")?;
    let space = KeySpace::of_run(store.prefix(), &RunId::generate());
    let created = block_on(store.connection(0).execute(Request::CreateBucket, &mut Ignore))?;
    created.map_err(RunError::store)?;
    let control = Arc::new(Control::default());
    let timeline = Timeline { repeat: 0, seed: 0, origin_ns: now_ns(), control: &control };
    let measured = |operation, concurrency| -> Result<Option<[f64; 2]>, RunError> {
        let batch = OperationBatch { operation, objects: READS, bytes: 1024, concurrency, seed: 0 };
        let ran = run_phase(&store, &space, phase(&batch)?, timeline, None)?;
        let service = ran.windows.first().map(|window| &window.service_ms);
        Ok(service.and_then(|service| Some([service.p50?, service.p99?])))
    };
    measured(BatchOperation::Put, 16)?;
    let series = (0..SERIES).map(|_| measured(BatchOperation::Get, 1)).collect::<Result<Vec<_>, _>>()?;
    let least = series.into_iter().flatten().min_by(|a, b| a[1].total_cmp(&b[1]));
    least.ok_or_else(|| RunError::store("the overhead of this host cannot be measured"))
}
