//! Verifies all objects from time to time. The progress is in the catalog, so a restart or another leader continues.

use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_server::error::ApiError;

use crate::scrub::ScrubRule;
use crate::scrub::objects::{ObjectScrub, Problem, Verified};
use crate::scrub::pace::Pace;
use crate::scrub::progress::{self, Counts, Current, Finished, Progress};
use plimsoll_catalog::Catalog;
use plimsoll_catalog::ambient::{pause, shared_now_ms};
use plimsoll_catalog::liveness;
use plimsoll_catalog::log::{note, warn};
use plimsoll_objects::error::unavailable;
use plimsoll_objects::{Store, clock};

/// Verifies all objects whenever it is due.
pub async fn keep_verified<C: Catalog>(store: &Store<C>, rule: Option<ScrubRule>) {
    /// Longest pause in milliseconds.
    const PAUSE_MS: u64 = 60_000;
    let Some(rule) = rule else { return liveness::idle(std::future::pending()).await };
    loop {
        // The start is recorded, and the next verification counts from it, so a wrong clock must not set it.
        let is_right = clock::read(store).is_ok_and(|clock| clock.is_right);
        let pause_ms = match progress::load(&*store.catalog) {
            Ok(progress) if is_right => match rule.due_in_ms(&progress, shared_now_ms()) {
                0 => match verify(store, rule, progress).await {
                    Ok(()) => 0,
                    Err(error) => {
                        warn(&format!("the verification of all objects continues later: {error}"));
                        PAUSE_MS
                    }
                },
                ms => ms.min(PAUSE_MS),
            },
            _ => PAUSE_MS,
        };
        pause(pause_ms).await;
    }
}

/// Adds a result, and logs a problem.
fn count(counts: &mut Counts, verified: Verified) {
    let Verified { bytes, problem, .. } = verified;
    match problem {
        None => {
            counts.objects += 1;
            counts.bytes += bytes;
        }
        Some((object, problem)) => {
            let name = format!("{}/{} (version {})", object.bucket, object.key, object.version);
            match problem {
                Problem::Damaged(_) => {
                    counts.damaged += 1;
                    note(&format!("damaged object: {name}: {}", object.problem));
                }
                Problem::Kept(_) => {
                    counts.kept += 1;
                    note(&format!(
                        "a deleted or replaced object that is kept is damaged: {name}: {}",
                        object.problem
                    ));
                }
                Problem::Copy(_) => {
                    counts.copies += 1;
                    note(&format!("a copy of a readable object is damaged: {name}: {}", object.problem));
                }
                // `ObjectScrub::next` returns an error of the catalog as its own, so `Catalog` does not occur here.
                Problem::Unverified(_) | Problem::Catalog(_) => {
                    counts.unverified += 1;
                    warn(&format!("not verified: {name}: {}", object.problem));
                }
            }
        }
    }
}

/// Begins or continues a verification, and ends it.
async fn verify<C: Catalog>(store: &Store<C>, rule: ScrubRule, before: Progress) -> Result<(), ApiError> {
    /// Time between two writes of the progress.
    const SAVE_NS: u64 = 10 * SECOND;
    let mut progress = before;
    let began = || Current { began_ms: shared_now_ms(), ..Current::default() };
    let mut current = progress.current.take().unwrap_or_else(began);
    let after = Some(current.after.clone()).filter(|after| !after.is_empty());
    // Damaged settings of buckets are left to the command `scrub`: the counts have no place for them.
    let (mut objects, _) = ObjectScrub::new(store, after).map_err(|e| unavailable(&e))?;
    let mut pace = Pace::new(Some(rule.bytes_per_s));
    let mut saved_ns = now_ns();
    while let Some(verified) = objects.next(store).await.map_err(|e| unavailable(&e))? {
        // Key and counts change together, without a wait in between, so that a saved state counts each object once.
        current.after.clone_from(&verified.catalog_key);
        let bytes = verified.bytes;
        liveness::at("the next object");
        count(&mut current.counts, verified);
        pace.wait(bytes).await;
        // After a crash or a change of the leader, the objects since the last write are verified again.
        if now_ns() - saved_ns >= SAVE_NS {
            saved_ns = now_ns();
            save(store, Progress { current: Some(current.clone()), ..progress.clone() }).await?;
        }
    }
    let Counts { objects, bytes, damaged, kept, copies, unverified } = current.counts;
    note(&format!(
        "verified {objects} objects and versions with {bytes} bytes: {damaged} damaged, {copies} with a damaged copy, \
         {kept} damaged after they were deleted or replaced, {unverified} not verified"
    ));
    let (began_ms, ended_ms, counts) = (current.began_ms, shared_now_ms(), current.counts);
    save(store, Progress { current: None, last: Some(Finished { began_ms, ended_ms, counts }) }).await
}

async fn save<C: Catalog>(store: &Store<C>, progress: Progress) -> Result<(), ApiError> {
    // In the epoch: a former leader must not replace the progress of the next one.
    let stored = store.transact_in(store.epoch(), 512, move |t| {
        progress::store(t, &progress);
        Ok(Ok(()))
    });
    stored.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_server::config::acl::CannedAcl;
    use plimsoll_server::service::{NewBucket, ObjectService};
    use plimsoll_store_testing::{BUCKET, open_directory, put};
    use plimsoll_testing::directory::TempDir;

    #[tokio::test]
    async fn an_interrupted_verification_continues_behind_the_last_object() {
        let dir = TempDir::new("scrubbing");
        let store = open_directory(dir.path(), Default::default(), &Default::default(), 1024);
        let new = NewBucket { region: "r", owner: "o", acl: CannedAcl::Private };
        store.create_bucket(BUCKET, new).await.unwrap();
        for key in ["a", "b", "c"] {
            put(&store, key, b"body").await.unwrap();
        }
        let rule = ScrubRule { every_ms: 1000, bytes_per_s: 1 << 40 };
        verify(&store, rule, Progress::default()).await.unwrap();
        let last = progress::load(&*store.catalog).unwrap().last.unwrap();
        assert_eq!((last.counts.objects, last.counts.bytes, last.counts.damaged), (3, 12, 0));
        let (mut objects, _) = ObjectScrub::new(&store, None).unwrap();
        let after = objects.next(&store).await.unwrap().unwrap().catalog_key;
        let counts = Counts { objects: 7, ..Counts::default() };
        let current = Some(Current { began_ms: 1, after, counts });
        verify(&store, rule, Progress { current, last: None }).await.unwrap();
        let last = progress::load(&*store.catalog).unwrap().last.unwrap();
        assert_eq!((last.began_ms, last.counts.objects), (1, 9));
        store.catalog.close().unwrap();
    }
}
