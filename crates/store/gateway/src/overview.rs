//! The state of an open store: what `status` shows of a running gateway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_cost::tariff::Tariff;
use serde::Serialize;

use crate::certificate;
use plimsoll_backup::last;
use plimsoll_backup::running::{BackupState, Running};
use plimsoll_bodies::pricing::Stock;
use plimsoll_bodies::tier::Tier;
use plimsoll_catalog::CatalogError;
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::disk::real::free_bytes;
use plimsoll_catalog::following::FollowState;
use plimsoll_catalog::liveness::{self, LoopState};
use plimsoll_maintenance::mover::survey::{LatestSurvey, Survey};
use plimsoll_maintenance::scrub::progress::{self, Progress};
use plimsoll_objects::Store;
use plimsoll_objects::lease;
use plimsoll_objects::queues::{Queues, queues};

/// State of an open store.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Overview {
    /// Sessions of the gateways that use the catalog.
    pub sessions: Vec<u64>,
    /// Session that moves and deletes; `None` if there is none.
    pub leader: Option<u64>,
    /// Number of leaders so far.
    pub epoch: u64,
    /// Session of this gateway; 0 if no gateway runs in this process.
    pub own_session: u64,
    /// Seconds by which the clock of this machine is ahead of its witnesses.
    pub clock_ahead_seconds: f64,
    /// True if the clock is in doubt.
    pub has_wrong_clock: bool,
    /// False if a tier belongs to another catalog, or has seen a later state of this one.
    pub owns_tiers: bool,
    /// Tiers by name.
    pub tiers: BTreeMap<String, TierState>,
    /// Buckets by name, with their objects and versions by the place from which they are read: the name of a tier, or
    /// `catalog`. Without counts before all objects were visited.
    pub buckets: BTreeMap<String, BTreeMap<String, Stock>>,
    /// Counts of objects; `None` before all of them were visited.
    pub counts: Option<Counts>,
    /// Time for which garbage is kept, in milliseconds.
    pub retain_ms: u64,
    /// Log of a catalog in a directory.
    pub log: Option<LogState>,
    /// Verification of all objects.
    pub scrub: Progress,
    /// Unix time in milliseconds of the last recorded backup of the catalog.
    pub last_backup_ms: Option<u64>,
    /// Backup of the catalog that this gateway makes; `None` if it makes none.
    pub backup: Option<BackupState>,
    /// True if nothing is deleted because the last backup is older than the time for which garbage is kept.
    pub deletions_stopped: bool,
    /// Work that waits.
    pub queues: Queues,
    /// State of the copy of a standby; `None` for other gateways.
    pub following: Option<FollowState>,
    /// Problem because of which nothing can be written; `None` if there is none.
    pub problem: Option<String>,
    /// Seconds until the certificate of the gateway expires; `None` without one.
    pub certificate_left_s: Option<i64>,
    /// Loops of the background work that have stalled.
    pub stalled: Vec<LoopState>,
}

/// State of a tier.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TierState {
    /// False if the last requests have failed.
    pub answers: bool,
    /// Blobs and pack files of objects, with the sources that moves keep.
    pub blobs: u64,
    /// Bytes of these blobs.
    pub bytes: u64,
    /// Bytes of deleted and replaced objects that are kept in addition.
    pub kept_bytes: u64,
    /// Cost of a month of storage at list prices; `None` if the tier has no known price.
    pub dollars_per_month: Option<f64>,
    /// Cost of a month of storage of what is kept in addition.
    pub kept_dollars_per_month: Option<f64>,
    /// Free bytes of the disk of a tier in a directory; `None` for other tiers.
    pub free_bytes: Option<u64>,
}

/// Counts of objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Seconds since all objects were visited.
    pub age_seconds: f64,
    /// Objects and versions.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Bodies in the catalog.
    pub inline_objects: u64,
    /// Bytes of these bodies.
    pub inline_bytes: u64,
    /// Deleted and replaced objects that are kept.
    pub kept_objects: u64,
    /// Bytes of these objects.
    pub kept_bytes: u64,
    /// Blobs that the rules move, and that have not been moved yet.
    pub waiting_moves: u64,
    /// Bytes of these blobs.
    pub waiting_move_bytes: u64,
    /// Bodies that the rules pack, and that have not been packed yet.
    pub waiting_packs: u64,
}

/// State of the log of a catalog in a directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogState {
    /// Number of segments.
    pub segments: u64,
    /// Bytes of the segments.
    pub bytes: u64,
    /// Bytes that are in use.
    pub live_bytes: u64,
    /// Damage that is known, by file and offset.
    pub damage: Vec<String>,
    /// Free bytes of the disk; `None` if they are unknown.
    pub free_bytes: Option<u64>,
}

