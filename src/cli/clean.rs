//! `plimsoll clean`: deletes what a killed run left in its stores and on this machine, and nothing else.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, block_on};
use super::out::say;
use super::session::reopen;
use super::sync::scratch;
use super::timeout::TimeoutArgument;
use crate::driver::Shard;
use crate::driver::background::Background;
use crate::driver::clean::{Cleaned, Owned, clean as clean_space};
use crate::experiment::{Experiment, load};
use crate::report::directory::{Environment, Ownership, StoreFacts, read_environment, write_environment};
use crate::store::ownership::KeySpace;
use crate::store::{Failure, Store};

/// Arguments of `plimsoll clean`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    #[command(flatten)]
    timeout: TimeoutArgument,
}

/// Cleans up after each run.
///
/// # Errors
/// 2 when a directory is none, 3 when a store cannot be used.
pub fn clean(arguments: &Arguments) -> Result<(), Exit> {
    arguments.timeout.apply()?;
    for run in &arguments.runs {
        let mut environment = read_environment(run).map_err(|e| {
            Exit::input(format!(
                "{}: not a run directory ({e}); name one, such as plimsoll-runs/<run-id>",
                run.display()
            ))
        })?;
        remove_files(run, &mut environment)?;
        let experiment = match environment.owns {
            Ownership::Everything => None,
            Ownership::Datasets => {
                let file = run.join("experiment.toml");
                Some(load(&file.to_string_lossy(), &[]).map_err(Exit::input)?)
            }
        };
        let shard = environment.shard.map_or_else(Shard::default, |(index, of)| Shard { index, of });
        for facts in &mut environment.stores {
            if facts.url == "embedded:" || facts.url == "memory:" {
                facts.uncleaned = false;
                say(&format!("{} is gone with its run\n", facts.url))?;
                continue;
            }
            let Some(space) = KeySpace::recorded(&facts.root).filter(KeySpace::is_of_run) else {
                return Err(Exit::input(format!(
                    "{}: root '{}' in environment.json is not the prefix of a run; nothing was deleted",
                    run.display(),
                    facts.root
                )));
            };
            let named = experiment.as_ref().map(|e| e.named.clone()).unwrap_or_default();
            let store = reopen(facts, &named, arguments.ca_bundle.as_deref())?;
            let owned = experiment.as_ref().map_or_else(Owned::everything, |e| Owned::by(&e.phases, shard));
            let owned = owned.of_process(environment.pid);
            clean_one(facts, store.as_ref(), &space, &owned)?;
            for (space, owned) in experiment.iter().flat_map(|e| tables(e, store.prefix())) {
                clean_one(facts, store.as_ref(), &space, &owned.of_process(environment.pid))?;
            }
            facts.uncleaned = false;
        }
        write_environment(run, &environment).map_err(|e| Exit::input(format!("{}: {e}", run.display())))?;
    }
    Ok(())
}

/// Removes the local files of a synchronisation.
fn remove_files(run: &Path, environment: &mut Environment) -> Result<(), Exit> {
    let Some(files) = &environment.files else { return Ok(()) };
    let gone = scratch::remove(files, &environment.run)
        .map_err(|e| Exit::input(format!("{}: {e}; remove it by hand", files.display())))?;
    if !gone {
        let (files, run) = (files.display(), run.display());
        return Err(Exit::input(format!(
            "{files}: it holds files that run {run} did not make, or no mark of it; they stay, remove them by hand"
        )));
    }
    say(&format!("{} is removed\n", files.display()))?;
    environment.files = None;
    Ok(())
}

/// The tables in which the phases of an experiment create records.
pub fn tables(experiment: &Experiment, prefix: &str) -> Vec<(KeySpace, Owned)> {
    let table = |phase| {
        let owned = Owned::records(phase)?;
        let at = phase.workload.written.below(prefix).at?;
        Some((KeySpace::recorded(&at)?, owned))
    };
    experiment.phases.iter().filter_map(table).collect()
}

/// Cleans one key space of a store.
fn clean_one(facts: &StoreFacts, store: &dyn Store, space: &KeySpace, owned: &Owned) -> Result<(), Exit> {
    let cleaned = run_clean(store, space, owned);
    let cleaned = cleaned?.map_err(|f| Exit::store(format!("{}: {f}", facts.url)))?;
    let (url, root) = (&facts.url, space.root());
    say(&format!("{url}: {} objects deleted under {root}\n", cleaned.deleted))?;
    for (count, what) in [
        (cleaned.aborted, "unfinished uploads aborted"),
        (cleaned.versions, "old versions and delete markers deleted"),
        (cleaned.foreign, "objects there are not this run's and stay"),
    ] {
        if count > 0 {
            say(&format!("{url}: {count} {what}\n"))?;
        }
    }
    Ok(())
}

/// Cleans a key space and waits for it.
///
/// # Errors
/// When the system refuses a runtime.
pub fn run_clean(
    store: &dyn Store,
    space: &KeySpace,
    owned: &Owned,
) -> Result<Result<Cleaned, Failure>, Exit> {
    block_on(async { clean_space(store, &mut Background::new(store), space, owned, |_| {}).await })
}
