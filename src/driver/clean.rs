//! Removes what a run created, and nothing else. This is the one path by which objects are deleted outside measured phases: it lists a
//! key space, keeps the keys that the run's own rules name, and deletes those with the key space's proof.

use std::collections::HashSet;
use std::ops::Range;

use super::Shard;
use super::background::{Background, Pages, Tokens};
use crate::schedule::{Phase, Role};
use crate::store::ownership::KeySpace;
use crate::store::{ErrorClass, Failure, Listing, Request, Store, Version};
use crate::workload::Dataset;
use crate::workload::naming::RecordOrder;
use crate::workload::size::Size;

/// Counts of a clean-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Objects deleted.
    pub deleted: u64,
    /// Unfinished multipart uploads aborted.
    pub aborted: u64,
    /// Old versions and delete markers deleted for good, where the store keeps versions.
    pub versions: u64,
    /// The store would not list versions, so none was deleted.
    pub versions_hidden: bool,
    /// Keys in the key space that the run did not create; they stay.
    pub foreign: u64,
}

/// Foreign keys in a run's own key space after which a listing is taken for wrong.
const MOST_FOREIGN: u64 = 1_000_000;

/// A rule that names keys which the run created.
#[derive(Debug, Clone)]
enum Rule {
    /// Every key of the key space but one.
    Everything { but: String },
    /// Objects of a dataset; `prepared` ones are read by other shards.
    Dataset { dataset: Box<Dataset>, prepared: bool },
    /// Records of a table: all of them, or those in a range of their order. Hashed numbers cannot be turned back, so `there` is found
    /// out first: the numbers of that range which the table holds.
    Records {
        prefix: String,
        digits: usize,
        order: RecordOrder,
        range: Option<Range<u64>>,
        there: HashSet<u64>,
        in_parts: bool,
    },
}

/// Rules that name the keys which a run may have created in a key space. One shard of N removes every N-th of the objects that were
/// prepared, because other shards may still read theirs. It removes all that measured phases wrote, because nobody reads that and any
/// shard may have written any of it.
#[derive(Debug, Clone)]
pub struct Owned {
    rules: Vec<Rule>,
    shard: Shard,
    /// Id of the process that created the objects; its temporary files are removed.
    process: u32,
}

impl Owned {
    fn new(rules: Vec<Rule>, shard: Shard) -> Owned {
        Owned { rules, shard, process: std::process::id() }
    }

    /// The same, created by another process.
    pub fn of_process(self, process: u32) -> Owned {
        Owned { process, ..self }
    }

    /// The objects that a run of these phases created in its own key space.
    pub fn by(phases: &[Phase], shard: Shard) -> Owned {
        let written = phases.iter().map(|p| (p.workload.written.clone(), p.role == Role::Prepare));
        // Records have a key space of their own.
        let mut datasets: Vec<(Dataset, bool)> = written.filter(|(d, _)| d.at.is_none()).collect();
        let seed = datasets.first().map_or(0, |(d, _)| d.seed);
        datasets.push((markers(seed, shard.of), true));
        let rule = |(dataset, prepared)| Rule::Dataset { dataset: Box::new(dataset), prepared };
        Owned::new(datasets.into_iter().map(rule).collect(), shard)
    }

    /// Every key of a key space that is the run's alone.
    pub fn everything() -> Owned {
        Owned::everything_but("")
    }

    /// Every key of such a key space but this one.
    pub fn everything_but(key: &str) -> Owned {
        Owned::new(vec![Rule::Everything { but: key.to_string() }], Shard::default())
    }

    /// The records that a phase created in their table: those that it loads, or those that it inserts behind the ones that are
    /// there, as many as it has operations at most. `None` if the phase creates none, or if nobody knows how many.
    pub fn records(phase: &Phase) -> Option<Owned> {
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
            there: HashSet::new(),
            in_parts: dataset.upload.part_size > 0,
        };
        Some(Owned::new(vec![rule], Shard::default()))
    }

    /// The same with every record of the table, whoever wrote it.
    pub fn whole_table(mut self) -> Owned {
        for rule in &mut self.rules {
            if let Rule::Records { range, .. } = rule {
                *range = None;
            }
        }
        self
    }

    /// Finds out which of the records that the rules name are there.
    async fn find_records(
        &self,
        background: &mut Background,
        space: &KeySpace,
        ordered: bool,
    ) -> Result<Owned, Failure> {
        let mut found = self.clone();
        for rule in &mut found.rules {
            let Rule::Records { prefix, digits, order, range: Some(range), there, .. } = rule else {
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
            *there = range.clone().map(|record| order.number(record)).filter(left).collect();
        }
        Ok(found)
    }

    /// Returns true if the run created the object with this key.
    pub fn holds(&self, root: &str, key: &str) -> bool {
        let mut rules = self.rules.iter();
        rules.find_map(|rule| rule.holds(root, key, self.shard)).unwrap_or(false)
    }

    /// Returns true if the run uploads in parts; not every store can list unfinished uploads.
    fn in_parts(&self) -> bool {
        self.rules.iter().any(|rule| match rule {
            Rule::Everything { .. } => true,
            Rule::Dataset { dataset, .. } => dataset.upload.part_size > 0,
            Rule::Records { in_parts, .. } => *in_parts,
        })
    }
}

