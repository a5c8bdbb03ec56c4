//! The server of `plimsoll serve`: the protocol over a store in memory, with injected faults.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use tokio::sync::watch;

use super::MemoryService;
use super::anomalies::Anomalies;
use crate::faults::Faulty;
use crate::inject::{Injector, Spec};
use crate::twin::Twin;
use crate::{Shared, run_with};

/// Serves an empty store in memory until `shutdown` becomes true, with the faults of `inject` and the times of `twin`.
///
/// The server is compiled here, with the optimization of this crate, and not in the crates that call it.
///
/// # Errors
/// Returns the same errors as [`crate::run`].
pub fn serve(
    listener: TcpListener,
    shared: &Arc<Shared>,
    inject: Option<Spec>,
    twin: Option<Twin>,
    shutdown: &watch::Receiver<bool>,
) -> io::Result<()> {
    let anomalies = inject.as_ref().and_then(Anomalies::of);
    let service = Arc::new(MemoryService::new(&shared.memory).with_anomalies(anomalies));
    let handler = Faulty { service, injector: inject.map(Injector::new), twin };
    run_with(listener, shared, &Arc::new(handler), shutdown)
}

/// Does the same as [`serve`] with a store that the caller has filled, or reads at the end.
///
/// # Errors
/// Returns the same errors as [`crate::run`].
pub fn serve_from(
    listener: TcpListener,
    shared: &Arc<Shared>,
    service: Arc<MemoryService>,
    inject: Option<Spec>,
    shutdown: &watch::Receiver<bool>,
) -> io::Result<()> {
    let handler = Faulty { service, injector: inject.map(Injector::new), twin: None };
    run_with(listener, shared, &Arc::new(handler), shutdown)
}
