//! Lifecycle transitions of buckets as rules of moves.

use std::cmp::Reverse;

use plimsoll_server::config::lifecycle::{Expiration, Filter, Lifecycle};

use super::condition::{Comparison, Condition};
use super::rules::Rule;
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::Store;

/// Time for which the source of a transition stays, in milliseconds.
const KEEP_SOURCE_MS: u64 = 86_400_000;

/// Returns the rules of all buckets whose storage classes belong to tiers.
///
/// # Errors
/// If the catalog cannot be read.
pub fn bucket_rules<C: Catalog>(store: &Store<C>, day_ms: u64) -> Result<Vec<Rule>, CatalogError> {
    let tiers: Vec<u16> = store.blobs.tiers().iter().map(|(number, _)| number).collect();
    let mut rules = Vec::new();
    for (name, bucket) in store.all_buckets()? {
        if let Some(lifecycle) = &bucket.info.lifecycle {
            let class = |class: &str| store.classes.get(class).copied();
            rules.extend(rules_of(&name, lifecycle, &class, &tiers, day_ms, wall_now().as_second()));
        }
    }
    Ok(rules)
}

/// Returns the condition of a filter.
fn condition(bucket: &str, filter: &Filter, least_age_ms: u64) -> Condition {
    let mut all = vec![
        Condition::Bucket(bucket.to_string()),
        Condition::Prefix(filter.prefix.clone()),
        Condition::Age(Comparison::AtLeast, least_age_ms),
    ];
    all.extend(filter.larger_than.map(|bytes| Condition::Size(Comparison::Greater, bytes)));
    all.extend(filter.smaller_than.map(|bytes| Condition::Size(Comparison::Less, bytes)));
    let tags = filter.tags.0.iter();
    all.extend(tags.map(|(name, value)| Condition::Tag(name.clone(), value.clone())));
    Condition::All(all)
}

/// Storage classes of S3 in the order in which its lifecycle rules move objects: to a later class, and never back
/// ("Amazon S3 User Guide", "Supported transitions").
const CLASSES: [&str; 7] =
    ["STANDARD", "STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR", "GLACIER", "DEEP_ARCHIVE"];

