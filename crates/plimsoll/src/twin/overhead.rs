//! The time that a client on this host measures beyond a delay that the server adds.

use bytes::Bytes;

use crate::session::RunError;
use crate::session::embedded::{EMBEDDED_BUCKET, EmbeddedServer};
use plimsoll_engine::store::{Body, Failure, Ignore, Reply, Request};

/// Number of measured requests.
const REQUESTS: usize = 300;
/// Delay that the server adds, in nanoseconds, and as `--inject` has it.
const DELAY: (u64, &str) = (1_000_000, "latency=1ms");

/// Measures reads of 1 KiB on a server on the loopback interface that delays each answer by a millisecond. Returns the
/// median of the service times beyond it, in nanoseconds.
///
/// # Errors
/// [`RunError::Store`] if the server does not start or answer.
pub fn measure() -> Result<u64, RunError> {
    let server = EmbeddedServer::start(&["--inject", DELAY.1])?;
    let store = server.store("embedded:")?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::store)?;
    let mut connection = store.connection(0);
    let mut send = |request: Request<'_>| -> Result<Reply, Failure> {
        runtime.block_on(connection.execute(request, &mut Ignore))
    };
    let failed = |failure: Failure| RunError::store(format!("{EMBEDDED_BUCKET}: {failure}"));
    send(Request::CreateBucket).map_err(failed)?;
    let content = Bytes::from_static(&[0; 1024]);
    send(Request::Put { key: "overhead", body: Body::Whole(content) }).map_err(failed)?;
    let mut times = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let timings = send(Request::Get { key: "overhead", range: None }).map_err(failed)?.timings;
        times.push(timings.end_ns.saturating_sub(timings.start_ns).saturating_sub(DELAY.0));
    }
    times.sort_unstable();
    Ok(times[REQUESTS / 2])
}
