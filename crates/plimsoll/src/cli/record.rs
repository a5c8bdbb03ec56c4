//! The record of the objects that a command is about to create. It is written first, so that `plimsoll clean`
//! can delete the objects if the command is killed. Commands without results, such as `probe`, delete the
//! record after a clean-up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::exit::Exit;
use super::signals;
use plimsoll_base::machine::Machine;
use plimsoll_engine::driver::Control;
use plimsoll_engine::store::Failure;
use plimsoll_engine::store::ownership::RunId;
use plimsoll_judge::run_dir::environment::{Environment, Ownership, StoreFacts, write_environment};

/// A run directory that contains only `environment.json`.
pub struct Record {
    path: PathBuf,
    /// True if this record created the parent directory.
    made_out: bool,
    control: Arc<Control>,
}

impl Record {
    /// Creates the record for a store in which the command owns the whole key space of `id`, and starts
    /// to handle Ctrl-C.
    ///
    /// # Errors
    /// Exit code 2 if the record cannot be written.
    pub fn create(out: &Path, id: &RunId, facts: StoreFacts) -> Result<Record, Exit> {
        let path = out.join(id.as_str());
        let made_out = !out.exists();
        let environment = Environment {
            version: env!("CARGO_PKG_VERSION").into(),
            run: id.to_string(),
            owns: Ownership::Everything,
            pid: std::process::id(),
            machine: Machine::default(),
            stores: vec![facts],
            ..Environment::default()
        };
        let result = std::fs::create_dir_all(out)
            .and_then(|()| std::fs::create_dir(&path))
            .and_then(|()| write_environment(&path, &environment));
        result.map_err(|e| Exit::input(format!("--out {}: {e}; choose another directory", out.display())))?;
        let control = Arc::new(Control::default());
        signals::listen(Arc::clone(&control));
        Ok(Record { path, made_out, control })
    }

    /// Returns the control that Ctrl-C stops.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns a shared handle of the control, for other threads.
    pub fn shared_control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Deletes the record if the clean-up succeeded.
    ///
    /// # Errors
    /// Exit code 3 if the clean-up failed, 130 after Ctrl-C.
    pub fn finish(self, store: &str, cleaned: Result<(), Failure>) -> Result<(), Exit> {
        if let Err(failure) = cleaned {
            let run = self.path.display();
            return Err(Exit::store(format!(
                "{store}: clean-up failed ({failure}); try `plimsoll clean {run}`"
            )));
        }
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
