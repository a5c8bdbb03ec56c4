//! Clean-up: deletes the objects that a run created, and no others. Outside measured phases, a run deletes
//! objects only here. [`clean`] lists a key space, selects the keys that the rules of the run name, and
//! deletes them with the proof of ownership that the key space provides.

use std::collections::HashSet;
use std::ops::Range;

use super::Shard;
use super::background::{Background, ListingGuard, Pages};
use crate::store::ownership::KeySpace;
use crate::store::{Failure, Listing, Request, Store, Version};
use plimsoll_recorder::ErrorClass;
use plimsoll_workload::Dataset;
use plimsoll_workload::naming::RecordOrder;
use plimsoll_workload::schedule::{Phase, Role};
use plimsoll_workload::size::Size;

/// Numbers of objects and uploads that a clean-up removed or kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanupCounts {
    /// Number of objects deleted.
    pub deleted: u64,
    /// Number of unfinished multipart uploads aborted.
    pub aborted: u64,
    /// Number of old versions and delete markers permanently deleted, if the store keeps versions.
    pub versions: u64,
    /// True if the store refused to list versions, so that none were deleted.
    pub versions_hidden: bool,
    /// Number of keys in the key space that the run did not create and that were kept.
    pub foreign: u64,
}

/// Maximum number of foreign keys in a key space. A listing with more of them is considered wrong.
const MAX_FOREIGN: u64 = 1_000_000;

/// Folders of the objects that checks of a store create.
const CHECKS: [&str; 3] = ["probe/", "consistency/", "durability/"];

/// A rule that identifies keys that the run created.
#[derive(Debug, Clone)]
enum Rule {
    /// Every key of the key space except one; an empty string excludes none.
    Everything { except: String },
    /// Objects that checks of a store create.
    Checks,
    /// Objects of a dataset. If `prepared`, other shards may still read them, so each shard deletes only its
    /// own part.
    Dataset { dataset: Box<Dataset>, prepared: bool },
    /// Records of a table: all of them if `range` is `None`, or those in a range of record numbers. The hash
    /// of a record number cannot be inverted, so `existing` is determined first: the numbers in the keys of
    /// those records of the range that the table contains.
    Records {
        prefix: String,
        digits: usize,
        order: RecordOrder,
        range: Option<Range<u64>>,
        existing: HashSet<u64>,
        multipart: bool,
    },
}

/// Rules that identify the keys that a run may have created in a key space. One shard of N deletes every N-th
/// prepared object, because the other shards may still read theirs. It deletes all objects that measured
/// phases wrote, because no shard reads them and any shard may have written any of them.
#[derive(Debug, Clone)]
pub struct CleanupScope {
    rules: Vec<Rule>,
    shard: Shard,
    /// ID of the process that created the objects, whose temporary files are removed.
    process: u32,
}

impl CleanupScope {
    fn new(rules: Vec<Rule>, shard: Shard) -> CleanupScope {
        CleanupScope { rules, shard, process: std::process::id() }
    }

    /// Returns the same rules for objects that another process created.
    pub fn created_by_process(self, process: u32) -> CleanupScope {
        CleanupScope { process, ..self }
    }

    /// Returns rules for the objects that a run of these phases creates in its own key space.
    pub fn of_phases(phases: &[Phase], shard: Shard) -> CleanupScope {
        let written = phases.iter().map(|p| (p.workload.written.clone(), p.role == Role::Prepare));
        let copies = phases.iter().filter_map(|p| Some((p.workload.copies.clone()?, false)));
        // Records are in another key space.
        let mut datasets: Vec<(Dataset, bool)> =
            written.chain(copies).filter(|(d, _)| d.at.is_none()).collect();
        let seed = datasets.first().map_or(0, |(d, _)| d.seed);
        datasets.push((shard_markers(seed, shard.of), true));
        let rule = |(dataset, prepared)| Rule::Dataset { dataset: Box::new(dataset), prepared };
        CleanupScope::new(datasets.into_iter().map(rule).collect(), shard)
    }

    /// Returns a rule for the objects that checks of a store create in the key space of their run.
    pub fn checks() -> CleanupScope {
        CleanupScope::new(vec![Rule::Checks], Shard::default())
    }

    /// Returns a rule for every key of a bucket that Plimsoll created.
    pub fn everything() -> CleanupScope {
        CleanupScope::everything_except("")
    }

    /// Returns a rule for every key of such a bucket except `key`.
    pub fn everything_except(key: &str) -> CleanupScope {
        CleanupScope::new(vec![Rule::Everything { except: key.to_string() }], Shard::default())
    }

