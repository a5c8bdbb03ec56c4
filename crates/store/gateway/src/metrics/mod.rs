//! Prometheus metrics of the gateway, and its health pages.

mod backup;
mod certificate;
mod engine;
mod loops;
mod placement;
mod requests;
mod standby;
mod tiers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_base::metrics::{Pages, listen};
use plimsoll_cost::tariff::Tariff;
use prometheus_client::registry::Registry;

use self::backup::BackupMetrics;
use self::certificate::CertificateMetrics;
use self::engine::EngineMetrics;
use self::loops::LoopMetrics;
use self::placement::PlacementMetrics;
pub use self::requests::RequestMetrics;
use self::standby::StandbyMetrics;
use self::tiers::TierMetrics;
use plimsoll_backup::running::Running;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::liveness;
use plimsoll_maintenance::mover::survey::LatestSurvey;
use plimsoll_objects::Store;

/// Returns the status and the text of `/readyz`: 503 if the catalog fails, or a loop of the background work has
/// stalled. The text also names what else does not work; a tier is the same for all gateways, and a load balancer must
/// not leave out all of them.
fn ready(store: &Store<AnyCatalog>) -> (u16, String) {
    // First: a catalog that hangs does not answer the next question.
    let stalled = liveness::stalled();
    if !stalled.is_empty() {
        return (503, stalled.iter().map(|found| found.text() + "\n").collect());
    }
    if let Err(problem) = store.catalog.check() {
        return (503, format!("{problem}\n"));
    }
    let silent: Vec<(u16, &str)> = store
        .blobs
        .tiers()
        .iter()
        .filter(|(_, tier)| !tier.answers())
        .map(|(number, tier)| (number, tier.name.as_str()))
        .collect();
    let names: Vec<&str> = silent.iter().map(|(_, name)| *name).collect();
    let mut notes = Vec::new();
    if !names.is_empty() {
        notes.push(format!("tiers that do not answer: {}", names.join(", ")));
    }
    if store.writes_need(&silent.iter().map(|(number, _)| *number).collect()) {
        notes.push("writes of blobs fail".into());
    }
    if store.has_wrong_clock.load(Ordering::Relaxed) {
        notes.push("the clock is in doubt: nothing moves and expires".into());
    }
    if !store.owns_tiers.load(Ordering::Relaxed) {
        notes.push("a tier has seen a later catalog, or another one: nothing moves and expires".into());
    }
    let text: String = notes.iter().map(|note| format!("{note}\n")).collect();
    (200, format!("ready\n{text}"))
}

/// Serves metrics and health pages on an address until the process ends. Returns the bound address.
///
/// # Errors
/// If the address cannot be used.
pub fn serve(
    address: &str,
    requests: &RequestMetrics,
    store: &Arc<Store<AnyCatalog>>,
    backup: &Running,
    survey: &Arc<LatestSurvey>,
    tariffs: BTreeMap<u16, Tariff>,
) -> std::io::Result<SocketAddr> {
    let mut registry = Registry::default();
    requests.register(&mut registry);
    if let Some(engine) = store.catalog.engine() {
        registry.register_collector(Box::new(EngineMetrics(Arc::clone(engine))));
    }
    registry.register_collector(Box::new(LoopMetrics));
    registry.register_collector(Box::new(CertificateMetrics));
    registry.register_collector(Box::new(BackupMetrics {
        backup: Arc::clone(backup),
        catalog: Arc::clone(&store.catalog),
    }));
    if let Some(following) = store.catalog.following() {
        registry.register_collector(Box::new(StandbyMetrics(Arc::clone(following))));
    }
    let (tiers, home) = (store.blobs.tiers().clone(), store.write_tiers().first().copied());
    let backup = Arc::clone(backup);
    registry.register_collector(Box::new(TierMetrics { tiers, tariffs: tariffs.clone(), home, backup }));
    registry.register_collector(Box::new(PlacementMetrics {
        store: Arc::clone(store),
        survey: Arc::clone(survey),
        tariffs,
    }));
    let of_pages = Arc::clone(store);
    let pages: Pages = Arc::new(move |path| match path {
        "/healthz" => Some((200, "ok\n".into())),
        "/readyz" => Some(ready(&of_pages)),
        _ => None,
    });
    listen(address, Arc::new(registry), Some(pages))
}
