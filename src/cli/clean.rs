//! `plimsoll clean`: deletes what a killed run left in its stores, and nothing else.

use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::session::reopen;
use crate::driver::Shard;
use crate::driver::clean::{Owned, clean as clean_store};
use crate::experiment::load;
use crate::report::directory::{read_environment, write_environment};

/// Arguments of `plimsoll clean`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// PEM file of certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
}

/// Cleans up after each run.
///
/// # Errors
/// 2 when a directory is none, 3 when a store cannot be used.
pub fn clean(arguments: &Arguments) -> Result<(), Exit> {
    for run in &arguments.runs {
        let mut environment = read_environment(run).map_err(|e| {
            Exit::input(format!(
                "{}: not a run directory ({e}); name one, such as plimsoll-runs/<run-id>",
                run.display()
            ))
        })?;
        let experiment = load(&run.join("experiment.toml").to_string_lossy(), &[]).map_err(Exit::input)?;
        let shard = environment.shard.map_or_else(Shard::default, |(index, of)| Shard { index, of });
        let owned = Owned::by(&experiment.phases, shard);
        for facts in &mut environment.stores {
            if facts.url == "embedded:" || facts.url == "memory:" {
                facts.uncleaned = false;
                println!("{} is gone with its run", facts.url);
                continue;
            }
            if !is_root(&facts.root) {
                return Err(Exit::input(format!(
                    "{}: root '{}' in environment.json is not the prefix of a run; nothing was deleted",
                    run.display(),
                    facts.root
                )));
            }
            let store = reopen(facts, arguments.ca_bundle.as_deref())?;
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Exit::store)?;
            let cleaned = runtime.block_on(clean_store(store.as_ref(), &facts.root, &owned, |_| {}));
            let cleaned = cleaned.map_err(|f| Exit::store(format!("{}: {f}", facts.url)))?;
            facts.uncleaned = false;
            println!("{}: {} objects deleted under {}", facts.url, cleaned.deleted, facts.root);
            if cleaned.aborted > 0 {
                println!("{}: {} unfinished uploads aborted", facts.url, cleaned.aborted);
            }
            if cleaned.foreign > 0 {
                println!("{}: {} objects there are not this run's and stay", facts.url, cleaned.foreign);
            }
        }
        write_environment(run, &environment).map_err(|e| Exit::input(format!("{}: {e}", run.display())))?;
    }
    Ok(())
}

/// Whether this is the prefix under which a run writes: `.../plimsoll/YYYYMMDDTHHMMSS-xxxx/`.
fn is_root(root: &str) -> bool {
    let mut parts = root.trim_end_matches('/').rsplit('/');
    let id = parts.next().unwrap_or_default();
    let shape = |(i, c): (usize, char)| match i {
        8 => c == 'T',
        15 => c == '-',
        0..15 => c.is_ascii_digit(),
        _ => c.is_ascii_hexdigit(),
    };
    root.ends_with('/')
        && parts.next() == Some("plimsoll")
        && id.len() == 20
        && id.chars().enumerate().all(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An edited environment.json made `clean` delete what was not the run's.
    #[test]
    fn only_the_prefix_of_a_run_is_cleaned() {
        assert!(
            is_root("some/prefix/plimsoll/20261121T040505-21d7/")
                && is_root("plimsoll/20261121T040505-21d7/")
        );
        for foreign in
            ["", "/", "victim/", "plimsoll/", "plimsoll/20261121T040505-21d7", "victim/20261121T040505-21d7/"]
        {
            assert!(!is_root(foreign), "{foreign}");
        }
    }
}
