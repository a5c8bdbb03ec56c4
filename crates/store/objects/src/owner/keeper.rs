//! Announces the position of the catalog to its tiers, while this process works in the background.

use std::ops::Range;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::net::encode::hex;
use plimsoll_server::error::{ApiError, ErrorCode};

use super::buckets::{self, BucketDocuments};
use super::claim::{Claim, ClaimError, copied, inspect, refused, take};
use super::record::{self, Found};
use super::{Identity, of_transaction, put};
use crate::clock;
use crate::error::unavailable;
use crate::{Store, keys};
use plimsoll_bodies::name::new_name;
use plimsoll_catalog::ambient::{now_ms, pause, steady_ms};
use plimsoll_catalog::{Catalog, CatalogError};

/// Time between two announcements in milliseconds.
const RENEW_MS: u64 = 10_000;
/// Time between two looks whether a standby would have the position, in milliseconds.
const KEPT_PAUSE_MS: u64 = 100;

/// Keeps the records of all tiers.
pub struct Keeper {
    /// Random id of this process.
    writer: String,
    /// Number of transactions of this process at the last announcement; `None` before the first one of a claim.
    announced: Option<u64>,
    /// True after the first announcement of this process.
    has_announced: bool,
    /// Monotonic time of the last announcement.
    announced_ns: u64,
    /// Documents of the buckets that all tiers have.
    buckets: String,
}

/// Asks the tiers that are not directories when their records were written, which was in a range of steady times in
/// milliseconds. If the catalog has a clock, that clock counts. Of several tiers, the one that agrees most with this
/// machine counts: a single wrong clock must not stop the work.
async fn ask_the_time<C: Catalog>(store: &Store<C>, written: Range<u64>) {
    if !matches!(store.catalog.clock_ms(), Ok(None)) {
        return;
    }
    let duration_ms = written.end - written.start;
    let steady = written.start + duration_ms / 2;
    let mut best: Option<(u64, u64)> = None;
    // The times of a directory are those of this machine, so a directory is no witness (docs/decisions/0041).
    for (_, tier) in store.blobs.tiers().iter().filter(|(_, tier)| tier.directory.is_none()) {
        let Ok(Some(tier_ms)) = record::written_ms(&*tier.uncounted()).await else { continue };
        // The own time at the write of the records, however long these requests take.
        let own_ms = now_ms().saturating_sub(steady_ms() - steady);
        let difference_ms = own_ms.abs_diff(tier_ms);
        best = best.filter(|(least_ms, _)| *least_ms <= difference_ms).or(Some((difference_ms, tier_ms)));
    }
    if let Some((_, tier_ms)) = best {
        store.witnesses.confirm(tier_ms, steady, duration_ms);
    }
}

/// Reason why a position was not announced.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The catalog has failed, or another process works in the background.
    #[error("{0}")]
    Catalog(ApiError),
    /// A tier has failed or is not to be used.
    #[error("{0}")]
    Claim(#[from] ClaimError),
}

impl KeepError {
    /// Returns true if the tiers may have bytes that the catalog does not know.
    pub fn is_loss(&self) -> bool {
        matches!(self, KeepError::Claim(error) if !matches!(error, ClaimError::Unknown { .. }))
    }
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper {
            writer: hex(&new_name()),
            announced: None,
            has_announced: false,
            announced_ns: 0,
            buckets: String::new(),
        }
    }
}