    /// Returns a rule for the records that a phase creates in a table: those that it loads, or those that it
    /// inserts after the existing ones, at most one per operation. Returns `None` if the phase creates none
    /// or their maximum number is unknown.
    pub fn records(phase: &Phase) -> Option<CleanupScope> {
        let workload = &phase.workload;
        let dataset = &workload.written;
        let (prefix, order, digits, first) =
            dataset.naming.record_parts().filter(|_| dataset.at.is_some())?;
        let (begin, count) = match workload.inserts {
            Some(inserts) => (first.saturating_add(inserts.from), phase.limit.operations?),
            None if workload.read.is_none() => (first, dataset.count),
            None => return None,
        };
        let rule = Rule::Records {
            prefix: prefix.to_string(),
            digits,
            order,
            range: Some(begin..begin.saturating_add(count)),
            existing: HashSet::new(),
            multipart: dataset.upload.part_size > 0,
        };
        Some(CleanupScope::new(vec![rule], Shard::default()))
    }

    /// Returns the same rules extended to every record of the table, whichever run wrote it.
    pub fn whole_table(mut self) -> CleanupScope {
        for rule in &mut self.rules {
            if let Rule::Records { range, .. } = rule {
                *range = None;
            }
        }
        self
    }

    /// Returns the rules with the records that exist in the key space.
    ///
    /// # Errors
    /// Returns the failure of the listing.
    async fn find_records(
        &self,
        background: &mut Background,
        space: &KeySpace,
        ordered: bool,
    ) -> Result<CleanupScope, Failure> {
        let mut found = self.clone();
        for rule in &mut found.rules {
            let Rule::Records { prefix, digits, order, range: Some(range), existing, .. } = rule else {
                continue;
            };
            let mut listed = HashSet::new();
            let mut pages = Pages::new(space.root()).ascending(ordered);
            while let Some(page) = pages.next(background).await? {
                let numbers =
                    page.objects.iter().filter_map(|o| number_of(space.root(), &o.key, prefix, *digits));
                listed.extend(numbers);
            }
            let left = |number: &u64| listed.remove(number);
            *existing = range.clone().map(|record| order.number(record)).filter(left).collect();
        }
        Ok(found)
    }

    /// Returns true if the run created the object with this key.
    pub fn owns(&self, root: &str, key: &str) -> bool {
        let mut rules = self.rules.iter();
        rules.find_map(|rule| rule.owns(root, key, self.shard)).unwrap_or(false)
    }

    /// Returns true if unfinished multipart uploads may exist. Not every store can list them.
    fn uses_multipart(&self) -> bool {
        self.rules.iter().any(|rule| match rule {
            Rule::Everything { .. } | Rule::Checks => true,
            Rule::Dataset { dataset, .. } => dataset.upload.part_size > 0,
            Rule::Records { multipart, .. } => *multipart,
        })
    }
}

impl Rule {
    /// Returns true if the object with this key must be deleted; `None` if the rule does not apply to the
    /// key.
    fn owns(&self, root: &str, key: &str, shard: Shard) -> Option<bool> {
        match self {
            Rule::Everything { except } => {
                Some(key.starts_with(root) && (key != except || except.is_empty()))
            }
            Rule::Checks => {
                let name = key.strip_prefix(root)?;
                Some(CHECKS.iter().any(|folder| name.starts_with(folder)))
            }
            Rule::Dataset { dataset, prepared } => {
                let index = dataset.index_of(root, key)?;
                Some(!prepared || index % shard.of == shard.index)
            }
            Rule::Records { prefix, digits, range, existing, .. } => {
                let number = number_of(root, key, prefix, *digits)?;
                Some(range.is_none() || existing.contains(&number))
            }
        }
    }
}

/// Returns the number in the key of a record; `None` for any other key.
fn number_of(root: &str, key: &str, prefix: &str, digits: usize) -> Option<u64> {
    let number = key.strip_prefix(root)?.strip_prefix(prefix)?;
    let fit = number.len() >= digits && number.bytes().all(|b| b.is_ascii_digit());
    number.parse().ok().filter(|_| fit)
}

/// Returns the dataset of the `of` marker objects, which each shard writes when it has prepared its objects.
pub fn shard_markers(seed: u64, of: u64) -> Dataset {
    Dataset::new("shard-prepared", seed, of, Size::Fixed(0))
}

