//! Older states of the catalog that replace the current one, and what must not be deleted then.

use std::collections::BTreeSet;

use super::backend::{SimulatedTier, lock};
use super::catalog::{object, rows};
use super::time;
use super::world::{Backup, World, run};
use plimsoll_bodies::location::{BlobHead, State};
use plimsoll_catalog::{Catalog, Transaction};
use plimsoll_objects::keys;
use plimsoll_objects::owner::{self, Identity, record};

impl World {
    /// Copies the catalog, or kills all processes and replaces it with its copy, if what that needs is still kept.
    pub(super) fn back_up_or_restore(&mut self) {
        let now_ms = time::now_ms();
        let is_recent = |backup: &Backup| now_ms < backup.at_ms + self.retain_ms;
        match self.backup.take_if(|backup| is_recent(backup)) {
            Some(backup) => {
                self.gateways.clear();
                // The older catalog may know only the place whose bytes the tier has lost.
                self.repair_all();
                let newer = self.places_in_use();
                self.catalog.restore(backup.rows);
                // A position that nobody has announced cannot be missed.
                let known = owner::read(&*self.catalog).unwrap().map_or(0, |known| known.position);
                self.newer = self.seen_position().is_some_and(|seen| seen > known).then_some(newer);
                *self.history.lock().unwrap() = backup.history;
                lock(&self.shared).kept_until_ms = backup.kept_until_ms;
                self.is_restored = true;
                let gateway = self.start();
                self.gateways.push(gateway);
                if self.random.chance(70) {
                    self.reconcile();
                }
            }
            None => {
                let history = self.history.lock().unwrap().clone();
                let kept_until_ms = lock(&self.shared).kept_until_ms.clone();
                let rows = self.catalog.back_up();
                self.backup = Some(Backup { rows, history, kept_until_ms, at_ms: now_ms });
            }
        }
    }

    /// Returns the places of complete blobs from which they are read, and that exist.
    fn places_in_use(&self) -> BTreeSet<(usize, String)> {
        let rows = rows(&*self.catalog, keys::BLOBS);
        let heads = rows.iter().filter_map(|(_, row)| BlobHead::decode(&row.head));
        let complete = heads.filter(|head| head.state == State::Complete);
        let places: BTreeSet<_> = complete.map(|head| object(&head.locations[0])).collect();
        let names = self.tiers.each_ref().map(SimulatedTier::names);
        places.into_iter().filter(|(tier, name)| names[*tier].contains(name)).collect()
    }

    /// Returns the latest position that a tier has seen.
    fn seen_position(&self) -> Option<u64> {
        let record = |tier: &SimulatedTier| run(record::read(&*tier.objects)).ok().flatten();
        self.tiers.iter().filter_map(record).map(|found| found.record.position).max()
    }

    /// Makes an older catalog the owner of its tiers, as the command does after it has attached the newer blobs. Until
    /// then, nothing that the newer state reads may be deleted.
    pub(super) fn reconcile(&mut self) {
        let lost: BTreeSet<_> = self.lost.iter().map(|(place, _)| object(place)).collect();
        for (tier, name) in self.newer.take().unwrap_or_default() {
            if !self.tiers[tier].names().contains(&name) && !lost.contains(&(tier, name.clone())) {
                let text = format!("tier {tier}: {name} was deleted, which a newer catalog reads");
                lock(&self.shared).violate(text);
            }
        }
        let seen = self.seen_position();
        let rows = rows(&*self.catalog, keys::IDENTITY);
        if let (Some(seen), [_]) = (seen, rows.as_slice()) {
            let known = owner::read(&*self.catalog).unwrap();
            let next = known.map(|known| Identity { position: seen.max(known.position) + 1, ..known });
            let work = Box::new(move |t: &mut dyn Transaction| {
                next.into_iter().for_each(|next| owner::put(t, next));
                Ok(true)
            });
            run(self.catalog.commit(work, 64)).unwrap();
        }
    }
}
