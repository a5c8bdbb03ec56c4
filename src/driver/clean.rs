//! Removes what a run wrote, and nothing else.

use super::Shard;
use crate::clock::{MILLISECOND, Timer, now_ns};
use crate::schedule::{Phase, Role};
use crate::store::{ErrorClass, Failure, Ignore, Lane, Reply, Request, Store};
use crate::workload::Dataset;
use crate::workload::size::Size;

/// What was found and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Objects deleted.
    pub deleted: u64,
    /// Unfinished multipart uploads aborted.
    pub aborted: u64,
    /// Keys under the run's prefix that the run did not write; they stay.
    pub foreign: u64,
}

/// What a run may have written. One shard of N removes every N-th of the objects that were prepared, because other shards may still
/// read theirs, and all that measured phases wrote, because nobody reads that and any shard may have written any of it.
#[derive(Debug, Clone)]
pub struct Owned {
    /// Datasets, and whether they were prepared.
    datasets: Vec<(Dataset, bool)>,
    shard: Shard,
}

impl Owned {
    /// What a run of these phases wrote.
    pub fn by(phases: &[Phase], shard: Shard) -> Owned {
        let written = phases.iter().map(|p| (p.workload.written.clone(), p.role == Role::Prepare));
        // What has a place of its own is kept.
        let mut datasets: Vec<(Dataset, bool)> = written.filter(|(d, _)| d.at.is_none()).collect();
        let seed = datasets.first().map_or(0, |(d, _)| d.seed);
        datasets.push((markers(seed, shard.of), true));
        Owned { datasets, shard }
    }

    /// Whether the run wrote the object with this key.
    pub fn holds(&self, root: &str, key: &str) -> bool {
        let found = self.datasets.iter().find_map(|(d, prepared)| Some((d.index_of(root, key)?, *prepared)));
        found.is_some_and(|(index, prepared)| !prepared || index % self.shard.of == self.shard.index)
    }
}

/// The objects by which shards tell each other that they have prepared.
pub fn markers(seed: u64, of: u64) -> Dataset {
    Dataset::new("shard-prepared", seed, of, Size::Fixed(0))
}

/// The prefix of all keys of a run: `<URL prefix>plimsoll/<run-id>/`.
pub fn root(prefix: &str, run_id: &str) -> String {
    format!("{prefix}plimsoll/{run_id}/")
}

/// How often a request outside all measurement is tried.
const ATTEMPTS: u32 = 8;

/// A request outside all measurement, tried again after failures that may pass, with pauses that double from 20 ms.
///
/// # Errors
/// The last failure.
pub async fn insist(lane: &mut dyn Lane, request: Request<'_>) -> Result<Reply, Failure> {
    let mut attempt = 1;
    loop {
        match lane.execute(request.clone(), &mut Ignore).await {
            Err(failure) if failure.is_retryable() && attempt < ATTEMPTS => {
                // A server that is not there will not be there in a moment either.
                if matches!(failure.class, ErrorClass::Connect) && attempt > 1 {
                    return Err(failure);
                }
                if let Ok(mut timer) = Timer::new() {
                    let _ = timer.until(now_ns() + ((20 * MILLISECOND) << attempt)).await;
                }
                attempt += 1;
            }
            result => return result,
        }
    }
}

/// Deletes every object under `root` that the run wrote, and aborts its unfinished uploads; `progress` hears the number so far.
///
/// # Errors
/// When the store refuses a listing or a delete.
pub async fn clean(
    store: &dyn Store,
    root: &str,
    owned: &Owned,
    mut progress: impl FnMut(u64),
) -> Result<Cleaned, Failure> {
    let mut lane = store.lane(0);
    let mut cleaned =
        Cleaned { aborted: abort_uploads(lane.as_mut(), root, owned).await?, ..Cleaned::default() };
    let mut token = String::new();
    let mut one_by_one = false;
    loop {
        let request = Request::List { prefix: root, start_after: "", token: &token, max_keys: 1000 };
        let page = insist(lane.as_mut(), request).await?.listing.unwrap_or_default();
        let (ours, foreign): (Vec<String>, Vec<String>) =
            page.objects.into_iter().map(|o| o.key).partition(|key| owned.holds(root, key));
        cleaned.foreign += foreign.len() as u64;
        if !ours.is_empty() {
            delete(lane.as_mut(), &ours, &mut one_by_one).await?;
            cleaned.deleted += ours.len() as u64;
            progress(cleaned.deleted);
        }
        match page.next_token {
            Some(next) => token = next,
            None => {
                store.tidy(root);
                return Ok(cleaned);
            }
        }
    }
}

