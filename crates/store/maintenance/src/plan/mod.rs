//! Plans: the moves that the rules require now, with their requests and bytes. Nothing is changed.

pub mod bill;
pub mod listing;
pub mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plimsoll_base::provider::calls::Call;
use plimsoll_cost::period::DAY_S;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::tiering;

use crate::mover::Move;
use crate::mover::budget::Cost;
use crate::mover::pack::PackJob;
use crate::mover::pack_reader::ranges;
use crate::mover::pass::Pass;
use crate::mover::rules::Rules;
use crate::mover::scan::complete_blob;
use plimsoll_bodies::location::Location;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::pricing::{Stock, Work};
use plimsoll_bodies::trailer::length_of_pack_file;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::Store;
use plimsoll_objects::row::Body;

/// Properties of the tiers that a plan depends on.
pub struct Terms<'a> {
    /// Tariffs of the tiers that have prices.
    pub tariffs: &'a BTreeMap<u16, Tariff>,
    /// Number of the tier in whose network the gateway runs.
    pub home: u16,
    /// Current time in Unix milliseconds.
    pub now_ms: u64,
}

impl Terms<'_> {
    /// Returns true if bytes that move between two tiers leave the network of the first one.
    fn crosses(&self, from: u16, to: u16) -> bool {
        match (self.tariffs.get(&from), self.tariffs.get(&to)) {
            (Some(from), Some(to)) => tiering::crosses(from, to),
            // The network of a tier is known only from its tariff.
            _ => false,
        }
    }

    /// Returns the minimum number of days for which a tier bills a blob.
    fn minimum_days(&self, tier: u16) -> u64 {
        self.tariffs.get(&tier).map_or(0, |tariff| tariff.rules.minimum_days)
    }
}

/// Work that the rules require now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Number of objects and versions in the store that are not empty.
    pub objects: u64,
    /// Blobs and whole pack files that move.
    pub moves: u64,
    /// Objects whose bodies move into pack files.
    pub packed: u64,
    /// Pack files that are written.
    pub pack_files: u64,
    /// Bytes of the bodies that move.
    pub bytes: u64,
    /// Requests and bytes at each tier, by its number.
    pub work: BTreeMap<u16, Work>,
    /// Writes at each tier if each small body that is packed became a separate blob.
    pub alone: BTreeMap<u16, Work>,
    /// Blobs in each tier before the moves.
    pub before: BTreeMap<u16, Stock>,
    /// Deleted and replaced objects that each tier keeps.
    pub kept: BTreeMap<u16, Stock>,
    /// Blobs that each tier receives.
    pub added: BTreeMap<u16, Stock>,
    /// Blobs that leave each tier after the moves.
    pub removed: BTreeMap<u16, Stock>,
}

impl Plan {
    /// Returns what the moves cost. Work at a tier without a price, or that the tier has no price for, costs nothing.
    pub fn cost(&self, tariffs: &BTreeMap<u16, Tariff>) -> Cost {
        let mut cost = Cost { bytes: self.bytes, ..Cost::default() };
        for (tier, work) in &self.work {
            cost.requests += u64::try_from(work.calls.total()).unwrap_or(u64::MAX);
            if let Some(tariff) = tariffs.get(tier) {
                cost.usd += work.cost(tariff).unwrap_or_default();
                cost.usd += work.early_deletion(tariff).unwrap_or_default();
            }
        }
        cost
    }

    /// Adds the work of another plan.
    pub fn add(&mut self, other: Plan) {
        self.objects += other.objects;
        self.moves += other.moves;
        self.packed += other.packed;
        self.pack_files += other.pack_files;
        self.bytes += other.bytes;
        for (sums, works) in [(&mut self.work, other.work), (&mut self.alone, other.alone)] {
            works.into_iter().for_each(|(tier, work)| sums.entry(tier).or_default().add(work));
        }
        // Not `kept`: only parts of a listing are added, and a listing has no deleted objects.
        let stocks = [(&mut self.before, other.before), (&mut self.added, other.added)];
        for (sums, stocks) in stocks.into_iter().chain([(&mut self.removed, other.removed)]) {
            for (tier, stock) in stocks {
                sums.entry(tier).or_default().add(stock.blobs, stock.bytes);
            }
        }
    }

