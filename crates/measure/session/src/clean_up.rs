//! Deletes the objects of a run after it has ended.

use std::path::Path;
use std::time::Duration;

use super::error::RunError;
use super::observer::RunObserver;
use super::runtime::block_on;
use plimsoll_engine::driver::Site;
use plimsoll_engine::driver::background::Background;
use plimsoll_engine::driver::clean::{CleanupCounts, CleanupScope, clean};
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_engine::store::{Failure, Store};
use plimsoll_judge::run_dir::environment::StoreFacts;

/// Deadline of each clean-up request after the user interrupted the run.
pub const INTERRUPTED_TIMEOUT: Duration = Duration::from_secs(10);

/// Deletes the objects that `owned` describes from all stores, and returns the first problem. Each request has at most
/// `timeout`.
///
/// Marks the stores that were cleaned up in `facts`, which are in the order of `sites`.
pub fn clean_up(
    sites: &[Site],
    owned: &CleanupScope,
    facts: &mut [StoreFacts],
    observer: &dyn RunObserver,
    run: &Path,
    timeout: Duration,
) -> Option<RunError> {
    let mut problem = None;
    observer.activity("cleaning up");
    for (site, facts) in sites.iter().zip(facts).filter(|(site, _)| site.store.capabilities().writes) {
        let progress = |n| observer.activity(&format!("cleaning up: {n} objects"));
        let store = site.store.as_ref();
        let work = async {
            let mut background = Background::new(store).with_max_timeout(timeout);
            clean(store, &mut background, &site.space, owned, progress).await
        };
        match block_on(work) {
            Ok(Ok(_)) => facts.uncleaned = false,
            // If the bucket has been deleted in the meantime, so have the objects.
            Ok(Err(failure)) if failure.is_missing_container() => facts.uncleaned = false,
            Ok(Err(failure)) => {
                let error = RunError::store(format!("{}: clean-up failed: {failure}", facts.url));
                problem = problem.or(Some(error.with_left_behind(run)));
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    problem
}

/// Deletes the objects that `owned` describes from a key space.
///
/// # Errors
/// [`RunError::Store`] if no runtime can be created. The inner result contains the failure of the store.
pub fn clean_space(
    store: &dyn Store,
    space: &KeySpace,
    owned: &CleanupScope,
) -> Result<Result<CleanupCounts, Failure>, RunError> {
    block_on(async { clean(store, &mut Background::new(store), space, owned, |_| {}).await })
}