/// Aborts what a kill left half uploaded. Only runs that write in parts ask, because not every store can list uploads.
async fn abort_uploads(lane: &mut dyn Lane, root: &str, owned: &Owned) -> Result<u64, Failure> {
    if owned.datasets.iter().all(|(d, _)| d.upload.part_size == 0) {
        return Ok(0);
    }
    let mut aborted = 0;
    loop {
        let reply = insist(lane, Request::ListUploads { prefix: root }).await?;
        let ours: Vec<_> = reply.uploads.into_iter().filter(|(key, _)| owned.holds(root, key)).collect();
        if ours.is_empty() {
            return Ok(aborted);
        }
        for (key, upload_id) in &ours {
            match insist(lane, Request::AbortMultipart { key, upload_id }).await {
                Ok(_) => aborted += 1,
                Err(failure) if failure.is_code("NoSuchUpload") => return Ok(aborted),
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// Deletes objects in bulk where the store can, else one by one; `one_by_one` remembers that it cannot.
///
/// # Errors
/// When the store refuses.
pub async fn delete(lane: &mut dyn Lane, keys: &[String], one_by_one: &mut bool) -> Result<(), Failure> {
    if !*one_by_one {
        match insist(lane, Request::DeleteMany { keys }).await {
            Ok(_) => return Ok(()),
            Err(failure) if matches!(failure.status(), Some(400 | 405 | 501)) => *one_by_one = true,
            Err(failure) => return Err(failure),
        }
    }
    for key in keys {
        insist(lane, Request::Delete { key }).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Body, Collect};

    fn owned(shard: Shard) -> Owned {
        let dataset = |name| Dataset::new(name, 42, 10_000, Size::Fixed(1));
        let datasets = vec![(dataset("objects"), true), (dataset("d"), false)];
        Owned { datasets, shard }
    }

    #[test]
    fn only_what_a_run_writes_is_ours() {
        let root = root("mine/", "20261121-1");
        assert_eq!(root, "mine/plimsoll/20261121-1/");
        let all = owned(Shard::default());
        assert!(all.holds(&root, "mine/plimsoll/20261121-1/objects/00000012"));
        assert!(all.holds(&root, "mine/plimsoll/20261121-1/objects/123456789"));
        for foreign in [
            "mine/plimsoll/20261121-1/notes.txt",
            "mine/plimsoll/20261121-10/objects/00000001",
            "mine/data",
            "mine/plimsoll/20261121-1/a/b/00000001",
            "mine/plimsoll/20261121-1/others/00000001",
            "mine/plimsoll/20261121-1//00000001",
        ] {
            assert!(!all.holds(&root, foreign), "{foreign}");
        }
        let third = owned(Shard { index: 2, of: 8 });
        assert!(third.holds(&root, "mine/plimsoll/20261121-1/objects/00000010"));
        assert!(!third.holds(&root, "mine/plimsoll/20261121-1/objects/00000011"), "another shard reads it");
        assert!(
            third.holds(&root, "mine/plimsoll/20261121-1/d/00000011"),
            "whoever wrote it, nobody reads it"
        );
    }

    #[test]
    fn foreign_objects_survive() {
        let store = MemoryStore::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut lane = store.lane(0);
            let foreign = ["precious", "plimsoll/run/README", "plimsoll/run-2/d/00000001", "zebra"];
            let ours: Vec<String> = (0..2500).map(|i| format!("plimsoll/run/d/{i:08}")).collect();
            for key in foreign.into_iter().chain(ours.iter().map(String::as_str)) {
                lane.execute(Request::Put { key, body: Body::Whole("x".into()) }, &mut Ignore).await.unwrap();
            }
            let cleaned = clean(&store, "plimsoll/run/", &owned(Shard::default()), |_| {}).await.unwrap();
            assert_eq!(cleaned, Cleaned { deleted: 2500, aborted: 0, foreign: 1 });
            for key in foreign {
                lane.execute(Request::Get { key, range: None }, &mut Collect::default()).await.unwrap();
            }
            assert_eq!(
                clean(&store, "plimsoll/run/", &owned(Shard::default()), |_| {}).await.unwrap().deleted,
                0
            );
        });
    }
}