    /// Returns the blobs in a tier after the moves and the deletion of their sources.
    pub fn after(&self, tier: u16) -> Stock {
        let of = |stocks: &BTreeMap<u16, Stock>| stocks.get(&tier).copied().unwrap_or_default();
        let (mut stock, added, removed) = (of(&self.before), of(&self.added), of(&self.removed));
        stock.add(added.blobs, added.bytes);
        stock.remove(removed.blobs, removed.bytes);
        stock
    }
}

/// A plan that is being computed.
struct Planner<'a, C> {
    store: &'a Store<C>,
    terms: &'a Terms<'a>,
    plan: Plan,
    /// Bodies that leave each pack file.
    leaving: BTreeMap<BlobName, u64>,
}

impl<C: Catalog> Planner<'_, C> {
    fn work(&mut self, tier: u16) -> &mut Work {
        self.plan.work.entry(tier).or_default()
    }

    /// Adds the verification of a copy.
    fn read_back(&mut self, tier: u16, bytes: u64) {
        // The gateway compares the bytes, so they travel to its network.
        let crosses = self.terms.crosses(tier, self.terms.home);
        self.work(tier).read_blob(bytes, crosses);
    }

    /// Adds the deletion of a blob, and the rest of its minimum duration.
    fn delete(&mut self, place: &Location, bytes: u64, modified_ms: u64) {
        // The names of adopted objects have no time.
        let written_ms = place.written_ms().unwrap_or(modified_ms);
        let lived_ms = self.terms.now_ms.saturating_sub(written_ms);
        let lived_days = lived_ms / (DAY_S * 1000);
        let left = self.terms.minimum_days(place.tier).saturating_sub(lived_days);
        let work = self.work(place.tier);
        work.calls.add(Call::DeleteObject, 1);
        if left > 0 {
            *work.early.entry(left).or_default() += bytes;
        }
    }

    /// Adds a blob that leaves its place, with its trailer. Adopted objects have none.
    fn leaves(&mut self, place: &Location, bytes: u64, trailer: u64, modified_ms: u64) {
        let bytes = if place.is_adopted() { bytes } else { bytes + trailer };
        self.delete(place, bytes, modified_ms);
        self.plan.removed.entry(place.tier).or_default().add(1, bytes);
    }

    fn add_move(&mut self, planned: &Move) -> Result<(), CatalogError> {
        let Some(head) = complete_blob(self.store, &planned.blob)? else { return Ok(()) };
        let (size, to) = (planned.size, planned.to);
        let has_copy = head.locations.iter().any(|place| place.tier == to);
        let from = &head.locations[0];
        let crosses = self.terms.crosses(from.tier, to);
        self.plan.moves += 1;
        self.plan.bytes += size;
        // As in `mover::execute`: bytes that the destination has already are verified, and not sent again.
        if !has_copy {
            let part = self.store.blobs.part_bytes(to);
            self.work(from.tier).read_blob(size, crosses);
            self.work(to).write(size, part);
            // Separately: the trailer travels with the last part, and never adds a request (`bodies/writer.rs`).
            self.work(to).uploaded += planned.trailer();
            self.plan.added.entry(to).or_default().add(1, size + planned.trailer());
        }
        self.read_back(to, size);
        // Only a pack file has no object. Its name has a time, so 0 is never used.
        let modified_ms = planned.object.as_ref().map_or(0, |object| object.modified_ms);
        for place in head.locations.iter().filter(|place| place.tier != to) {
            self.leaves(place, size, planned.trailer(), modified_ms);
            // The copy must still exist when its source is deleted.
            self.work(to).calls.add(Call::HeadObject, 1);
        }
        Ok(())
    }

    fn add_pack(&mut self, job: &PackJob) -> Result<(), CatalogError> {
        let to = job.tier;
        let part = self.store.blobs.part_bytes(to);
        self.plan.pack_files += 1;
        self.plan.packed += job.candidates.len() as u64;
        self.plan.bytes += job.bytes;
        self.work(to).write(job.size, part);
        self.work(to).uploaded += length_of_pack_file(job.size);
        self.plan.added.entry(to).or_default().add(1, job.size + length_of_pack_file(job.size));
        for (pack_file, ranges) in ranges(job.candidates.iter().map(|candidate| &candidate.body)) {
            let Some(head) = complete_blob(self.store, &pack_file)? else { continue };
            let from = head.locations[0].tier;
            let crosses = self.terms.crosses(from, to);
            let bytes = ranges.iter().map(|range| range.end - range.start).sum();
            self.work(from).read(ranges.len() as u64, bytes, crosses);
        }
        for candidate in &job.candidates {
            let size = candidate.size;
            match &candidate.body {
                Body::Slice(slice) => *self.leaving.entry(slice.pack_file).or_default() += 1,
                Body::Blob(name) => {
                    let Some(head) = complete_blob(self.store, name)? else { continue };
                    let crosses = self.terms.crosses(head.locations[0].tier, to);
                    self.work(head.locations[0].tier).read(1, size, crosses);
                    // Without a HEAD request: packing discards the blob, so the deletion looks for no copy of it.
                    head.locations
                        .iter()
                        .for_each(|place| self.leaves(place, size, candidate.trailer, candidate.modified_ms));
                }
                Body::Inline | Body::Pieces => {}
            }
            self.plan.alone.entry(to).or_default().write(size, part);
        }
        self.read_back(to, job.size);
        Ok(())
    }

    /// Adds the pack files that no object uses after the moves.
    fn add_emptied(&mut self, pass: &Pass) -> Result<(), CatalogError> {
        for (pack_file, count) in std::mem::take(&mut self.leaving) {
            // One object that stays keeps the whole pack file in its tier.
            let Some(live) = pass.live(&pack_file).filter(|live| live.live <= count) else { continue };
            let Some(head) = complete_blob(self.store, &pack_file)? else { continue };
            head.locations
                .iter()
                .for_each(|place| self.leaves(place, live.size, length_of_pack_file(live.size), 0));
        }
        Ok(())
    }
}

