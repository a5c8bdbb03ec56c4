//! Announces the position of the catalog to its tiers, while this process works in the background.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use plimsoll_base::net::encode::hex;
use plimsoll_server::error::ApiError;

use super::buckets::{self, BucketDocuments};
use super::claim::{ClaimError, take};
use super::{Identity, of_transaction, put};
use crate::background::pause;
use crate::body::blob::new_name;
use crate::catalog::Catalog;
use crate::object::Store;
use crate::object::error::unavailable;

/// Time between two announcements in milliseconds.
const RENEW_MS: u64 = 10_000;

/// Keeps the records of all tiers.
pub struct Keeper {
    /// Random id of this process.
    writer: String,
    /// Number of transactions of this process at the last announcement; `None` before the first one.
    announced: Option<u64>,
    /// Documents of the buckets that all tiers have.
    buckets: String,
}

/// Reason why a position was not announced.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    /// The catalog has failed, or another process works in the background.
    #[error("{0}")]
    Catalog(ApiError),
    /// A tier has failed or is not to be used.
    #[error("{0}")]
    Claim(#[from] ClaimError),
}

impl KeepError {
    /// Returns true if the tiers may have bytes that the catalog does not know.
    fn is_loss(&self) -> bool {
        matches!(self, KeepError::Claim(error) if !matches!(error, ClaimError::Unknown { .. }))
    }
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper { writer: hex(&new_name()), announced: None, buckets: String::new() }
    }
}

impl Keeper {
    /// Advances the catalog, and announces its position to all tiers.
    async fn announce<C: Catalog>(&mut self, store: &Store<C>) -> Result<(), KeepError> {
        let advanced = store.transact_in(store.epoch(), 64, |t| {
            let known = of_transaction(t)?.unwrap_or_else(|| Identity { id: new_name(), position: 0 });
            let next = Identity { position: known.position + 1, ..known };
            put(t, next);
            Ok(Ok(next))
        });
        let identity = advanced.await.map_err(KeepError::Catalog)?;
        let count = store.transactions.load(Ordering::Relaxed);
        // A tier never has a position that the catalog could lose.
        match store.catalog.durable_after_ms() {
            0 => {}
            ms => pause(ms).await,
        }
        let tiers = store.blobs.tiers().iter();
        let taken = join_all(tiers.map(|(_, tier)| take(tier, &identity, &self.writer))).await;
        // A loss is more important than a tier without an answer.
        let (lost, failed): (Vec<_>, Vec<_>) =
            taken.into_iter().filter_map(Result::err).map(KeepError::Claim).partition(KeepError::is_loss);
        if let Some(error) = lost.into_iter().chain(failed).next() {
            return Err(error);
        }
        self.announced = Some(count);
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
        self.buckets = text;
        Ok(())
    }

    /// Waits until all tiers have confirmed that they belong to the catalog.
    pub async fn claim<C: Catalog>(&mut self, store: &Store<C>) {
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
            if !self.is_due(store) {
                continue;
            }
            if let Err(error) = self.announce(store).await {
                self.report(store, &error);
                if error.is_loss() {
                    return;
                }
            }
        }
    }

    /// Announces the last changes of a process that ends.
    pub async fn end<C: Catalog>(&mut self, store: &Store<C>) {
        if self.announced.is_some() && self.is_due(store) && store.catalog.durable_after_ms() == 0 {
            // Another process may work in the background by now, and announces them.
            let _ = self.announce(store).await;
        }
    }

    fn is_due<C: Catalog>(&self, store: &Store<C>) -> bool {
        store.catalog.is_shared() || self.announced != Some(store.transactions.load(Ordering::Relaxed))
    }

    fn report<C: Catalog>(&self, store: &Store<C>, error: &KeepError) {
        let is_loss = error.is_loss();
        if is_loss {
            store.owns_tiers.store(false, Ordering::Relaxed);
        }
        if is_loss || self.announced.is_none() {
            crate::log::warn(&format!("this gateway moves, expires and deletes nothing: {error}"));
        } else {
            crate::log::warn(&format!("the position of the catalog was not recorded: {error}"));
        }
    }
}
