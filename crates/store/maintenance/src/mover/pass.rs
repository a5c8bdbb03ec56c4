//! One visit of all objects that finds what the rules would move and pack now.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::candidate::Candidate;
use super::kept::count_kept;
use super::pack::PackJob;
use super::planned_move::Move;
use super::rewrite::{MAX_RECORDS, PackFile, count_blob, load_pack_files};
use super::rules::{Packing, Rule, Rules};
use super::scan::{Visited, complete_blob, visit_rows};
use super::survey::Survey;
use super::transition::bucket_rules;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::pricing::Stock;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::Store;
use plimsoll_objects::keys;
use plimsoll_objects::live::Live;
use plimsoll_objects::row::Body;

/// Number of moves with which a batch ends. The blobs of its last object may exceed it.
const MAX_MOVES: usize = 1000;
/// Number of pack files with which a batch ends. The last batch of a visit may have more.
const MAX_PACKS: usize = 2;

/// Work that was found.
#[derive(Debug, Default)]
pub struct Batch {
    /// Blobs and whole pack files to move.
    pub moves: Vec<Move>,
    /// Pack files to write.
    pub packs: Vec<PackJob>,
    /// True if the visit has reached its end.
    pub ended: bool,
}

/// A visit of all objects in batches.
#[derive(Default)]
pub struct Pass {
    /// Key after which the next batch begins; `None` at the start.
    after: Option<Vec<u8>>,
    pack_files: HashMap<BlobName, PackFile>,
    /// Pack files that contain objects to move and others, found by the previous visit.
    split: HashSet<BlobName>,
    jobs: BTreeMap<u16, PackJob>,
    objects: u64,
    /// Rules of the settings, and those of the buckets.
    moves: Arc<[Rule]>,
    /// Objects and blobs found so far.
    survey: Survey,
}

impl Rules {
    /// Returns true if these rules require nothing except in existing pack files. Buckets may have rules of their own.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.packing.tier.is_none()
    }
}

/// Returns the first rule that moves an object from a tier.
fn first<'r, C: Catalog>(
    moves: &'r [Rule],
    store: &Store<C>,
    tier: u16,
    visited: &Visited<'_>,
) -> Option<(usize, &'r Rule)> {
    let from = moves.iter().enumerate().filter(|(_, rule)| rule.from == tier);
    visited.find(store, from, |rule, facts| rule.when.is_true(facts))
}

impl Packing {
    /// Returns true if the body is small and old enough for a pack file.
    fn selects(&self, visited: &Visited<'_>) -> bool {
        visited.head.size <= self.max_body && visited.age_ms >= self.min_age_ms
    }
}

impl Pass {
    /// Returns the number of objects and versions visited.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Returns the blobs visited and all closed pack files, at all their places, by tier.
    pub fn stock(&self) -> &BTreeMap<u16, Stock> {
        &self.survey.blobs
    }

    /// Returns the deleted and replaced objects that are kept, by tier, after the end of the visit.
    pub fn kept(&self) -> BTreeMap<u16, Stock> {
        let in_tiers = self.survey.kept.iter();
        in_tiers.filter_map(|(place, stock)| place.map(|tier| (tier, *stock))).collect()
    }

    /// Takes the result of a visit that has ended.
    pub fn take_survey(&mut self) -> Survey {
        Survey { at_ms: now_ms(), ..std::mem::take(&mut self.survey) }
    }

    /// Returns the counts of a pack file at the start of the visit.
    pub fn live(&self, pack_file: &BlobName) -> Option<Live> {
        self.pack_files.get(pack_file).map(|pack_file| pack_file.live)
    }

    /// Returns true if the visit has found pack files with objects to move and others.
    pub fn has_split(&self) -> bool {
        !self.split.is_empty()
    }