/// Returns the rules of a bucket. The latest transition comes first, and no rule moves an object back from the tier of
/// a later one.
fn rules_of(
    bucket: &str,
    lifecycle: &Lifecycle,
    class: &dyn Fn(&str) -> Option<u16>,
    tiers: &[u16],
    day_ms: u64,
    now_s: i64,
) -> Vec<Rule> {
    let mut transitions = Vec::new();
    for rule in lifecycle.rules.iter().filter(|rule| rule.enabled) {
        for transition in &rule.transitions {
            let least_age_ms = match transition.after {
                Expiration::Days(days) => u64::from(days) * day_ms,
                // A date that has passed applies to objects of any age; before it, the transition applies to none.
                Expiration::Date(at) if at <= now_s => 0,
                Expiration::Date(_) | Expiration::DeleteMarkers => continue,
            };
            // The class had a tier when the client stored the rule (`check_classes`); the settings may have changed.
            if let Some(to) = class(&transition.storage_class) {
                let rank = CLASSES.iter().position(|class| *class == transition.storage_class);
                transitions.push((least_age_ms, (to, rank), condition(bucket, &rule.filter, least_age_ms)));
            }
        }
    }
    // An old object matches every transition, and the first rule that matches applies.
    transitions.sort_by_key(|(least_age_ms, ..)| Reverse(*least_age_ms));
    let mut rules = Vec::new();
    let mut later: Vec<(u16, Condition)> = Vec::new();
    for (_, (to, rank), when) in transitions {
        // A client may have written an object to a later class.
        let is_back = |from: u16| {
            let from = CLASSES.iter().rposition(|name| class(name) == Some(from));
            from.zip(rank).is_some_and(|(from, to)| from > to)
        };
        for from in tiers.iter().copied().filter(|from| *from != to && !is_back(*from)) {
            // An old object also matches the earlier transitions. Without these conditions, an earlier one would move
            // it back from the tier of a later one, which would move it again.
            let here = later.iter().filter(|(to, _)| *to == from).map(|(_, when)| when.clone());
            let not_here = here.map(|when| Condition::Not(Box::new(when)));
            let when = Condition::All(std::iter::once(when.clone()).chain(not_here).collect());
            // A lifecycle rule has no settings for these. The time is the default of `keep_source` in `[[move]]`.
            rules.push(Rule { from, to, when, keep_source_ms: KEEP_SOURCE_MS, min_stay_ms: 0, gate: None });
        }
        later.push((to, when));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mover::condition::Facts;

    const DAY_MS: u64 = 86_400_000;

    /// Returns the tier that an object moves to.
    fn moves(rules: &[Rule], from: u16, key: &str, age_days: u64, size: u64) -> Option<u16> {
        let tags = || vec![("k".to_string(), "v".to_string())];
        let age_ms = age_days * DAY_MS;
        let facts = Facts { bucket: "b", key, size, age_ms, reads_per_day: &|| 0.0, tags: &tags };
        rules.iter().find(|rule| rule.from == from && rule.when.is_true(&facts)).map(|rule| rule.to)
    }

    fn rules(document: &str) -> Vec<Rule> {
        let document = format!("<LifecycleConfiguration>{document}</LifecycleConfiguration>");
        let lifecycle = Lifecycle::parse(document.as_bytes()).unwrap();
        let class = |class: &str| match class {
            "STANDARD_IA" => Some(1),
            "GLACIER" => Some(2),
            _ => None,
        };
        rules_of("b", &lifecycle, &class, &[0, 1, 2], DAY_MS, 1_790_000_000)
    }

    #[test]
    fn an_object_moves_down_step_by_step_and_never_back() {
        let rules = rules(
            "<Rule><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status>\
             <Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>\
             <Transition><Days>90</Days><StorageClass>GLACIER</StorageClass></Transition></Rule>",
        );
        for (from, age, to) in [
            (0, 29, None),
            (0, 30, Some(1)),
            (1, 30, None),
            (0, 90, Some(2)),
            (1, 90, Some(2)),
            (2, 400, None),
        ] {
            assert_eq!(moves(&rules, from, "logs/a", age, 1), to, "from {from} at {age} days");
        }
        assert_eq!(moves(&rules, 0, "data/a", 400, 1), None);
    }

    /// Regression test: an object of one filter stayed in the tier of a later transition of another filter.
    #[test]
    fn transitions_of_other_filters_do_not_hold_an_object() {
        let rule = |prefix: &str, transitions: &[(u32, &str)]| {
            let each = |(days, class): &(u32, &str)| {
                format!("<Transition><Days>{days}</Days><StorageClass>{class}</StorageClass></Transition>")
            };
            let transitions: String = transitions.iter().map(each).collect();
            format!(
                "<Rule><Filter><Prefix>{prefix}</Prefix></Filter><Status>Enabled</Status>{transitions}</Rule>"
            )
        };
        let a = rule("a/", &[(90, "STANDARD_IA")]);
        let rules = rules(&format!("{a}{}", rule("b/", &[(10, "STANDARD_IA"), (30, "GLACIER")])));
        for (from, key, age, to) in [
            (0, "b/1", 10, Some(1)),
            (1, "b/1", 30, Some(2)),
            (1, "b/1", 20, None),
            (2, "b/1", 90, None),
            (1, "a/1", 90, None),
            // Written by a client with this class.
            (2, "a/1", 90, None),
        ] {
            assert_eq!(moves(&rules, from, key, age, 1), to, "{key} from {from} at {age} days");
        }
    }

    #[test]
    fn filters_dates_and_disabled_rules_apply() {
        let one = |filter: &str, status: &str, when: &str| {
            rules(&format!(
                "<Rule><Filter>{filter}</Filter><Status>{status}</Status><Transition>{when}\
                 <StorageClass>GLACIER</StorageClass></Transition></Rule>"
            ))
        };
        let size = one("<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>", "Enabled", "<Days>0</Days>");
        assert_eq!((moves(&size, 0, "k", 0, 5), moves(&size, 0, "k", 0, 6)), (None, Some(2)));
        let tag = one("<Tag><Key>k</Key><Value>w</Value></Tag>", "Enabled", "<Days>0</Days>");
        assert_eq!(moves(&tag, 0, "k", 9, 9), None);
        assert!(one("", "Disabled", "<Days>0</Days>").is_empty());
        assert!(one("", "Enabled", "<Date>2099-01-01</Date>").is_empty());
        assert_eq!(moves(&one("", "Enabled", "<Date>2020-01-01</Date>"), 0, "k", 0, 1), Some(2));
    }
}
