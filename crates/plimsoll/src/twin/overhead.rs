//! The time that a client on this host measures beyond a delay that the server adds.

use std::sync::Arc;

use crate::clients::batch::{Batch, Operation};
use crate::clients::own::phase;
use crate::session::RunError;
use crate::session::embedded::EmbeddedServer;
use crate::session::one_phase::{Timeline, run_phase};
use crate::session::runtime::block_on;
use plimsoll_base::clock::now_ns;
use plimsoll_engine::driver::Control;
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_engine::store::{Ignore, Request};

/// Number of measured reads.
const READS: u64 = 400;
/// Delay that the server adds, in milliseconds, and as `--inject` has it.
const DELAY: (f64, &str) = (1.0, "latency=1ms");

/// Measures reads of 1 KiB, one at a time, on a server on the loopback interface that delays each answer by a
/// millisecond. Returns the median of the service times beyond it, in nanoseconds.
///
/// # Errors
/// [`RunError::Store`] if the server does not start or answer.
pub fn measure() -> Result<u64, RunError> {
    let server = EmbeddedServer::start(&["--inject", DELAY.1])?;
    let store = server.store("embedded:")?;
    let space = KeySpace::of_run(store.prefix(), &RunId::generate());
    let created = block_on(store.connection(0).execute(Request::CreateBucket, &mut Ignore))?;
    created.map_err(RunError::store)?;
    let control = Arc::new(Control::default());
    let timeline = Timeline { repeat: 0, seed: 0, origin_ns: now_ns(), control: &control };
    let mut median_ms = None;
    for (operation, concurrency) in [(Operation::Put, 16), (Operation::Get, 1)] {
        let batch = Batch { operation, objects: READS, bytes: 1024, concurrency, seed: 0 };
        let ran = run_phase(&store, &space, phase(&batch)?, timeline, None)?;
        median_ms = ran.windows.first().and_then(|window| window.service_ms.p50);
    }
    let median_ms =
        median_ms.ok_or_else(|| RunError::store("the overhead of this host cannot be measured"))?;
    Ok(((median_ms - DELAY.0).max(0.0) * 1e6) as u64)
}
