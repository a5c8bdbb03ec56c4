//! The life of a command that writes objects to stores. It opens the stores and checks that it can use them, records
//! what it is about to own, and at the end deletes what it wrote and says which stores still contain objects.
//!
//! The record comes before the first object, so that `plimsoll clean` can delete the objects of a command that was
//! killed. Clean-up comes before the results are written, so that the results say which stores still contain objects.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::clean_up::{INTERRUPTED_TIMEOUT, clean_up};
use super::error::RunError;
use super::observer::RunObserver;
use super::open::{self, Named, Opened};
use super::preflight::preflight;
use super::renewal::renew;
use super::settings::SessionSettings;
use plimsoll_base::machine::peak_rss_bytes;
use plimsoll_engine::driver::clean::CleanupScope;
use plimsoll_engine::driver::{Control, Site};
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::environment::{Environment, StoreFacts};
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::summary::result::RunResult;
use plimsoll_s3::credentials::CredentialSource;

/// Opens the stores of a command. `named` has the stores that an experiment defines by name.
///
/// # Errors
/// [`RunError::Input`] if a URL is invalid or occurs twice.
pub fn open_stores(
    stores: &[String],
    named: &Named,
    ca_bundle: Option<&Path>,
    credentials: Option<&CredentialSource>,
) -> Result<Vec<Opened>, RunError> {
    let mut seen = HashSet::new();
    if let Some(twice) = stores.iter().find(|store| !seen.insert(*store)) {
        return Err(RunError::input(format!(
            "--store {twice}: the store is specified twice; specify each store once"
        )));
    }
    stores.iter().map(|store| open::open_as(store, named, ca_bundle, credentials.cloned())).collect()
}

/// Refuses stores that accept no writes.
///
/// # Errors
/// [`RunError::Input`] for the first store that is read-only.
pub fn require_writes(opened: &[Opened]) -> Result<(), RunError> {
    match opened.iter().find(|store| !store.store.capabilities().writes) {
        None => Ok(()),
        Some(store) => Err(RunError::input(format!(
            "{}: the store is read-only; use a store that accepts writes",
            store.written
        ))),
    }
}

/// Stores that can be used, each with the key space in which the command may write.
pub struct Reached {
    /// Stores with their key spaces.
    pub sites: Vec<Site>,
    /// Facts about the stores.
    pub facts: Vec<StoreFacts>,
}

/// Checks that the stores can be used by command `id`.
///
/// # Errors
/// [`RunError::Store`] if a store cannot be used.
pub fn reach(opened: &[Opened], id: &RunId, create_bucket: bool) -> Result<Reached, RunError> {
    let mut reached = Reached { sites: Vec::new(), facts: Vec::new() };
    for store in opened {
        let space = KeySpace::of_run(store.store.prefix(), id);
        reached.facts.push(preflight(store, &space, create_bucket)?);
        reached.sites.push(Site { store: Arc::clone(&store.store), space });
    }
    Ok(reached)
}

/// Creates the run directory of a command that keeps results, records its experiment and its environment, and starts to
/// renew credentials.
///
/// # Errors
/// [`RunError::Input`] if the directory cannot be written.
pub fn begin(
    settings: &SessionSettings,
    experiment: &str,
    environment: &Environment,
    opened: &[Opened],
    observer: &Arc<dyn RunObserver>,
) -> Result<RunDirectory, RunError> {
    let created =
        RunDirectory::create(&settings.out, &environment.run, experiment, settings.record_operations);
    let mut directory = created.map_err(|e| settings.out_error(&e))?;
    directory.objectives.clone_from(&settings.objectives);
    directory.environment(environment).map_err(|e| settings.out_error(&e))?;
    renew(opened.iter().filter_map(|store| store.credentials.clone()).collect(), observer);
    Ok(directory)
}

/// Deletes what a command wrote, and returns the first problem. After an interruption, requests have a short deadline.
pub fn delete_written(
    sites: &[Site],
    owned: &CleanupScope,
    facts: &mut [StoreFacts],
    observer: &dyn RunObserver,
    run: &Path,
    control: &Control,
) -> Option<RunError> {
    let timeout = if control.stopped_at().is_some() { INTERRUPTED_TIMEOUT } else { Duration::MAX };
    clean_up(sites, owned, facts, observer, run, timeout)
}

/// Writes the results of a command. Returns the run, and the first problem: the given one, or that the results could
/// not be written.
pub fn end(
    directory: RunDirectory,
    mut result: RunResult,
    environment: Environment,
    problem: Option<RunError>,
) -> (Run, Option<RunError>) {
    let path = directory.path().to_path_buf();
    result.client.peak_rss_bytes = peak_rss_bytes();
    let (run, unwritten) = directory.finish(result, environment);
    (run, problem.or_else(|| unwritten.map(|e| RunError::results_kept(&e.to_string(), &path))))
}
