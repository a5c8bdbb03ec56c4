//! The record of the objects that a command without results is about to create, such as `probe`. The command deletes
//! the objects and the record at its end; if it was killed, `plimsoll clean` does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::exit::Exit;
use super::signals;
use plimsoll_base::machine::Machine;
use plimsoll_engine::driver::clean::CleanupScope;
use plimsoll_engine::driver::{Control, Site};
use plimsoll_engine::store::ownership::RunId;
use plimsoll_judge::run_dir::environment::{Environment, Ownership, StoreFacts, write_environment};
use plimsoll_session::RunError;
use plimsoll_session::lifecycle::{Reached, delete_written};
use plimsoll_session::observer::Silent;

/// A run directory that contains only `environment.json`.
pub struct RunRecord {
    path: PathBuf,
    /// True if this record created the parent directory.
    made_out: bool,
    sites: Vec<Site>,
    facts: Vec<StoreFacts>,
    control: Arc<Control>,
}

impl RunRecord {
    /// Creates the record for stores in which the command owns the whole key space of `id`, and starts to handle
    /// Ctrl-C.
    ///
    /// # Errors
    /// Exit code 2 if the record cannot be written.
    pub fn create(out: &Path, id: &RunId, reached: Reached) -> Result<RunRecord, Exit> {
        let path = out.join(id.as_str());
        let made_out = !out.exists();
        let Reached { sites, facts } = reached;
        let environment = Environment {
            version: env!("CARGO_PKG_VERSION").into(),
            run: id.to_string(),
            owns: Ownership::Checks,
            pid: std::process::id(),
            machine: Machine::default(),
            stores: facts.clone(),
            ..Environment::default()
        };
        let result = std::fs::create_dir_all(out)
            .and_then(|()| std::fs::create_dir(&path))
            .and_then(|()| write_environment(&path, &environment));
        result.map_err(|e| Exit::input(format!("--out {}: {e}; choose another directory", out.display())))?;
        let control = Arc::new(Control::default());
        signals::listen(Arc::clone(&control));
        Ok(RunRecord { path, made_out, sites, facts, control })
    }

    /// Returns the control that Ctrl-C stops.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Deletes everything that the command wrote, and then the record.
    ///
    /// # Errors
    /// Exit code 3 if the clean-up failed, 130 after Ctrl-C.
    pub fn finish(mut self) -> Result<(), Exit> {
        let (owned, facts) = (CleanupScope::checks(), &mut self.facts);
        let failed = delete_written(&self.sites, &owned, facts, &Silent, &self.path, &self.control);
        failed.map_or(Ok(()), |problem: RunError| Err(Exit::from(problem)))?;
        let _ = std::fs::remove_file(self.path.join("environment.json"));
        let _ = std::fs::remove_dir(&self.path);
        if let Some(out) = self.path.parent().filter(|_| self.made_out) {
            // Fails, as intended, if the directory is not empty.
            let _ = std::fs::remove_dir(out);
        }
        match self.control.stopped_at() {
            Some(_) => Err(Exit::interrupted("interrupted; all created objects have been deleted")),
            None => Ok(()),
        }
    }
}
