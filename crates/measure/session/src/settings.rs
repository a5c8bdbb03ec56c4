//! Settings of a run, which are plain data, and its components, which are live objects.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::abort::AbortRules;
use super::budget::CostSettings;
use super::error::{RunError, is_full};
use super::live::Live;
use super::observer::RunObserver;
use super::rendezvous::{Rendezvous, Sharding};
use plimsoll_engine::driver::Shard;
use plimsoll_judge::summary::objective::Objective;
use plimsoll_s3::credentials::CredentialSource;

/// Settings of a run that are not part of its experiment.
#[derive(Debug, Clone, Default)]
pub struct SessionSettings {
    /// Directory in which the run directory is created.
    pub out: PathBuf,
    /// Location of the client, for the record; may be empty.
    pub vantage: String,
    /// True if the objects stay in the store after the run.
    pub keep: bool,
    /// True if a missing bucket is created.
    pub create_bucket: bool,
    /// PEM file of certificate authorities to trust; `None` for those of the system.
    pub ca_bundle: Option<PathBuf>,
    /// Labels of the run, by key.
    pub labels: BTreeMap<String, String>,
    /// Objectives that the run must meet.
    pub objectives: Vec<Objective>,
    /// Number of worker threads; `None` derives it from the load and the number of cores.
    pub workers: Option<usize>,
    /// True if every operation is logged to `operations.arrows`.
    pub record_operations: bool,
    /// Part of the experiment that this process executes; `None` for all of it.
    pub sharding: Option<Sharding>,
    /// Cost limit, and the prices to check it with.
    pub cost: CostSettings,
    /// Command line for the record, without secrets; empty if there was none.
    pub command: Vec<String>,
}

impl SessionSettings {
    /// Returns the shard of this process; without `sharding`, the only one.
    pub fn shard(&self) -> Shard {
        self.sharding.as_ref().map(|s| s.shard).unwrap_or_default()
    }

    /// Returns the error of an output directory that cannot be written.
    pub fn out_error(&self, error: &std::io::Error) -> RunError {
        let out = self.out.display();
        let fix = if is_full(error) { "free some space or choose" } else { "choose" };
        RunError::input(format!("--out {out}: {error}; {fix} another directory"))
    }
}

/// Objects that a run uses and its caller provides.
#[derive(Clone)]
pub struct Components {
    /// Observer that receives the progress of the run.
    pub observer: Arc<dyn RunObserver>,
    /// Metrics that a Prometheus endpoint serves during the run; `None` without one.
    pub live: Option<Live>,
    /// Conditions that end the run early; `None` without any.
    pub abort: Option<Arc<AbortRules>>,
    /// Coordinator of the shards of a fleet; `None` to start at the time in [`SessionSettings::sharding`].
    pub rendezvous: Option<Arc<dyn Rendezvous>>,
    /// Credentials for all stores; `None` uses the standard chain.
    pub credentials: Option<CredentialSource>,
}

impl Default for Components {
    fn default() -> Components {
        Components {
            observer: Arc::new(super::observer::Silent),
            live: None,
            abort: None,
            rendezvous: None,
            credentials: None,
        }
    }
}