/// Deletes every object of the key space that the run created, aborts its unfinished uploads, and deletes the
/// old versions and delete markers that remain. Calls `progress` with the number of objects deleted so far.
///
/// # Errors
/// Returns the first failure of a request, or one of class [`ErrorClass::Corrupt`] if a listing is invalid. A
/// failure to abort uploads or to delete versions does not prevent the remaining steps.
pub async fn clean(
    store: &dyn Store,
    background: &mut Background,
    space: &KeySpace,
    owned: &CleanupScope,
    mut progress: impl FnMut(u64),
) -> Result<CleanupCounts, Failure> {
    let ordered = store.capabilities().start_after;
    let owned = &owned.find_records(background, space, ordered).await?;
    let mut cleaned = CleanupCounts::default();
    let mut pages = Pages::new(space.root()).ascending(ordered);
    let mut bulk = true;
    while let Some(Listing { objects, .. }) = pages.next(background).await? {
        let listed = objects.len() as u64;
        let ours: Vec<String> =
            objects.into_iter().map(|o| o.key).filter(|key| owned.owns(space.root(), key)).collect();
        cleaned.foreign += listed - ours.len() as u64;
        if cleaned.foreign > MAX_FOREIGN {
            let message = format!(
                "the store listed over {MAX_FOREIGN} keys that the run did not create: \
                 the listing seems wrong, so clean-up stopped"
            );
            return Err(Failure::new(ErrorClass::Corrupt, message, Default::default()));
        }
        if !ours.is_empty() {
            delete(background, space, &ours, &mut bulk).await?;
            cleaned.deleted += ours.len() as u64;
            progress(cleaned.deleted);
        }
    }
    let mut problem = None;
    if owned.uses_multipart() && store.capabilities().multipart {
        cleaned.aborted = abort_uploads(background, space, owned).await.unwrap_or_else(|failure| {
            problem = Some(failure);
            0
        });
    }
    if store.profile().is_some_and(|profile| profile.versions) {
        match delete_versions(background, space, owned).await {
            Ok(deleted) => {
                (cleaned.versions, cleaned.versions_hidden) = (deleted.unwrap_or(0), deleted.is_none())
            }
            Err(failure) => problem = problem.or(Some(failure)),
        }
    }
    store.remove_leftovers(space.root(), owned.process);
    problem.map_or(Ok(cleaned), Err)
}

/// Aborts the run's unfinished uploads, such as those of a killed process. Returns their number.
///
/// # Errors
/// Returns the failure of a listing or of an abort.
async fn abort_uploads(
    background: &mut Background,
    space: &KeySpace,
    owned: &CleanupScope,
) -> Result<u64, Failure> {
    let (mut aborted, mut token, mut guard) = (0, String::new(), ListingGuard::default());
    loop {
        let request = Request::ListUploads { prefix: space.root(), token: &token };
        let reply = background.send_until_answered(request).await?;
        for (key, upload_id) in reply.uploads.iter().filter(|(key, _)| owned.owns(space.root(), key)) {
            let Some(key) = space.own(key) else { continue };
            match background.send_until_answered(Request::AbortMultipart { key, upload_id }).await {
                Ok(_) => aborted += 1,
                // The upload ended in the meantime.
                Err(failure) if failure.is_code("NoSuchUpload") => {}
                Err(failure) => return Err(failure),
            }
        }
        let Some(next) = reply.next_token else { return Ok(aborted) };
        advance(&mut guard, &next, reply.uploads.is_empty())?;
        token = next;
    }
}

/// Permanently deletes old versions and delete markers. Returns their number; `None` if the store does not
/// list versions.
///
/// # Errors
/// Returns the failure of a listing or a deletion, unless the first listing shows that the store does not
/// list versions.
async fn delete_versions(
    background: &mut Background,
    space: &KeySpace,
    owned: &CleanupScope,
) -> Result<Option<u64>, Failure> {
    let (mut deleted, mut token, mut guard) = (0, String::new(), ListingGuard::default());
    loop {
        let listed = background
            .send_until_answered(Request::ListVersions { prefix: space.root(), token: &token })
            .await;
        let reply = match listed {
            Ok(reply) => reply,
            // The request is not implemented or not permitted, or the response is another kind of listing.
            Err(failure)
                if token.is_empty()
                    && (matches!(failure.status(), Some(400 | 403 | 404 | 405 | 501))
                        || failure.class == ErrorClass::Corrupt) =>
            {
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        };
        let empty = reply.versions.is_empty();
        let ours: Vec<Version> =
            reply.versions.into_iter().filter(|v| owned.owns(space.root(), &v.key)).collect();
        for batch in ours.chunks(1000) {
            let Some(versions) = space.own_versions(batch) else { continue };
            background.send_until_answered(Request::DeleteVersions { versions }).await?;
            deleted += batch.len() as u64;
        }
        let Some(next) = reply.next_token else { return Ok(Some(deleted)) };
        advance(&mut guard, &next, empty)?;
        token = next;
    }
}

/// Checks the continuation token of the next page; see [`ListingGuard::advance`].
fn advance(guard: &mut ListingGuard, next: &str, empty: bool) -> Result<(), Failure> {
    guard
        .advance(next, empty)
        .map_err(|message| Failure::new(ErrorClass::Corrupt, message, Default::default()))
}

/// Deletes objects in bulk if the store supports it, otherwise one by one. Sets `bulk` to false if the store
/// rejects a bulk deletion.
///
/// # Errors
/// Returns the failure of the first deletion that fails.
async fn delete(
    background: &mut Background,
    space: &KeySpace,
    keys: &[String],
    bulk: &mut bool,
) -> Result<(), Failure> {
    for keys in keys.chunks(1000) {
        let Some(keys) = space.own_all(keys) else { continue };
        if *bulk {
            match background.send_until_answered(Request::DeleteMany { keys }).await {
                Ok(_) => continue,
                Err(failure) if matches!(failure.status(), Some(400 | 405 | 501)) => *bulk = false,
                Err(failure) => return Err(failure),
            }
        }
        for key in keys.each() {
            background.send_until_answered(Request::Delete { key }).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "clean_tests.rs"]
mod tests;
