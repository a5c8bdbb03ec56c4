//! Pack files that are written again: those with little live data, and small ones that are merged.

use std::collections::{BTreeMap, HashMap};

use super::rules::{Packing, lived_days};
use super::scan::{all_pack_files, complete_blob};
use plimsoll_bodies::location::{BlobHead, Location};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::pricing::Stock;
use plimsoll_bodies::trailer::length_of_pack_file;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::Store;
use plimsoll_objects::live::Live;

/// Maximum number of bodies in a pack file.
pub const MAX_RECORDS: usize = 100_000;

/// Share of live bytes below which a pack file is written again without its garbage.
const LEAST_LIVE: f64 = 0.5;

/// Number of pack files of similar size that are merged. Sizes are similar if they have the same number of digits in
/// this base, so a body is written again at most once for each digit.
const MERGE: u32 = 4;

/// A pack file at the start of the visit, and what the rules say about its objects.
pub struct PackFile {
    /// First place of the pack file.
    pub place: Location,
    /// Version of its row in the catalog.
    pub version: u64,
    /// Bodies that objects refer to.
    pub live: Live,
    /// True if the pack file is written again in any case.
    pub rewrite: bool,
    /// Bytes of objects visited.
    pub seen: u64,
    /// Bytes of objects that a rule moves, by rule.
    pub matched: BTreeMap<usize, u64>,
    /// Rules that may move the pack file, and those that may not.
    pub allows: BTreeMap<usize, bool>,
}

/// Returns the size class of a pack file; `None` if it is full.
fn size_class(live: &Live, packing: &Packing) -> Option<u32> {
    let is_full = live.bytes >= packing.file_size || live.records >= MAX_RECORDS as u64;
    (!is_full).then(|| live.bytes.max(1).ilog(u64::from(MERGE)))
}

/// Counts a blob at all its places. Adopted objects have no trailer.
pub fn count_blob(stock: &mut BTreeMap<u16, Stock>, head: &BlobHead, bytes: u64, trailer: u64) {
    for place in &head.locations {
        let trailer = if place.is_adopted() { 0 } else { trailer };
        stock.entry(place.tier).or_default().add(1, bytes + trailer);
    }
}

/// Returns the pack files with their tiers.
pub fn load_pack_files<C: Catalog>(
    store: &Store<C>,
    packing: &Packing,
    stock: &mut BTreeMap<u16, Stock>,
) -> Result<HashMap<BlobName, PackFile>, CatalogError> {
    let mut pack_files = HashMap::new();
    // Counted by tier, because a merge leaves bodies in their tier.
    let mut similar: BTreeMap<(u16, Option<u32>), u32> = BTreeMap::new();
    for (name, live) in all_pack_files(store)? {
        // The counts of an open pack file still rise, so its share in use would look too low.
        let Some(head) = complete_blob(store, &name)?.filter(|_| !live.open) else { continue };
        // Before the check below: kept versions need the bytes of their pack file in its tier, too.
        count_blob(stock, &head, live.size, length_of_pack_file(live.size));
        // Only versions that have left their buckets refer to it.
        if live.live == 0 {
            continue;
        }
        let Some(place) = head.locations.first() else { continue };
        *similar.entry((place.tier, size_class(&live, packing))).or_default() += 1;
        let gate = packing.gates.get(&place.tier);
        // A rewrite leaves the garbage behind, so only this share is copied and stored.
        let after = (live.share() * live.size as f64) as u64;
        let pays = gate.is_none_or(|gate| gate.pays(live.size, after, lived_days(place)));
        let rewrite = live.share() < LEAST_LIVE && pays;
        let (place, version) = (place.clone(), head.version);
        let pack_file = PackFile {
            place,
            version,
            live,
            rewrite,
            seen: 0,
            matched: BTreeMap::new(),
            allows: BTreeMap::new(),
        };
        pack_files.insert(name, pack_file);
    }
    for pack_file in pack_files.values_mut() {
        let class = size_class(&pack_file.live, packing);
        let count = similar.get(&(pack_file.place.tier, class)).copied().unwrap_or(0);
        // A full pack file has no class: merged with others, it would be copied and not become larger.
        pack_file.rewrite |= class.is_some() && count >= MERGE;
    }
    Ok(pack_files)
}
