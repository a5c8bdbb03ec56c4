//! The open store that an administrative command works on.

use std::path::PathBuf;
use std::sync::Arc;

use super::Exit;
use super::run::restart::Restart;
use plimsoll_backup::running::Running;
use plimsoll_catalog::any::AnyCatalog;
use plimsoll_catalog::embedded::recovery::Recovery;
use plimsoll_maintenance::mover::rules::Rules;
use plimsoll_maintenance::mover::survey::LatestSurvey;
use plimsoll_objects::{Bucket, Store};

/// An open store that a command works on.
pub struct Target {
    /// The argument that selects the store, for messages.
    pub name: String,
    /// File with the settings; `None` for a data directory.
    pub file: Option<PathBuf>,
    /// The words of a command line that select the store.
    pub place: Vec<String>,
    /// Directory of the catalog; `None` if it is in a database.
    pub directory: Option<PathBuf>,
    /// Store with the catalog and the tiers.
    pub store: Arc<Store<AnyCatalog>>,
    /// The backup that this process makes.
    pub backup: Running,
    /// Rules of moves.
    pub rules: Rules,
    /// Result of the last visit of all objects.
    pub survey: Arc<LatestSurvey>,
    /// Findings of the start.
    pub recovery: Recovery,
    /// True if a gateway serves the store in this process.
    pub is_served: bool,
    /// Lets the gateway of this process start again; `None` without one.
    pub restart: Option<Restart>,
}

impl Target {
    /// Converts an error of the store.
    pub fn fail(&self, error: &dyn std::fmt::Display) -> Exit {
        Exit::store(format!("{}: {error}", self.name))
    }

    /// Returns a bucket that an argument names.
    ///
    /// # Errors
    /// Exit code 2 if there is none, 3 if the catalog fails.
    pub fn bucket(&self, argument: &str, name: &str) -> Result<Arc<Bucket>, Exit> {
        let buckets = self.store.all_buckets().map_err(|e| self.fail(&e))?;
        let found = buckets.into_iter().find(|(other, _)| other == name).map(|(_, bucket)| bucket);
        found.ok_or_else(|| Exit::input(format!("{argument} {name}: there is no such bucket")))
    }
}
