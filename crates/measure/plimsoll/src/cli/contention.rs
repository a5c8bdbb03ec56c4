//! `plimsoll run contention`: measures compare-and-swap on one object by number of writers.

use std::collections::BTreeMap;

use clap::Args;

use super::exit::Exit;
use super::out::{fit, say};
use super::run_options::RunOptions;
use super::timeout;
use plimsoll_experiment::resolve;
use plimsoll_experiment::spec::{
    ConcurrencySpec, DEFAULT_SEED, ExperimentSpec, ObjectsSpec, PhaseSpec, SizeSpec,
};
use plimsoll_session::execute;

/// Arguments of `plimsoll run contention`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Numbers of writers to measure, one after another
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32],
        value_parser = clap::value_parser!(u64).range(1..=1024))]
    writers: Vec<u64>,
    /// Length of the measurement of each number of writers
    #[arg(long, value_name = "TIME", default_value = "10s")]
    duration: String,
    /// Size of the object
    #[arg(long, default_value = "1KiB")]
    size: String,
    /// Seed of all random values
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Deadline of each request [default: 60s]
    #[arg(long)]
    timeout: Option<String>,
    #[command(flatten)]
    options: RunOptions,
}

impl Arguments {
    /// Builds the experiment: one phase for each number of writers, all on the same object.
    fn to_spec(&self) -> ExperimentSpec {
        let objects = PhaseSpec {
            name: "object".into(),
            role: Some("prepare".into()),
            operations: BTreeMap::from([("put".to_string(), 1)]),
            objects: ObjectsSpec {
                count: Some(1),
                size: Some(SizeSpec::Fixed(self.size.clone())),
                ..ObjectsSpec::default()
            },
            ..PhaseSpec::default()
        };
        let contended = |writers: &u64| PhaseSpec {
            name: format!("writers-{writers}"),
            operations: BTreeMap::from([("compare_and_swap".to_string(), 1)]),
            objects: ObjectsSpec { from: Some("object".into()), ..ObjectsSpec::default() },
            concurrency: Some(ConcurrencySpec::Fixed(*writers)),
            duration: Some(self.duration.clone()),
            timeout: self.timeout.clone(),
            ..PhaseSpec::default()
        };
        ExperimentSpec {
            name: "contention".into(),
            description: "compare-and-swap on one object by number of writers".into(),
            seed: self.seed,
            phase: std::iter::once(objects).chain(self.writers.iter().map(contended)).collect(),
            ..ExperimentSpec::default()
        }
    }
}

/// Runs the measurement and prints its result.
///
/// # Errors
/// Exit code 2 if an argument is invalid; otherwise as [`execute`].
pub fn contention(arguments: &Arguments) -> Result<(), Exit> {
    timeout::apply(arguments.timeout.as_deref())?;
    let mut experiment = resolve::resolve(arguments.to_spec()).map_err(|p| Exit::input(p.message))?;
    arguments.options.name_stores(&mut experiment)?;
    if arguments.options.dry_run {
        return say(&fit(&arguments.options.preview(&experiment)?));
    }
    let (settings, components) = (arguments.options.settings()?, arguments.options.components()?);
    arguments.options.print(execute(&experiment, &settings, &components)?)
}
