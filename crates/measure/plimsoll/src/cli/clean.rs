//! `plimsoll clean`: deletes only the objects and local files that a killed run left behind.

use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::Exit;
use super::out::say;
use super::runs::find;
use super::timeout::TimeoutArgument;
use plimsoll_clients::sync::scratch;
use plimsoll_engine::driver::Shard;
use plimsoll_engine::driver::clean::CleanupScope;
use plimsoll_engine::store::Store;
use plimsoll_engine::store::ownership::KeySpace;
use plimsoll_experiment::{Experiment, load};
use plimsoll_judge::run_dir::environment::{
    Environment, Ownership, StoreFacts, read_environment, write_environment,
};
use plimsoll_session::clean_up::clean_space;
use plimsoll_session::open::open_as;
use plimsoll_workload::schedule::Phase;

/// Arguments of `plimsoll clean`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories of the runs to clean up after
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    #[command(flatten)]
    timeout: TimeoutArgument,
}

/// Cleans up after each run. Continues after a problem, and returns the first problem.
///
/// # Errors
/// Exit code 2 if a path is not a run directory, 3 if a store cannot be used.
pub fn clean(arguments: &Arguments) -> Result<(), Exit> {
    arguments.timeout.apply()?;
    let mut problem = None;
    for run in &find(&arguments.runs)? {
        problem = problem.or(clean_run(run, arguments.ca_bundle.as_deref()).err());
    }
    problem.map_or(Ok(()), Err)
}

/// Cleans up after one run: deletes its objects, then its local files.
fn clean_run(run: &Path, ca_bundle: Option<&Path>) -> Result<(), Exit> {
    let mut environment = read_environment(run).map_err(|e| {
        Exit::input(format!(
            "{}: not a run directory ({e}); specify one, such as plimsoll-runs/<run-id>",
            run.display()
        ))
    })?;
    let experiment = match environment.owns {
        Ownership::Checks => None,
        Ownership::Datasets => {
            let file = run.join("experiment.toml");
            Some(load(&file.to_string_lossy(), &[]).map_err(Exit::input)?)
        }
    };
    let mut problem = None;
    let (id, shard, pid) = (environment.run.clone(), environment.shard, environment.pid);
    let shard = shard.map_or_else(Shard::default, |(index, of)| Shard { index, of });
    for facts in &mut environment.stores {
        match clean_store(run, facts, experiment.as_ref(), &id, shard, pid, ca_bundle) {
            Ok(()) => facts.uncleaned = false,
            Err(exit) => problem = problem.or(Some(exit)),
        }
    }
    problem = problem.or(remove_files(run, &mut environment).err());
    let written = write_environment(run, &environment);
    problem = problem.or(written.err().map(|e| Exit::input(format!("{}: {e}", run.display()))));
    problem.map_or(Ok(()), Err)
}

/// Deletes the objects of a run in one store.
fn clean_store(
    run: &Path,
    facts: &StoreFacts,
    experiment: Option<&Experiment>,
    id: &str,
    shard: Shard,
    pid: u32,
    ca_bundle: Option<&Path>,
) -> Result<(), Exit> {
    if facts.url == "embedded:" || facts.url == "memory:" {
        return say(&format!(
            "{}: nothing to clean, because the store existed only during the run\n",
            facts.url
        ));
    }
    let Some(space) = KeySpace::recorded(&facts.root).filter(KeySpace::is_of_run) else {
        return Err(Exit::input(format!(
            "{}: root '{}' in environment.json is not the prefix of a run; nothing was deleted",
            run.display(),
            facts.root
        )));
    };
    let named = experiment.map(|e| e.named.clone()).unwrap_or_default();
    let store = open_as(&facts.url, &named, ca_bundle, None)?.store;
    if !is_root_of(space.root(), store.prefix(), id) {
        return Err(Exit::input(format!(
            "{}: root '{}' in environment.json does not belong to run {id} in {}; nothing was deleted",
            run.display(),
            facts.root,
            facts.url
        )));
    }
    let owned = experiment.map_or_else(CleanupScope::checks, |e| CleanupScope::of_phases(&e.phases, shard));
    clean_one(facts, store.as_ref(), &space, &owned.created_by_process(pid))?;
    for (space, owned) in experiment.iter().flat_map(|e| tables(e, store.prefix())) {
        clean_one(facts, store.as_ref(), &space, &owned.created_by_process(pid))?;
    }
    if experiment.is_some_and(|e| e.phases.iter().any(inserts_unknown)) {
        let url = &facts.url;
        say(&format!(
            "{url}: the inserted records remain, because their number is unknown; `plimsoll ycsb clean` \
             deletes the table\n"
        ))?;
    }
    Ok(())
}

