//! The next action of the rules for an object, and its time: the conditions are evaluated at the ages at which they can
//! change.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::{Found, age_ms, at};
use crate::mover::rules::{Rule, Rules};
use crate::mover::scan::Visited;
use crate::mover::transition::bucket_rules;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::placement::ReadPlace;
use plimsoll_objects::row::Body;
use plimsoll_objects::{Bucket, Store};

/// Next action of the rules for an object, if its reads and tags stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Next {
    /// No rule applies to the object at any age.
    Stays,
    /// The object moves to a tier.
    Moves {
        /// Name of the tier.
        to: String,
        /// The rule, such as `move 1`, or `lifecycle` for a rule of the bucket.
        rule: String,
        /// Earliest time. Budgets and queues may delay the move.
        #[serde(serialize_with = "super::as_text")]
        from: Timestamp,
    },
    /// The object moves into a pack file.
    Packs {
        /// Name of the tier of the pack file.
        to: String,
        /// Earliest time of the packing.
        #[serde(serialize_with = "super::as_text")]
        from: Timestamp,
    },
    /// A rule applies, but the move would cost more than it saves.
    TooDear {
        /// Name of the tier.
        to: String,
    },
}

/// Returns the earliest age, not before `now`, at which a rule selects an object, and the rule.
fn first_age<'r>(
    rules: &[(usize, &'r Rule)],
    now_ms: u64,
    selects: &dyn Fn(&Rule, u64) -> bool,
) -> Option<(u64, usize, &'r Rule)> {
    let mut ages: Vec<u64> = rules.iter().flat_map(|(_, rule)| rule.when.ages()).collect();
    // A comparison may change at its value or just behind it.
    ages = ages.into_iter().flat_map(|ms| [ms, ms + 1]).filter(|ms| *ms > now_ms).collect();
    // A rule may apply already, or have no condition on the age.
    ages.push(now_ms);
    ages.sort_unstable();
    let selected = |age_ms: u64| rules.iter().find(|(_, rule)| selects(rule, age_ms));
    ages.into_iter().find_map(|age_ms| selected(age_ms).map(|(index, rule)| (age_ms, *index, *rule)))
}

/// Returns what the rules will do with an object.
///
/// # Errors
/// If the catalog cannot be read.
pub fn next<C: Catalog>(
    store: &Store<C>,
    rules: &Rules,
    bucket: &Bucket,
    key: &str,
    found: &Found,
) -> Result<Next, CatalogError> {
    let Found { catalog_key, row, head } = found;
    // Visits skip empty objects (mover/scan.rs).
    if head.size == 0 {
        return Ok(Next::Stays);
    }
    let name: Arc<str> = Arc::clone(&bucket.name);
    let visited = |age_ms: u64| Visited { catalog_key, bucket: &name, key, head, row, age_ms };
    let now_ms = age_ms(head);
    let written_ms = u64::try_from(head.modified_ms).unwrap_or(0);
    let time = |age_ms: u64| at(written_ms + age_ms).unwrap_or_default();
    let place = match store.read_place(catalog_key, row, &head.body)? {
        ReadPlace::Tier(place) => Some(place),
        ReadPlace::Catalog | ReadPlace::Unknown => None,
    };
    // In the order of `Pass::next`, because the first rule that applies wins.
    let all: Vec<Rule> = rules.moves.iter().cloned().chain(bucket_rules(store, rules.day_ms)?).collect();
    let is_here = |rule: &Rule| place.as_ref().is_some_and(|place| place.tier == rule.from);
    let here: Vec<(usize, &Rule)> = all.iter().enumerate().filter(|(_, rule)| is_here(rule)).collect();
    let selects = |rule: &Rule, age_ms: u64| {
        let only = std::iter::once((0, rule));
        visited(age_ms).find(store, only, |rule, facts| rule.when.is_true(facts)).is_some()
    };
    let packing = &rules.packing;
    let is_packable = matches!(head.body, Body::Inline | Body::Blob(_)) && head.size <= packing.max_body;
    let packs =
        packing.tier.filter(|tier| is_packable && place.as_ref().is_none_or(|place| place.tier == *tier));
    let packs_at_ms = packs.map(|tier| (packing.min_age_ms.max(now_ms), tier));
    match (first_age(&here, now_ms, &selects), &place) {
        (Some((age_ms, index, rule)), Some(place)) if packs_at_ms.is_none_or(|(ms, _)| age_ms <= ms) => {
            let to = store.tier_name(rule.to);
            // Without the minimum stay, which `Rule::allows` includes: it only delays a move.
            if !rule.pays(place, head.size) {
                return Ok(Next::TooDear { to });
            }
            let stays_until = place.written_ms().map_or(0, |ms| ms + rule.min_stay_ms);
            let from = time(age_ms).max(at(stays_until).unwrap_or_default());
            let is_of_settings = index < rules.moves.len();
            let rule = if is_of_settings { format!("move {}", index + 1) } else { "lifecycle".into() };
            Ok(Next::Moves { to, rule, from })
        }
        _ => Ok(packs_at_ms.map_or(Next::Stays, |(age_ms, tier)| Next::Packs {
            to: store.tier_name(tier),
            from: time(age_ms),
        })),
    }
}
