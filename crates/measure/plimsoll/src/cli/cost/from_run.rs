//! A workload that extrapolates the measured operations and rate of a run to a month.

use std::path::PathBuf;

use clap::Args;

use crate::cli::exit::Exit;
use crate::cli::runs;
use plimsoll_base::units::short_names;
use plimsoll_bills::advise::projection::{Scale, project};
use plimsoll_cost::workload::Workload;
use plimsoll_judge::run_dir::json;
use plimsoll_workload::schedule::Role;

/// Flags that select a run, one of its stores, and the scale of the extrapolation.
#[derive(Debug, Default, Clone, Args)]
pub struct FromRun {
    /// Extrapolate the measured workload of a run to a month
    #[arg(long, value_name = "RUN")]
    from_run: Option<PathBuf>,
    /// Multiple of the measured rate, such as 0.2 or 10x, or the total rate, such as 500/s [default: 1]
    #[arg(long, value_name = "SCALE", requires = "from_run")]
    scale: Option<String>,
    /// Store whose figures are used if the run measured several stores
    #[arg(long, value_name = "STORE", requires = "from_run")]
    store: Option<String>,
}

impl FromRun {
    /// Returns true if a run is given.
    pub fn is_given(&self) -> bool {
        self.from_run.is_some()
    }

    /// Returns the workload of the run and the assumptions about it; an empty workload if no run is given.
    ///
    /// # Errors
    /// Exit code 2 if there is no such run or store, or nothing was measured.
    pub fn workload(&self) -> Result<(Workload, Vec<String>), Exit> {
        let Some(reference) = &self.from_run else { return Ok((Workload::default(), Vec::new())) };
        let found = runs::find(std::slice::from_ref(reference))?;
        let [path] = found.as_slice() else {
            let count = found.len();
            let problem = format!("--from-run {}: {count} runs match; use one", reference.display());
            return Err(Exit::input(problem));
        };
        let wrong = |e: &dyn std::fmt::Display| Exit::input(format!("--from-run {}: {e}", path.display()));
        let result = json::read(path).map_err(|e| wrong(&e))?;
        let measured =
            |store: &&str| result.windows.iter().any(|w| w.role == Role::Measure && w.store == **store);
        let stores: Vec<&str> = result.stores().into_iter().filter(measured).collect();
        let names = short_names(&stores);
        let store = match (&self.store, stores.as_slice()) {
            (_, []) => {
                return Err(wrong(
                    &"the run measured nothing; use a run that contains phases with role measure",
                ));
            }
            (None, [only]) => only,
            (None, _) => {
                return Err(wrong(&format!(
                    "the run measured several stores; use --store with one of {}",
                    names.join(", ")
                )));
            }
            (Some(given), _) => {
                let at = names.iter().zip(&stores).position(|(name, full)| name == given || *full == given);
                stores.get(at.unwrap_or(stores.len())).ok_or_else(|| {
                    Exit::input(format!(
                        "--store {given}: the run did not measure this store; use one of {}",
                        names.join(", ")
                    ))
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