/// Reads the state of a store.
///
/// # Errors
/// If the catalog cannot be read.
pub fn overview(
    store: &Store<AnyCatalog>,
    backup: &Running,
    survey: &LatestSurvey,
    tariffs: &BTreeMap<u16, Tariff>,
) -> Result<Overview, CatalogError> {
    let sessions = lease::status(&*store.catalog, shared_now_ms())?;
    let survey = survey.get();
    let dollars = |number: u16, stock: &Stock| Some(stock.month(tariffs.get(&number)?).ok()?.dollars());
    let tier = |number: u16, tier: &Tier| {
        let stock =
            |of: &dyn Fn(&Survey) -> Option<Stock>| survey.as_deref().and_then(of).unwrap_or_default();
        let all = stock(&|survey| survey.blobs.get(&number).copied());
        let kept = stock(&|survey| survey.kept.get(&Some(number)).copied());
        TierState {
            answers: tier.answers(),
            blobs: all.blobs,
            bytes: all.bytes,
            kept_bytes: kept.bytes,
            dollars_per_month: dollars(number, &all),
            kept_dollars_per_month: dollars(number, &kept),
            free_bytes: tier.directory.as_deref().and_then(|directory| free_bytes(directory).ok()),
        }
    };
    let tiers = store.blobs.tiers().iter();
    let tiers = tiers.map(|(number, one)| (one.name.clone(), tier(number, one))).collect();
    let last_backup_ms = last::time_ms(&*store.catalog);
    let deletions_stopped = last::is_outdated(&last_backup_ms, shared_now_ms(), store.retain_ms);
    Ok(Overview {
        sessions: sessions.sessions,
        leader: sessions.leader,
        epoch: sessions.epoch,
        own_session: store.session(),
        clock_ahead_seconds: store.clock_ahead_ms.load(Ordering::Relaxed) as f64 / 1000.0,
        has_wrong_clock: store.has_wrong_clock.load(Ordering::Relaxed),
        owns_tiers: store.owns_tiers.load(Ordering::Relaxed),
        tiers,
        buckets: buckets(store, survey.as_deref())?,
        counts: survey.map(|survey| counts(&survey)),
        retain_ms: store.retain_ms,
        log: log_state(&store.catalog),
        scrub: progress::load(&*store.catalog)?,
        last_backup_ms: last_backup_ms?,
        backup: backup.get().map(|backup| backup.state()),
        deletions_stopped,
        queues: queues(&*store.catalog, plimsoll_catalog::ambient::now_ms(), store.retain_ms)?,
        following: store.catalog.following().map(|following| following.state()),
        problem: store.catalog.check().err().filter(is_problem).map(|error| error.to_string()),
        certificate_left_s: certificate::left_s(),
        stalled: liveness::stalled(),
    })
}

/// A standby writes nothing because it is one.
fn is_problem(error: &CatalogError) -> bool {
    !matches!(error, CatalogError::Standby)
}

fn buckets(
    store: &Store<AnyCatalog>,
    survey: Option<&Survey>,
) -> Result<BTreeMap<String, BTreeMap<String, Stock>>, CatalogError> {
    let names = store.all_buckets()?.into_iter().map(|(name, _)| (name, BTreeMap::new()));
    let mut buckets: BTreeMap<String, BTreeMap<String, Stock>> = names.collect();
    for ((bucket, place), stock) in survey.iter().flat_map(|survey| &survey.objects) {
        let place = place.map_or_else(|| "catalog".to_string(), |number| store.tier_name(number));
        buckets.entry(bucket.to_string()).or_default().insert(place, *stock);
    }
    Ok(buckets)
}

fn counts(survey: &Survey) -> Counts {
    let all = survey.all();
    let inline = survey.objects.iter().filter(|((_, place), _)| place.is_none());
    let (mut inline_objects, mut inline_bytes) = (0, 0);
    for (_, stock) in inline {
        inline_objects += stock.blobs;
        inline_bytes += stock.bytes;
    }
    Counts {
        age_seconds: plimsoll_catalog::ambient::now_ms().saturating_sub(survey.at_ms) as f64 / 1000.0,
        objects: all.blobs,
        bytes: all.bytes,
        inline_objects,
        inline_bytes,
        kept_objects: survey.kept.values().map(|stock| stock.blobs).sum(),
        kept_bytes: survey.kept.values().map(|stock| stock.bytes).sum(),
        waiting_moves: survey.moves.blobs,
        waiting_move_bytes: survey.moves.bytes,
        waiting_packs: survey.packs.blobs,
    }
}

fn log_state(catalog: &Arc<AnyCatalog>) -> Option<LogState> {
    let engine = catalog.engine()?;
    let segments = engine.segments();
    let damage = engine.damage();
    let describe = |damage: &plimsoll_catalog::embedded::segment_list::Damage| {
        format!("{} at offset {}: {}", damage.file, damage.offset, damage.problem)
    };
    Some(LogState {
        segments: segments.len() as u64,
        bytes: segments.iter().map(|segment| segment.bytes.load(Ordering::Relaxed)).sum(),
        live_bytes: segments.iter().map(|s| s.live.load(Ordering::Relaxed).max(0) as u64).sum(),
        damage: damage.iter().map(describe).collect(),
        free_bytes: engine.free_bytes().ok(),
    })
}
