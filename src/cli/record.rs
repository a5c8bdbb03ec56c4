//! The record of what a command creates before it creates it, so that `plimsoll clean` can remove it after a kill. Commands that leave
//! no results, such as `probe`, delete the record when everything is gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::exit::Exit;
use super::signals;
use crate::driver::Control;
use crate::machine::Machine;
use crate::run_dir::directory::{Environment, Ownership, StoreFacts, write_environment};
use crate::store::Failure;
use crate::store::ownership::RunId;

/// A directory with nothing but `environment.json`.
pub struct Record {
    path: PathBuf,
    /// The directory above did not exist before.
    made_out: bool,
    control: Arc<Control>,
}

impl Record {
    /// Creates the record of a store in which the key space of `id` is the command's alone, and listens for Ctrl-C from here on.
    ///
    /// # Errors
    /// 2 when it cannot be written.
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
        let written = std::fs::create_dir_all(out)
            .and_then(|()| std::fs::create_dir(&path))
            .and_then(|()| write_environment(&path, &environment));
        written
            .map_err(|e| Exit::input(format!("--out {}: {e}; choose another directory", out.display())))?;
        let control = Arc::new(Control::default());
        signals::listen(Arc::clone(&control));
        Ok(Record { path, made_out, control })
    }

    /// The control that Ctrl-C stops.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Deletes the record after a clean-up that left nothing.
    ///
    /// # Errors
    /// 3 if the clean-up failed, 130 after Ctrl-C.
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
            // Only if nothing else is in it.
            let _ = std::fs::remove_dir(out);
        }
        match self.control.stopped_at() {
            Some(_) => Err(Exit::interrupted("interrupted; everything that was created is deleted again")),
            None => Ok(()),
        }
    }
}