    /// Continues the visit until there is enough work for a batch.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn next<C: Catalog>(&mut self, store: &Store<C>, rules: &Rules) -> Result<Batch, CatalogError> {
        let mut batch = Batch::default();
        let from = match self.after.take() {
            Some(key) => Bound::Excluded(key),
            None => {
                self.survey = Survey::default();
                self.pack_files = load_pack_files(store, &rules.packing, &mut self.survey.blobs)?;
                self.jobs.clear();
                self.objects = 0;
                // Read again for each visit, because clients change the lifecycle rules of their buckets.
                let of_buckets = bucket_rules(store, rules.day_ms)?;
                // The settings come first: of several rules for an object, the first one wins (docs/tiers.md).
                self.moves = rules.moves.iter().cloned().chain(of_buckets).collect();
                Bound::Included(keys::OBJECTS.to_vec())
            }
        };
        let ended = visit_rows(store, from.as_ref().map(Vec::as_slice), &mut |visited| {
            self.visit(store, rules, &visited, &mut batch)?;
            // The next batch begins behind this object, so all its blobs belong to this batch, even above the limit.
            if batch.moves.len() < MAX_MOVES && batch.packs.len() < MAX_PACKS {
                return Ok(true);
            }
            self.after = Some(visited.catalog_key.to_vec());
            Ok(false)
        })?;
        if ended {
            // Kept versions have rows of their own, which `visit_rows` does not visit.
            self.survey.kept = count_kept(store)?;
            self.end(&mut batch);
        }
        Ok(batch)
    }

    fn visit<C: Catalog>(
        &mut self,
        store: &Store<C>,
        rules: &Rules,
        visited: &Visited<'_>,
        batch: &mut Batch,
    ) -> Result<(), CatalogError> {
        self.objects += 1;
        let (packing, moves) = (&rules.packing, Arc::clone(&self.moves));
        let lingers = visited.age_ms >= packing.max_wait_ms;
        match &visited.head.body {
            Body::Inline => {
                self.survey.add(visited.bucket, None, visited.head.size);
                if let Some(tier) = packing.tier.filter(|_| packing.selects(visited)) {
                    self.add(tier, 0, visited, lingers, packing, batch);
                }
            }
            Body::Slice(slice) => {
                // A pack file that was open, or did not exist, at the start of the visit is left to the next one.
                let Some(pack_file) = self.pack_files.get_mut(&slice.pack_file) else { return Ok(()) };
                pack_file.seen += slice.size;
                self.survey.add(visited.bucket, Some(pack_file.place.tier), slice.size);
                let rule = first(&moves, store, pack_file.place.tier, visited);
                // The pack file would move as a whole, so its own age and size decide whether the rule allows it.
                let rule = rule.filter(|(index, rule)| {
                    let PackFile { place, live, allows, .. } = &mut *pack_file;
                    *allows.entry(*index).or_insert_with(|| rule.allows(place, live.size))
                });
                if let Some((index, _)) = rule {
                    *pack_file.matched.entry(index).or_default() += slice.size;
                }
                let (tier, rewrite) = (pack_file.place.tier, pack_file.rewrite);
                match rule {
                    // A rewrite copies the body in any case, so the body goes to the tier of its rule at once.
                    Some((_, rule)) if rewrite || self.split.contains(&slice.pack_file) => {
                        self.add(rule.to, 0, visited, true, packing, batch);
                    }
                    None if rewrite => self.add(tier, 0, visited, true, packing, batch),
                    _ => {}
                }
            }
            Body::Blob(_) | Body::Pieces => self.visit_blobs(store, rules, visited, batch)?,
        }
        Ok(())
    }

    /// Visits an object whose body is in blobs.
    fn visit_blobs<C: Catalog>(
        &mut self,
        store: &Store<C>,
        rules: &Rules,
        visited: &Visited<'_>,
        batch: &mut Batch,
    ) -> Result<(), CatalogError> {
        let (packing, moves) = (&rules.packing, Arc::clone(&self.moves));
        for (index, (blob, size)) in visited.blobs(store)?.into_iter().enumerate() {
            let Some(head) = complete_blob(store, &blob)? else { continue };
            count_blob(&mut self.survey.blobs, &head, size, visited.trailer(size));
            let Some(place) = head.locations.first() else { continue };
            // An object counts once, at the place of its first bytes, as in `Store::read_place`.
            if index == 0 {
                self.survey.add(visited.bucket, Some(place.tier), visited.head.size);
            }
            let rule = first(&moves, store, place.tier, visited).map(|(_, rule)| rule);
            let rule = rule.filter(|rule| rule.allows(place, size));
            // A slice is the body of an object, so a piece of a body stays a blob, however small it is.
            let is_whole = matches!(visited.head.body, Body::Blob(_)) && packing.tier.is_some();
            if is_whole && visited.head.size <= packing.max_body {
                // Without a rule, a blob does not leave its tier only to be packed.
                let packs = packing.tier == Some(place.tier) && packing.selects(visited);
                let tier = rule.map(|rule| rule.to).or(packing.tier.filter(|_| packs));
                let is_due = rule.is_some() || visited.age_ms >= packing.max_wait_ms;
                if let Some(tier) = tier {
                    let keep_source_ms = rule.map_or(0, |rule| rule.keep_source_ms);
                    self.add(tier, keep_source_ms, visited, is_due, packing, batch);
                }
            } else if let Some(rule) = rule {
                let (version, to, keep_source_ms) = (head.version, rule.to, rule.keep_source_ms);
                let object = Some(visited.described(size));
                self.survey.moves.add(1, size);
                batch.moves.push(Move { blob, size, version, to, keep_source_ms, object });
            }
        }
        Ok(())
    }

    /// Adds an object to the pack file that is being collected for a tier. A blob that has the body stays for
    /// `keep_source_ms` milliseconds after the move.
    fn add(
        &mut self,
        tier: u16,
        keep_source_ms: u64,
        visited: &Visited<'_>,
        is_due: bool,
        packing: &Packing,
        batch: &mut Batch,
    ) {
        self.survey.packs.add(1, visited.head.size);
        let job = self.jobs.entry(tier).or_insert_with(|| PackJob::new(tier));
        let record = visited.record_length();
        job.bytes += visited.head.size;
        job.size += record;
        job.is_due |= is_due;
        job.candidates.push(Candidate {
            catalog_key: visited.catalog_key.to_vec(),
            bucket: Arc::clone(visited.bucket),
            key: visited.key.into(),
            generation: visited.head.generation,
            body: visited.head.body.clone(),
            size: visited.head.size,
            record,
            trailer: visited.trailer(visited.head.size),
            modified_ms: u64::try_from(visited.head.modified_ms).unwrap_or(0),
            keep_source_ms,
        });
        if job.bytes >= packing.file_size || job.candidates.len() >= MAX_RECORDS {
            batch.packs.push(std::mem::replace(job, PackJob::new(tier)));
        }
    }

    /// Ends the visit: moves the pack files whose objects all move to the same tier.
    fn end(&mut self, batch: &mut Batch) {
        batch.ended = true;
        let due = std::mem::take(&mut self.jobs).into_values();
        // The others wait for more bodies, at most until one of theirs has the age `max_wait`.
        batch.packs.extend(due.filter(|job| job.is_due && !job.candidates.is_empty()));
        self.split.clear();
        for (name, pack_file) in &self.pack_files {
            // A pack file that is written again loses its objects to a new one, so it need not move.
            let Some((index, bytes)) = pack_file.matched.first_key_value().filter(|_| !pack_file.rewrite)
            else {
                continue;
            };
            // Some objects stay, which is known only now. The next visit takes the others out of the pack file.
            if *bytes < pack_file.seen {
                self.split.insert(*name);
                continue;
            }
            let rule = &self.moves[*index];
            let (size, version) = (pack_file.live.size, pack_file.version);
            let (to, keep_source_ms) = (rule.to, rule.keep_source_ms);
            self.survey.moves.add(1, size);
            batch.moves.push(Move { blob: *name, size, version, to, keep_source_ms, object: None });
        }
    }
}
