//! Deletes what a run wrote, when it has ended.

use std::path::Path;
use std::time::Duration;

use super::error::RunError;
use super::observer::RunObserver;
use super::runtime::block_on;
use crate::driver::Job;
use crate::driver::background::Background;
use crate::driver::clean::{Cleaned, Owned, clean};
use crate::experiment::Experiment;
use crate::run_dir::directory::Environment;
use crate::store::ownership::KeySpace;
use crate::store::{Failure, Store};

/// Deadline of each clean-up request after the user interrupted the run.
pub const INTERRUPTED_TIMEOUT: Duration = Duration::from_secs(10);

/// Deletes the objects that the run wrote to all stores, and returns the first problem.
///
/// `environment` records which stores are clean afterwards.
pub fn clean_up(
    experiment: &Experiment,
    job: &Job,
    environment: &mut Environment,
    observer: &dyn RunObserver,
    run: &Path,
    timeout: Duration,
) -> Option<RunError> {
    let mut problem = None;
    observer.activity("cleaning up");
    let owned = Owned::by(&experiment.phases, job.shard);
    let written = job.sites.iter().zip(&mut environment.stores);
    for (site, facts) in written.filter(|(site, _)| site.store.capabilities().writes) {
        let progress = |n| observer.activity(&format!("cleaning up: {n} objects"));
        let store = site.store.as_ref();
        let work = async {
            let mut background = Background::new(store).at_most(timeout);
            clean(store, &mut background, &site.space, &owned, progress).await
        };
        match block_on(work) {
            Ok(Ok(_)) => facts.uncleaned = false,
            // A bucket that was deleted in the meantime took the objects with it.
            Ok(Err(failure)) if failure.is_missing_container() => facts.uncleaned = false,
            Ok(Err(failure)) => {
                let text = format!(
                    "{}: clean-up failed ({failure}); try `plimsoll clean {}`",
                    facts.url,
                    run.display()
                );
                problem = problem.or(Some(RunError::store(text)));
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    problem
}

/// Deletes from a key space what `owned` describes, and waits until it is done.
///
/// # Errors
/// [`RunError::Store`] if the system refuses the runtime; the inner error is the store's.
pub fn clean_space(
    store: &dyn Store,
    space: &KeySpace,
    owned: &Owned,
) -> Result<Result<Cleaned, Failure>, RunError> {
    block_on(async { clean(store, &mut Background::new(store), space, owned, |_| {}).await })
}