impl Keeper {
    /// Reads the records of all tiers. After the first announcement, nobody else writes them.
    async fn inspect<C: Catalog>(
        &self,
        store: &Store<C>,
        known: &Identity,
    ) -> Result<Vec<Option<Found>>, KeepError> {
        let tiers: Vec<_> = store.blobs.tiers().iter().map(|(_, tier)| tier).collect();
        let claims = join_all(tiers.iter().map(|tier| inspect(tier, known))).await;
        let (mut found, mut silent) = (Vec::new(), None);
        for (tier, claim) in tiers.into_iter().zip(claims) {
            match claim {
                // A copy of the catalog has its id, and may have its position, but not the same writer.
                Ok(Claim::Own(own)) if self.announced.is_some() && own.record.writer != self.writer => {
                    return Err(copied(tier, &own.record).into());
                }
                Ok(Claim::Own(own)) => found.push(Some(own)),
                // Bytes that are written to an empty place would be gone when the right disk is back.
                Ok(Claim::Free) if tier.has_record.load(Ordering::Relaxed) => {
                    return Err(ClaimError::Lost { tier: tier.name.clone() }.into());
                }
                Ok(Claim::Free) => found.push(None),
                // A tier that contradicts counts more than one that does not answer.
                Ok(claim) => silent = refused(tier, known, &claim).or(silent),
                Err(error) => {
                    silent = silent.or(Some(ClaimError::Unknown { tier: tier.name.clone(), error }));
                }
            }
        }
        silent.map_or(Ok(found), |error| Err(error.into()))
    }

    /// Advances the catalog, and announces its position to all tiers. A catalog that is older than its tiers stays at
    /// its position, so it never catches up with them.
    pub async fn announce<C: Catalog>(&mut self, store: &Store<C>) -> Result<(), KeepError> {
        let known = store.transact_in(store.epoch(), 64, |t| {
            if let Some(known) = of_transaction(t)? {
                return Ok(Ok(known));
            }
            t.check_absent(keys::IDENTITY)?;
            let new = Identity { id: new_name(), position: 0, at_ms: 0 };
            put(t, new);
            Ok(Ok(new))
        });
        let known = known.await.map_err(KeepError::Catalog)?;
        let found = self.inspect(store, &known).await?;
        // Later, the witnesses of this process know more than the last use.
        let is_on_trial =
            self.announced.is_none() && store.witnesses.used_at(known.at_ms, now_ms(), steady_ms());
        let is_right = clock::read(store).is_ok_and(|clock| clock.is_right);
        let advanced = store.transact_in(store.epoch(), 64, move |t| {
            // The tiers were compared with this position. Another one needs another look at them.
            if of_transaction(t)? != Some(known) {
                return Ok(Err(ApiError::new(ErrorCode::OperationAborted)));
            }
            // A time that nothing confirms is not recorded: after a restart, it would look confirmed.
            let at_ms = if is_on_trial || !is_right { known.at_ms } else { now_ms() };
            let next = Identity { position: known.position + 1, at_ms, ..known };
            put(t, next);
            Ok(Ok(next))
        });
        let identity = advanced.await.map_err(KeepError::Catalog)?;
        // After the transactions of the announcement itself, which would make the next one due.
        let count = store.transactions.load(Ordering::Relaxed);
        // A tier never has a position that the catalog could lose, or that a standby does not have.
        let mark = store.catalog.mark();
        while !store.catalog.is_kept(mark).map_err(|error| KeepError::Catalog(unavailable(&error)))? {
            pause(KEPT_PAUSE_MS).await;
        }
        let tiers = store.blobs.tiers().iter().map(|(_, tier)| tier).zip(&found);
        let taken = tiers.map(|(tier, found)| take(tier, &identity, &self.writer, found.as_ref()));
        let began_ms = steady_ms();
        let taken = join_all(taken).await;
        let written = began_ms..steady_ms();
        // A loss is more important than a tier without an answer.
        let failed: Vec<_> = taken.into_iter().filter_map(Result::err).map(KeepError::Claim).collect();
        let (lost, silent): (Vec<_>, Vec<_>) = failed.into_iter().partition(KeepError::is_loss);
        if let Some(error) = lost.into_iter().chain(silent).next() {
            return Err(error);
        }
        (self.announced, self.has_announced) = (Some(count), true);
        self.announced_ns = now_ns();
        // The tiers have just written the records, so the times that they give for them are those of now.
        ask_the_time(store, written).await;
        self.write_buckets(store, &identity).await
    }

