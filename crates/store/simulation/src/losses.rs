//! Copies of blobs that a tier loses after they were verified.

use super::backend::{SimulatedTier, lock};
use super::catalog::{object, rows};
use super::time;
use super::world::World;
use plimsoll_bodies::location::{BlobHead, Location, State};
use plimsoll_objects::keys;

/// Returns true if a tier has the bytes of a place.
fn has(tiers: &[SimulatedTier], place: &Location) -> bool {
    let (number, name) = object(place);
    tiers[number].names().contains(&name)
}

impl World {
    /// Lets a tier lose the copy that a move has made, while the source must not be deleted yet.
    pub(super) fn lose_copy(&mut self) {
        let mut copies = Vec::new();
        for (_, row) in rows(&*self.catalog, keys::BLOBS) {
            let Some(head) = BlobHead::decode(&row.head) else { continue };
            let [copy, sources @ ..] = head.locations.as_slice() else { continue };
            let is_kept = |source: &Location| {
                let until_ms = lock(&self.shared).kept_until_ms.get(&object(source)).copied();
                until_ms.is_some_and(|ms| ms > time::now_ms()) && has(&self.tiers, source)
            };
            if head.state == State::Complete && has(&self.tiers, copy) && sources.iter().any(is_kept) {
                copies.push(copy.clone());
            }
        }
        let Some(copy) = copies.get(self.random.below(copies.len() as u64) as usize) else { return };
        let bytes = self.tiers[object(copy).0].lose(&copy.path());
        self.lost.push((copy.clone(), bytes));
    }

    /// Brings back the bytes of all lost copies, also of those that only an older catalog knows.
    pub(super) fn repair_all(&mut self) {
        for (copy, bytes) in std::mem::take(&mut self.lost) {
            self.tiers[object(&copy).0].store(&copy.path(), bytes);
        }
    }

    /// Copies the bytes of lost copies from the other places of their blobs, as an operator does.
    pub(super) fn repair(&mut self) {
        let heads: Vec<BlobHead> = rows(&*self.catalog, keys::BLOBS)
            .iter()
            .filter_map(|(_, row)| BlobHead::decode(&row.head))
            .collect();
        for (copy, bytes) in std::mem::take(&mut self.lost) {
            let blob = heads.iter().find(|head| head.locations.contains(&copy));
            if blob.is_some_and(|head| head.locations.iter().any(|place| has(&self.tiers, place))) {
                self.tiers[object(&copy).0].store(&copy.path(), bytes);
            }
        }
    }
}
