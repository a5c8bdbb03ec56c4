//! The processes of a simulation: what a gateway does in the background, and reads of a client.

use std::sync::Arc;

use super::backend::pause;
use super::catalog::SimulatedCatalog;
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_maintenance::background::{deletion, execute, retention};
use plimsoll_maintenance::mover::give_up_unfinished;
use plimsoll_maintenance::mover::pass::Pass;
use plimsoll_maintenance::mover::rules::Rules;
use plimsoll_objects::lease;
use plimsoll_objects::owner::keeper::Keeper;
use plimsoll_objects::{Store, clock};
use plimsoll_server::error::ErrorCode;
use plimsoll_store_testing::get;

/// A store of a simulation.
pub type SimulatedStore = Arc<Store<SimulatedCatalog>>;

/// Reads an object: its entity tag and body, or nothing.
pub async fn read(store: &SimulatedStore, key: &str) -> Result<Option<(String, Vec<u8>)>, String> {
    match get(&**store, key).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code == ErrorCode::NoSuchKey => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Begins a session, and leads if no other process does. Returns true in a new epoch.
async fn renew(store: &SimulatedStore, epoch: &mut Option<u64>) -> bool {
    if store.session() == 0 && store.begin_session().await.is_err() {
        return false;
    }
    let session = store.session();
    *store.catalog.session.lock().unwrap() = session;
    let Ok(clock) = clock::read(&**store) else { return false };
    let renewal = if clock.is_right { lease::keep } else { lease::follow };
    let renewed = store.transact(0, move |t| Ok(Ok(renewal(t, session, clock.now_ms)?))).await;
    let Ok(renewed) = renewed else { return false };
    if renewed.has_ended_sessions {
        let _ = deletion::discard_unfinished(&**store).await;
    }
    let is_new = renewed.epoch.is_some() && renewed.epoch != *epoch;
    *epoch = renewed.epoch;
    store.lead(*epoch);
    is_new
}

/// Works in the background as a gateway does.
pub async fn background(store: &SimulatedStore, rules: &Rules) {
    /// Time between two announcements to the tiers.
    const ANNOUNCE_MS: u64 = 10_000;
    let (mut epoch, mut pass) = (None, Pass::default());
    let (mut keeper, mut announced_ms) = (Keeper::default(), None::<u64>);
    loop {
        if renew(store, &mut epoch).await {
            (keeper, announced_ms) = (Keeper::default(), None);
        }
        let is_due = announced_ms.is_none_or(|ms| shared_now_ms() >= ms + ANNOUNCE_MS);
        if epoch.is_some() && is_due {
            let is_first = announced_ms.is_none();
            match keeper.announce(&**store).await {
                Ok(()) => announced_ms = Some(shared_now_ms()),
                Err(error) if error.is_loss() => (keeper, announced_ms) = (Keeper::default(), None),
                Err(_) => {}
            }
            if is_first && announced_ms.is_some() {
                let _ = give_up_unfinished(&**store).await;
            }
        }
        if let (Some(_), Some(_), Ok(clock)) = (epoch, announced_ms, clock::read(&**store))
            && clock.is_right
        {
            let _ = retention::let_go_due_at(&**store, clock.now_ms).await;
            let _ = deletion::delete_due_at(&**store, clock.now_ms).await;
            if let Ok(batch) = pass.next(&**store, rules) {
                execute(&**store, batch).await;
            }
        }
        pause().await;
    }
}

/// Does everything that is due.
///
/// # Errors
/// The error of a step.
pub async fn work_once(store: &SimulatedStore, rules: &Rules) -> Result<(), String> {
    let mut epoch = None;
    for _ in 0..3 {
        if renew(store, &mut epoch).await {
            give_up_unfinished(&**store).await.map_err(|e| e.to_string())?;
        }
        deletion::discard_unfinished(&**store).await.map_err(|e| e.to_string())?;
        let mut pass = Pass::default();
        loop {
            let batch = pass.next(&**store, rules).map_err(|e| e.to_string())?;
            let ended = batch.ended;
            execute(&**store, batch).await;
            if ended {
                break;
            }
        }
        retention::let_go_due_at(&**store, plimsoll_catalog::ambient::now_ms())
            .await
            .map_err(|e| e.to_string())?;
        deletion::delete_due(&**store).await.map_err(|e| e.to_string())?;
    }
    Ok(())
}