/// Returns the plan of one move.
///
/// # Errors
/// If the catalog cannot be read.
pub fn of_move<C: Catalog>(
    store: &Store<C>,
    planned: &Move,
    terms: &Terms<'_>,
) -> Result<Plan, CatalogError> {
    let mut planner = Planner { store, terms, plan: Plan::default(), leaving: BTreeMap::new() };
    planner.add_move(planned)?;
    Ok(planner.plan)
}

/// Returns the plan of one pack file.
///
/// # Errors
/// If the catalog cannot be read.
pub fn of_pack<C: Catalog>(store: &Store<C>, job: &PackJob, terms: &Terms<'_>) -> Result<Plan, CatalogError> {
    let mut planner = Planner { store, terms, plan: Plan::default(), leaving: BTreeMap::new() };
    // The deletion of pack files that this empties is missing here: only a whole visit counts all that leave.
    planner.add_pack(job)?;
    Ok(planner.plan)
}

/// Computes what the rules require now.
///
/// # Errors
/// If the catalog cannot be read.
pub fn plan<C: Catalog>(store: &Store<C>, rules: &Rules, terms: &Terms<'_>) -> Result<Plan, CatalogError> {
    let mut pass = Pass::default();
    let mut last = visit(store, rules, terms, &mut pass)?;
    if pass.has_split() {
        // Objects leave pack files that contain others, too, in the second visit.
        last = visit(store, rules, terms, &mut pass)?;
    }
    Ok(last)
}

fn visit<C: Catalog>(
    store: &Store<C>,
    rules: &Rules,
    terms: &Terms<'_>,
    pass: &mut Pass,
) -> Result<Plan, CatalogError> {
    let mut planner = Planner { store, terms, plan: Plan::default(), leaving: BTreeMap::new() };
    loop {
        let batch = pass.next(store, rules)?;
        batch.moves.iter().try_for_each(|planned| planner.add_move(planned))?;
        batch.packs.iter().try_for_each(|job| planner.add_pack(job))?;
        if batch.ended {
            break;
        }
    }
    planner.add_emptied(pass)?;
    let mut plan = planner.plan;
    plan.objects = pass.objects();
    plan.before = pass.stock().clone();
    plan.kept = pass.kept();
    Ok(plan)
}