/// Returns true if `root` is the root of run `id` below the prefix of its store. Shards share the root of
/// their group.
fn is_root_of(root: &str, prefix: &str, id: &str) -> bool {
    let group = id.split('.').next().unwrap_or(id);
    let below = root.strip_prefix(prefix).and_then(|rest| rest.strip_prefix("plimsoll/"));
    below.is_some_and(|rest| !group.is_empty() && rest.strip_suffix('/') == Some(group))
}

/// Returns true if a phase inserts records for a time, so that their number is unknown.
fn inserts_unknown(phase: &Phase) -> bool {
    phase.workload.inserts.is_some() && phase.limit.operations.is_none()
}

/// Removes the local files of a synchronisation.
///
/// # Errors
/// Exit code 2 if the directory contains other files or cannot be removed.
fn remove_files(run: &Path, environment: &mut Environment) -> Result<(), Exit> {
    let Some(files) = &environment.files else { return Ok(()) };
    let removed = scratch::remove(files, &environment.run)
        .map_err(|e| Exit::input(format!("{}: {e}; remove it manually", files.display())))?;
    if !removed {
        let (files, run) = (files.display(), run.display());
        return Err(Exit::input(format!(
            "{files}: not removed, because the directory contains files that run {run} did not create, or \
             does not contain the mark of the run; remove it manually"
        )));
    }
    say(&format!("removed {}\n", files.display()))?;
    environment.files = None;
    Ok(())
}

/// Returns the record tables to which the phases of an experiment write, each with the records that they
/// create.
pub fn tables(experiment: &Experiment, prefix: &str) -> Vec<(KeySpace, CleanupScope)> {
    let table = |phase| {
        let owned = CleanupScope::records(phase)?;
        let at = phase.workload.written.below(prefix).at?;
        Some((KeySpace::recorded(&at)?, owned))
    };
    experiment.phases.iter().filter_map(table).collect()
}

/// Deletes the owned objects in one key space of a store, and prints the counts.
fn clean_one(
    facts: &StoreFacts,
    store: &dyn Store,
    space: &KeySpace,
    owned: &CleanupScope,
) -> Result<(), Exit> {
    let cleaned = clean_space(store, space, owned);
    let cleaned = cleaned?.map_err(|f| Exit::store(format!("{}: {f}", facts.url)))?;
    let (url, root) = (&facts.url, space.root());
    say(&format!("{url}: {} objects deleted under {root}\n", cleaned.deleted))?;
    for (count, what) in [
        (cleaned.aborted, "unfinished uploads aborted"),
        (cleaned.versions, "old versions and delete markers deleted"),
        (cleaned.foreign, "objects kept, because the run did not create them"),
    ] {
        if count > 0 {
            say(&format!("{url}: {count} {what}\n"))?;
        }
    }
    if cleaned.versions_hidden && cleaned.deleted > 0 && store.profile().is_some_and(|p| p.name != "generic")
    {
        say(&format!(
            "{url}: the store did not list old versions; if the bucket is versioned, old versions remain \
             and are billed\n"
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: an edited environment.json made `clean` delete the objects of another run.
    #[test]
    fn a_root_belongs_to_its_run_and_its_prefix() {
        let id = "20261121T040505-0123456789ab";
        let root = format!("team/plimsoll/{id}/");
        assert!(is_root_of(&root, "team/", id) && is_root_of(&root, "team/", &format!("{id}.1of4")));
        assert!(!is_root_of(&root, "team/", ""), "a record without an ID owns nothing");
        assert!(!is_root_of(&root, "", id), "another prefix");
        assert!(!is_root_of(&root, "team/", "20261121T040505-ffffffffffff"), "another run");
    }
}