    /// Writes the documents of the buckets to all tiers if they have changed.
    async fn write_buckets<C: Catalog>(
        &mut self,
        store: &Store<C>,
        identity: &Identity,
    ) -> Result<(), KeepError> {
        let documents = BucketDocuments::of_catalog(&*store.catalog, identity.text());
        let text = documents.map_err(|error| KeepError::Catalog(unavailable(&error)))?.text();
        if text == self.buckets {
            return Ok(());
        }
        for (_, tier) in store.blobs.tiers().iter() {
            let failed = |error| ClaimError::Unknown { tier: tier.name.clone(), error };
            buckets::write(&*tier.uncounted(), &text).await.map_err(failed)?;
        }
        // Only when all tiers have the text. A tier that has failed gets it with the next announcement.
        self.buckets = text;
        Ok(())
    }

    /// Waits until all tiers have confirmed that they belong to the catalog.
    pub async fn claim<C: Catalog>(&mut self, store: &Store<C>) {
        // Another gateway may have led meanwhile, and its records are no sign of a copy.
        self.announced = None;
        loop {
            match self.announce(store).await {
                Ok(()) => {
                    store.owns_tiers.store(true, Ordering::Relaxed);
                    return;
                }
                Err(error) => self.report(store, &error),
            }
            pause(RENEW_MS).await;
        }
    }

    /// Announces changes of the catalog. Ends when a tier has bytes that the catalog may not know.
    pub async fn renew<C: Catalog>(&mut self, store: &Store<C>) {
        loop {
            pause(RENEW_MS).await;
            let announced =
                if self.is_due(store) { self.announce(store).await } else { self.look(store).await };
            if let Err(error) = announced {
                self.report(store, &error);
                // The background then drops its loops, and claims the tiers again (`lead` in background.rs).
                if error.is_loss() {
                    return;
                }
            }
        }
    }

    /// Announces the last changes of a process that ends.
    pub async fn end<C: Catalog>(&mut self, store: &Store<C>) {
        if self.announced.is_some() && self.is_due(store) && store.catalog.is_durable_at_once() {
            // Another process may work in the background by now, and announces them.
            let _ = self.announce(store).await;
        }
    }

    fn is_due<C: Catalog>(&self, store: &Store<C>) -> bool {
        // Also without changes: a start compares the time of the last announcement with its clock (`used_at`).
        let is_old = now_ns() - self.announced_ns >= 3600 * SECOND;
        // Other processes change a shared catalog, too, and their transactions are not counted here.
        store.catalog.is_shared()
            || is_old
            || self.announced != Some(store.transactions.load(Ordering::Relaxed))
    }

    /// Looks whether another process has continued the catalog, while this one has nothing to announce: without this,
    /// it would acknowledge a write that the other one does not have.
    async fn look<C: Catalog>(&self, store: &Store<C>) -> Result<(), KeepError> {
        // One tier is enough, because a process that continues the catalog writes the records of all tiers.
        let Some(tier) = store.write_tiers().first().and_then(|number| store.blobs.tiers().get(*number))
        else {
            return Ok(());
        };
        let unknown = |error: CatalogError| KeepError::Catalog(unavailable(&error));
        let Some(known) = super::read(&*store.catalog).map_err(unknown)? else { return Ok(()) };
        match inspect(tier, &known).await {
            Ok(Claim::Own(own)) if own.record.writer != self.writer => Err(copied(tier, &own.record).into()),
            Ok(Claim::Free) => Err(ClaimError::Lost { tier: tier.name.clone() }.into()),
            Ok(claim) => refused(tier, &known, &claim).map_or(Ok(()), |error| Err(error.into())),
            Err(error) => Err(ClaimError::Unknown { tier: tier.name.clone(), error }.into()),
        }
    }

    fn report<C: Catalog>(&self, store: &Store<C>, error: &KeepError) {
        let is_loss = error.is_loss();
        if is_loss {
            store.owns_tiers.store(false, Ordering::Relaxed);
        }
        // Only the one that has continued last goes on: two processes must not acknowledge writes of one catalog.
        if is_loss && self.has_announced && !store.catalog.is_shared() {
            store
                .catalog
                .stop_writes(&format!("{error}; stop this gateway, and see which of them is the right one"));
        }
        if is_loss || self.announced.is_none() {
            plimsoll_catalog::log::warn(&format!("this gateway moves, expires and deletes nothing: {error}"));
        } else {
            plimsoll_catalog::log::warn(&format!("the position of the catalog was not recorded: {error}"));
        }
    }
}
