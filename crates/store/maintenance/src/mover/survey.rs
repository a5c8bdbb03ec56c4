//! Result of a visit of all objects: their places, and the work that waits.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_bodies::pricing::Stock;

/// Place of a body: the number of its tier, or `None` for the catalog.
pub type Where = Option<u16>;

/// Result of a visit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// End of the visit in Unix milliseconds.
    pub at_ms: u64,
    /// Objects and versions by bucket and by the place from which they are read.
    pub objects: BTreeMap<(Arc<str>, Where), Stock>,
    /// Blobs and pack files at all their places, by tier.
    pub blobs: BTreeMap<u16, Stock>,
    /// Versions that have left their buckets and are kept, by the place of their bodies.
    pub kept: BTreeMap<Where, Stock>,
    /// Blobs that the rules move, as the visit has found them: also those that were moved before it ended.
    pub moves: Stock,
    /// Bodies that the rules pack, as the visit has found them: also those that were packed before it ended.
    pub packs: Stock,
}

impl Survey {
    /// Counts an object.
    pub fn add(&mut self, bucket: &Arc<str>, place: Where, bytes: u64) {
        match self.objects.get_mut(&(Arc::clone(bucket), place)) {
            Some(stock) => stock.add(1, bytes),
            None => drop(self.objects.insert((Arc::clone(bucket), place), Stock { blobs: 1, bytes })),
        }
    }

    /// Returns all objects, as if each was a blob.
    pub fn all(&self) -> Stock {
        let mut all = Stock::default();
        self.objects.values().for_each(|stock| all.add(stock.blobs, stock.bytes));
        all
    }
}

/// The result of the last visit of all objects by this process: the background work records it, and metrics read it.
#[derive(Debug, Default)]
pub struct LatestSurvey(RwLock<Option<Arc<Survey>>>);

impl LatestSurvey {
    /// Returns the result; `None` if this process has not visited all objects since it became the leader.
    pub fn get(&self) -> Option<Arc<Survey>> {
        // A result is replaced as a whole, so a panic of another thread leaves a complete one.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the result of a visit; `None` when this process is no longer the leader.
    pub fn set(&self, survey: Option<Survey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = survey.map(Arc::new);
    }
}
