//! A workload from a run: the mix and the rate that were measured, for a month.

use std::path::PathBuf;

use clap::Args;

use crate::cli::exit::Exit;
use crate::cost::of_run::{Scale, project};
use crate::cost::workload::Workload;
use crate::run_dir::json;
use crate::schedule::Role;
use crate::units::short_names;

/// Which run, and how much of it.
#[derive(Debug, Default, Clone, Args)]
pub struct FromRun {
    /// Take the workload that a run measured and go on so for a month
    #[arg(long, value_name = "RUN")]
    from_run: Option<PathBuf>,
    /// How much of the measured rate: 0.2, 10x, or operations per time such as 500/s [default: 1]
    #[arg(long, value_name = "SCALE", requires = "from_run")]
    scale: Option<String>,
    /// The store whose figures are meant, where the run measured several
    #[arg(long, value_name = "STORE", requires = "from_run")]
    store: Option<String>,
}

impl FromRun {
    /// The workload, and what was taken for granted; an empty one where no run is named.
    ///
    /// # Errors
    /// 2 when there is no such run or store, or nothing was measured.
    pub fn workload(&self) -> Result<(Workload, Vec<String>), Exit> {
        let Some(path) = &self.from_run else { return Ok((Workload::default(), Vec::new())) };
        let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--from-run {}: {e}", path.display()));
        let result = json::read(path).map_err(|e| wrong(&e))?;
        let measured =
            |store: &&str| result.windows.iter().any(|w| w.role == Role::Measure && w.store == **store);
        let stores: Vec<&str> = result.stores().into_iter().filter(measured).collect();
        let names = short_names(&stores);
        let store = match (&self.store, stores.as_slice()) {
            (_, []) => return Err(wrong(&"it measured nothing; only phases of role measure count")),
            (None, [only]) => only,
            (None, _) => {
                return Err(wrong(&format!(
                    "it measured several stores; say which with --store: {}",
                    names.join(", ")
                )));
            }
            (Some(asked), _) => {
                let at = names.iter().zip(&stores).position(|(name, full)| name == asked || *full == asked);
                stores.get(at.unwrap_or(stores.len())).ok_or_else(|| {
                    Exit::input(format!("--store {asked}: the run measured {}", names.join(", ")))
                })?
            }
        };
        let scale = match &self.scale {
            None => Scale::Times(1.0),
            Some(text) => Scale::parse(text).map_err(|e| Exit::input(format!("--scale {e}")))?,
        };
        project(&result, store, scale).map_err(|e| wrong(&e))
    }
}