impl Rule {
    /// Returns true if the object with this key is to be deleted; `None` if the rule says nothing of it.
    fn holds(&self, root: &str, key: &str, shard: Shard) -> Option<bool> {
        match self {
            Rule::Everything { but } => Some(key.starts_with(root) && (key != but || but.is_empty())),
            Rule::Dataset { dataset, prepared } => {
                let index = dataset.index_of(root, key)?;
                Some(!prepared || index % shard.of == shard.index)
            }
            Rule::Records { prefix, digits, range, there, .. } => {
                let number = number_of(root, key, prefix, *digits)?;
                Some(range.is_none() || there.contains(&number))
            }
        }
    }
}

/// The number in the key of a record; `None` for any other key.
fn number_of(root: &str, key: &str, prefix: &str, digits: usize) -> Option<u64> {
    let number = key.strip_prefix(root)?.strip_prefix(prefix)?;
    let fit = number.len() >= digits && number.bytes().all(|b| b.is_ascii_digit());
    number.parse().ok().filter(|_| fit)
}

/// The objects by which shards tell each other that they have prepared.
pub fn markers(seed: u64, of: u64) -> Dataset {
    Dataset::new("shard-prepared", seed, of, Size::Fixed(0))
}

/// Deletes every object of the key space that the run created, aborts its unfinished uploads, and deletes the versions that the
/// deletions left behind; calls `progress` with the number of objects deleted so far.
///
/// # Errors
/// When the store refuses a listing or a delete, or its listing cannot be true. What can be removed is removed all the same.
pub async fn clean(
    store: &dyn Store,
    background: &mut Background,
    space: &KeySpace,
    owned: &Owned,
    mut progress: impl FnMut(u64),
) -> Result<Cleaned, Failure> {
    let ordered = store.capabilities().start_after;
    let owned = &owned.find_records(background, space, ordered).await?;
    let mut cleaned = Cleaned::default();
    let mut pages = Pages::new(space.root()).ascending(ordered);
    let mut bulk = true;
    while let Some(Listing { objects, .. }) = pages.next(background).await? {
        let listed = objects.len() as u64;
        let ours: Vec<String> =
            objects.into_iter().map(|o| o.key).filter(|key| owned.holds(space.root(), key)).collect();
        cleaned.foreign += listed - ours.len() as u64;
        if cleaned.foreign > MOST_FOREIGN {
            let message =
                format!("the store lists over {MOST_FOREIGN} keys here that the run did not create");
            return Err(Failure::new(ErrorClass::Corrupt, message, Default::default()));
        }
        if !ours.is_empty() {
            delete(background, space, &ours, &mut bulk).await?;
            cleaned.deleted += ours.len() as u64;
            progress(cleaned.deleted);
        }
    }
    let mut problem = None;
    if owned.in_parts() && store.capabilities().multipart {
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
    store.tidy(space.root(), owned.process);
    problem.map_or(Ok(cleaned), Err)
}

/// Aborts what a kill left half uploaded.
async fn abort_uploads(background: &mut Background, space: &KeySpace, owned: &Owned) -> Result<u64, Failure> {
    let (mut aborted, mut token, mut tokens) = (0, String::new(), Tokens::default());
    loop {
        let request = Request::ListUploads { prefix: space.root(), token: &token };
        let reply = background.insist(request).await?;
        for (key, upload_id) in reply.uploads.iter().filter(|(key, _)| owned.holds(space.root(), key)) {
            let Some(key) = space.own(key) else { continue };
            match background.insist(Request::AbortMultipart { key, upload_id }).await {
                Ok(_) => aborted += 1,
                // It ended by itself in the meantime.
                Err(failure) if failure.is_code("NoSuchUpload") => {}
                Err(failure) => return Err(failure),
            }
        }
        let Some(next) = reply.next_token else { return Ok(aborted) };
        advance(&mut tokens, &next, reply.uploads.is_empty())?;
        token = next;
    }
}

/// Deletes old versions and delete markers for good; `None` if the store keeps none that it would list.
async fn delete_versions(
    background: &mut Background,
    space: &KeySpace,
    owned: &Owned,
) -> Result<Option<u64>, Failure> {
    let (mut deleted, mut token, mut tokens) = (0, String::new(), Tokens::default());
    loop {
        let listed = background.insist(Request::ListVersions { prefix: space.root(), token: &token }).await;
        let reply = match listed {
            Ok(reply) => reply,
            // Not implemented, not permitted, or answered with another kind of listing.
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
            reply.versions.into_iter().filter(|v| owned.holds(space.root(), &v.key)).collect();
        for batch in ours.chunks(1000) {
            let Some(versions) = space.own_versions(batch) else { continue };
            background.insist(Request::DeleteVersions { versions }).await?;
            deleted += batch.len() as u64;
        }
        let Some(next) = reply.next_token else { return Ok(Some(deleted)) };
        advance(&mut tokens, &next, empty)?;
        token = next;
    }
}

fn advance(tokens: &mut Tokens, next: &str, empty: bool) -> Result<(), Failure> {
    tokens
        .advance(next, empty)
        .map_err(|message| Failure::new(ErrorClass::Corrupt, message, Default::default()))
}

/// Deletes objects in bulk where the store can, else one by one; `bulk` remembers which.
async fn delete(
    background: &mut Background,
    space: &KeySpace,
    keys: &[String],
    bulk: &mut bool,
) -> Result<(), Failure> {
    for keys in keys.chunks(1000) {
        let Some(keys) = space.own_all(keys) else { continue };
        if *bulk {
            match background.insist(Request::DeleteMany { keys }).await {
                Ok(_) => continue,
                Err(failure) if matches!(failure.status(), Some(400 | 405 | 501)) => *bulk = false,
                Err(failure) => return Err(failure),
            }
        }
        for key in keys.each() {
            background.insist(Request::Delete { key }).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "clean_tests.rs"]
mod tests;
