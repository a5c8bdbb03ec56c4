//! Settings of a run, which are data, and its components, which live as long as the run.

use std::path::PathBuf;
use std::sync::Arc;

use super::budget::CostSettings;
use super::error::{RunError, is_full};
use super::live::Live;
use super::observer::RunObserver;
use super::shard::Sharding;
use crate::driver::Shard;
use crate::s3::credentials::CredentialSource;

/// Settings of a run that are not part of its experiment.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Directory in which the run directory is created.
    pub out: PathBuf,
    /// Place from which the run measures, for the record.
    pub vantage: String,
    /// Leaves the objects in the store.
    pub keep: bool,
    /// Creates a missing bucket.
    pub create_bucket: bool,
    /// PEM file of certificate authorities to trust instead of the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Number of worker threads; `None` derives it from load and cores.
    pub workers: Option<usize>,
    /// Logs every operation to `operations.arrows`.
    pub record_operations: bool,
    /// The part of the experiment that this process carries out; `None` for all of it.
    pub sharding: Option<Sharding>,
    /// The cost limit and the prices that it is checked with.
    pub cost: CostSettings,
    /// Command line for the record, without secrets; empty if there was none.
    pub command: Vec<String>,
}

impl Settings {
    /// Returns the shard that this process is; the only one of one without `sharding`.
    pub fn shard(&self) -> Shard {
        self.sharding.as_ref().map(|s| s.shard).unwrap_or_default()
    }

    /// Returns the error of a directory for results that cannot be written.
    pub fn out_error(&self, error: &std::io::Error) -> RunError {
        let out = self.out.display();
        let fix = if is_full(error) { "free some space or choose" } else { "choose" };
        RunError::input(format!("--out {out}: {error}; {fix} another directory"))
    }
}

/// Live parts that a run uses and its caller owns.
#[derive(Clone)]
pub struct Components {
    /// Receives the progress of the run.
    pub observer: Arc<dyn RunObserver>,
    /// Metrics that a Prometheus endpoint serves during the run.
    pub live: Option<Live>,
    /// Credentials for all stores; `None` uses the standard chain.
    pub credentials: Option<CredentialSource>,
}

impl Default for Components {
    fn default() -> Components {
        Components { observer: Arc::new(super::observer::Silent), live: None, credentials: None }
    }
}
