//! Options of `plimsoll run` that decide how long and how often it measures, and what the design can detect.

use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::runs::find_one;
use plimsoll_base::units::parse_duration;
use plimsoll_experiment::Experiment;
use plimsoll_judge::run_dir::run::read;
use plimsoll_judge::summary::series::LatencyKind;
use plimsoll_report::dry_run;
use plimsoll_session::until::Until;

/// Options about repetition, the end of a run, and its power.
#[derive(Debug, Args)]
#[command(next_help_heading = "Precision")]
pub struct PrecisionArguments {
    /// Measure until this question is answered: conclusive (which store has the lowest p50, and which the next?), or a
    /// figure and its precision, such as 'get.p99 +-5%'
    #[arg(long, value_name = "QUESTION", conflicts_with_all = ["shard", "repeats"])]
    until: Option<String>,
    /// Difference between stores that does not matter [default: 5%]
    #[arg(long, value_name = "SHARE", requires = "until")]
    margin: Option<String>,
    /// Maximum time of --until, all stores and warm-ups together [default: 10m]
    #[arg(long, value_name = "TIME", requires = "until")]
    max_time: Option<String>,
    /// Number of repeats of the warm-up and the measurement [default: that of the experiment, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: Option<u32>,
    /// Earlier run from which --dry-run predicts the smallest difference that the plan can detect
    #[arg(long, value_name = "RUN", requires = "dry_run")]
    pilot: Option<PathBuf>,
}

impl PrecisionArguments {
    /// Applies `--repeats` to an experiment.
    ///
    /// # Errors
    /// Exit code 2 if a cold phase has fewer objects than repeats.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<(), Exit> {
        self.repeats.map_or(Ok(()), |repeats| experiment.set_repeats(repeats).map_err(Exit::input))
    }

    /// Returns the question that ends the run; `None` without `--until`.
    ///
    /// # Errors
    /// Exit code 2 if a value is invalid. The message names its flag.
    pub fn until(&self) -> Result<Option<Until>, Exit> {
        let Some(text) = &self.until else { return Ok(None) };
        let margin = match self.margin.as_deref() {
            None => 0.05,
            Some(text) => {
                let share = text.trim().strip_suffix('%').and_then(|p| p.parse::<f64>().ok());
                share.filter(|p| *p > 0.0 && *p <= 100.0).map(|p| p / 100.0).ok_or_else(|| {
                    Exit::input(format!("--margin {text}: use a share above 0% and at most 100%, such as 5%"))
                })?
            }
        };
        let max_time = self.max_time.as_deref().unwrap_or("10m");
        let max_ns = parse_duration(max_time).map_err(|e| Exit::input(format!("--max-time {e}")))?;
        if max_ns == 0 {
            return Err(Exit::input(
                "--max-time 0: the time must be positive; omit --max-time for 10 minutes",
            ));
        }
        Until::parse(text, margin, max_ns as f64 / 1e9)
            .map(Some)
            .map_err(|e| Exit::input(format!("--until {e}")))
    }

    /// Renders the power of a plan for `--dry-run`.
    ///
    /// # Errors
    /// Exit code 2 if the pilot cannot be read.
    pub fn power(&self, experiment: &Experiment) -> Result<String, Exit> {
        let found = self.pilot.as_ref().map(|path| find_one("--pilot", path)).transpose()?;
        let pilot = found.as_ref().map(|path| read(path, &[LatencyKind::Service, LatencyKind::Response]));
        Ok(dry_run::power(experiment, pilot.transpose().map_err(Exit::input)?.as_ref()))
    }
}
