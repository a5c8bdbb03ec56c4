//! Prometheus metrics of the gateway, and its health pages.

mod engine;
mod placement;
mod requests;
mod tiers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use plimsoll_base::metrics::{Pages, listen};
use plimsoll_cost::tariff::Tariff;
use prometheus_client::registry::Registry;

use self::engine::EngineMetrics;
use self::placement::PlacementMetrics;
pub use self::requests::RequestMetrics;
use self::tiers::TierMetrics;
use crate::catalog::any::AnyCatalog;
use crate::mover::survey::LatestSurvey;
use crate::object::Store;

/// Serves metrics and health pages on an address until the process ends. Returns the bound address.
///
/// # Errors
/// If the address cannot be used.
pub fn serve(
    address: &str,
    requests: &RequestMetrics,
    store: &Arc<Store<AnyCatalog>>,
    survey: &Arc<LatestSurvey>,
    tariffs: BTreeMap<u16, Tariff>,
) -> std::io::Result<SocketAddr> {
    let mut registry = Registry::default();
    requests.register(&mut registry);
    if let Some(engine) = store.catalog.engine() {
        registry.register_collector(Box::new(EngineMetrics(Arc::clone(engine))));
    }
    let tiers = store.blobs.tiers().clone();
    registry.register_collector(Box::new(TierMetrics { tiers, tariffs: tariffs.clone() }));
    registry.register_collector(Box::new(PlacementMetrics {
        store: Arc::clone(store),
        survey: Arc::clone(survey),
        tariffs,
    }));
    let catalog = Arc::clone(&store.catalog);
    let pages: Pages = Arc::new(move |path| match path {
        "/healthz" => Some((200, "ok\n".into())),
        "/readyz" => Some(match catalog.check() {
            Ok(()) => (200, "ready\n".into()),
            Err(problem) => (503, format!("{problem}\n")),
        }),
        _ => None,
    });
    listen(address, Arc::new(registry), Some(pages))
}
