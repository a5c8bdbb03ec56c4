//! Evaluation of lifecycle rules, for all services: which versions and uploads are due.

use crate::config::lifecycle::{Expiration, Lifecycle, LifecycleRule};
use crate::config::tags::Tags;

/// Time as lifecycle rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Unix time in milliseconds.
    pub ms: i64,
    /// Length of a day in milliseconds.
    pub day_ms: u64,
}

impl Now {
    /// Returns true if a number of days have passed since a time in Unix milliseconds.
    fn is_past(self, since_ms: i64, days: u32) -> bool {
        self.ms >= since_ms.saturating_add(i64::from(days).saturating_mul(self.day_ms.cast_signed()))
    }
}

/// A version of a key, as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct VersionFacts {
    /// True for a delete marker.
    pub is_marker: bool,
    /// Time of the last modification, in Unix milliseconds.
    pub modified_ms: i64,
}

/// A version that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Number of the version, from 0 for the newest.
    pub version: usize,
    /// True to hide the current object behind a delete marker if the bucket is versioned, and false to remove the
    /// version.
    pub expires: bool,
}

/// Returns the rules that are in force.
fn enabled(rules: &Lifecycle) -> impl Iterator<Item = &LifecycleRule> {
    rules.rules.iter().filter(|rule| rule.enabled)
}

/// Returns the due versions of a key, each once. `versions` has the versions of the key from the newest to the
/// oldest; `applies` returns whether the filter of a rule matches a version.
///
/// # Errors
/// Returns the error of `applies`.
pub fn due<E>(
    rules: &Lifecycle,
    versions: &[VersionFacts],
    now: Now,
    mut applies: impl FnMut(&LifecycleRule, usize) -> Result<bool, E>,
) -> Result<Vec<Due>, E> {
    let mut found: Vec<Due> = Vec::new();
    let Some(current) = versions.first() else { return Ok(found) };
    for rule in enabled(rules) {
        let is_due = match rule.expiration {
            None => false,
            Some(Expiration::DeleteMarkers) => current.is_marker && versions.len() == 1,
            Some(Expiration::Days(days)) => !current.is_marker && now.is_past(current.modified_ms, days),
            Some(Expiration::Date(at)) => !current.is_marker && now.ms >= at.saturating_mul(1000),
        };
        if is_due && applies(rule, 0)? {
            found.push(Due { version: 0, expires: !current.is_marker });
        }
        let Some(noncurrent) = rule.noncurrent else { continue };
        for version in 1 + noncurrent.keep as usize..versions.len() {
            // A version becomes noncurrent when the next one is written.
            let since_ms = versions[version - 1].modified_ms;
            if now.is_past(since_ms, noncurrent.days) && applies(rule, version)? {
                found.push(Due { version, expires: false });
            }
        }
    }
    found.sort_by_key(|due| due.version);
    found.dedup_by_key(|due| due.version);
    Ok(found)
}

/// Returns whether a rule aborts an unfinished upload of a key, which began at a time in Unix milliseconds.
pub fn aborts(rules: &Lifecycle, key: &str, tags: &Tags, initiated_ms: i64, now: Now) -> bool {
    enabled(rules).any(|rule| {
        rule.abort_after_days.is_some_and(|days| now.is_past(initiated_ms, days))
            && rule.filter.matches(key, 0, tags)
    })
}
