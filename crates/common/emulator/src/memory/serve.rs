//! The server of `plimsoll serve`: the protocol over a store in memory, with injected faults.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::MemoryService;
use super::anomalies::Anomalies;
use crate::faults::Faulty;
use crate::inject::Spec;
use crate::twin::Twin;
use plimsoll_base::clock::wall_now;
use plimsoll_server::expiry::Now;
use plimsoll_server::{ServerState, run_with};

/// Serves an empty store in memory until `shutdown` becomes true, with the faults of `inject` and the times of `twin`.
/// A day of lifecycle rules has the length `day`.
///
/// The server is compiled here, with the optimization of this crate, and not in the crates that call it.
///
/// # Errors
/// Returns the same errors as [`plimsoll_server::run`].
pub fn serve(
    listener: TcpListener,
    shared: &Arc<ServerState>,
    inject: Option<Spec>,
    twin: Option<Twin>,
    day: Duration,
    shutdown: &watch::Receiver<bool>,
) -> io::Result<()> {
    let anomalies = inject.as_ref().and_then(Anomalies::of);
    let service = Arc::new(MemoryService::new(&shared.memory).with_anomalies(anomalies));
    keep_up(Arc::clone(&service), day, shutdown.clone())?;
    let handler = Faulty::new(service, inject, twin);
    run_with(listener, shared, &Arc::new(handler), shutdown)
}

/// Applies the lifecycle rules ten times a day, at least every hour, until `shutdown` becomes true.
fn keep_up(
    service: Arc<MemoryService>,
    day: Duration,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    const LEAST: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(3600);
    let every = (day / 10).clamp(LEAST, MOST);
    let day_ms = u64::try_from(day.as_millis()).unwrap_or(u64::MAX);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name("lifecycle".into()).spawn(move || {
        runtime.block_on(async {
            while tokio::time::timeout(every, shutdown.wait_for(|ends| *ends)).await.is_err() {
                // Without memory for a delete marker, the next time may have some.
                let _ = service.expire(Now { ms: wall_now().as_millisecond(), day_ms });
            }
        });
    })?;
    Ok(())
}

/// Does the same as [`serve`], without lifecycle rules, with a store that the caller has filled, or reads at the end.
///
/// # Errors
/// Returns the same errors as [`plimsoll_server::run`].
pub fn serve_from(
    listener: TcpListener,
    shared: &Arc<ServerState>,
    service: Arc<MemoryService>,
    inject: Option<Spec>,
    shutdown: &watch::Receiver<bool>,
) -> io::Result<()> {
    let handler = Faulty::new(service, inject, None);
    run_with(listener, shared, &Arc::new(handler), shutdown)
}
