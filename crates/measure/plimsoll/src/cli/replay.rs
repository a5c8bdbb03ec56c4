//! `plimsoll replay`: repeats the requests of logs.

use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::out::{fit, note, say};
use super::run_options::RunOptions;
use super::timeout::TimeoutArgument;
use plimsoll_experiment::logs::FORMATS;
use plimsoll_experiment::replay::{Replay, resolve_trace};
use plimsoll_experiment::resolve::resolve;
use plimsoll_experiment::spec::{DEFAULT_SEED, TraceSpec};
use plimsoll_session::execute;
use plimsoll_workload::trace::Recording;

/// Logs of requests, and how to read them.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// Logs of requests: files, which may be compressed with gzip or Zstandard, and directories with files
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Format of the logs [default: detected]
    #[arg(long, value_name = "NAME", value_parser = FORMATS)]
    format: Option<String>,
    /// Other name of a column of a CSV log than time, operation, key, size, bytes, status or bucket; may be repeated
    #[arg(long, value_name = "COLUMN=NAME")]
    columns: Vec<String>,
}

/// Parses other names of the columns of a CSV log, such as `time=timestamp`.
///
/// # Errors
/// Exit code 2 if one of them is malformed.
pub fn columns(words: &[String]) -> Result<Vec<(String, String)>, Exit> {
    let column = |text: &String| {
        let pair = text.split_once('=').map(|(column, name)| (column.to_string(), name.to_string()));
        pair.ok_or_else(|| {
            Exit::input(format!("--columns {text}: write COLUMN=NAME, such as time=timestamp"))
        })
    };
    words.iter().map(column).collect()
}

impl LogArguments {
    /// Returns the trace as an experiment file describes it.
    ///
    /// # Errors
    /// Exit code 2 if `--columns` is malformed.
    fn to_spec(&self, speed: f64) -> Result<TraceSpec, Exit> {
        Ok(TraceSpec {
            files: self.logs.iter().map(|log| log.display().to_string()).collect(),
            format: self.format.clone(),
            columns: columns(&self.columns)?.into_iter().collect(),
            speed: Some(speed),
            ..TraceSpec::default()
        })
    }

    /// Reads the logs. Returns the trace and the names of the logs.
    ///
    /// # Errors
    /// Exit code 2 if a log cannot be read.
    pub fn read(&self) -> Result<(Recording, String), Exit> {
        let spec = self.to_spec(1.0)?;
        let recording = resolve_trace(&spec, true, &[]).map_err(|problem| Exit::input(problem.message))?;
        Ok((recording, spec.files.join(", ")))
    }
}

/// Arguments of `plimsoll replay`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    logs: LogArguments,
    /// Factor by which the requests are faster than recorded: 2x, 0.5x
    #[arg(long, value_name = "FACTOR", default_value = "1x")]
    speed: String,
    /// Repeat only this number of requests
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Maximum number of operations in flight; further ones wait, and their waiting time counts [default: 1024]
    #[arg(long, value_name = "N")]
    in_flight: Option<u64>,
    /// Closed loop: send each request as soon as one of this number of requests in flight has ended, instead of at its
    /// recorded time
    #[arg(long, value_name = "N", conflicts_with_all = ["in_flight", "speed"])]
    concurrency: Option<u64>,
    /// Maximum number of retries after throttling, server errors and broken connections [default: 0]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Verification of reads: on compares every byte of objects that do not change; off compares only the length
    /// [default: on]
    #[arg(long)]
    verify: Option<String>,
    /// Seed of all random values
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    #[command(flatten)]
    timeout: TimeoutArgument,
    #[command(flatten)]
    options: RunOptions,
}

/// Parses a factor such as `2x`.
fn parse_speed(text: &str) -> Result<f64, Exit> {
    let number = text.strip_suffix('x').unwrap_or(text).parse().ok();
    number
        .filter(|speed: &f64| speed.is_finite() && *speed > 0.0)
        .ok_or_else(|| Exit::input(format!("--speed {text}: use a factor above 0, such as 2x")))
}

/// Repeats the requests of logs and prints the result.
///
/// # Errors
/// Exit code 2 if an argument is invalid or a log cannot be read; otherwise as [`execute`].
pub fn replay(arguments: &Arguments) -> Result<(), Exit> {
    arguments.timeout.apply()?;
    let replay = Replay {
        trace: arguments.logs.to_spec(parse_speed(&arguments.speed)?)?,
        operations: arguments.operations,
        in_flight: arguments.in_flight,
        concurrency: arguments.concurrency,
        retries: arguments.retries,
        verify: arguments.verify.clone(),
        timeout: arguments.timeout.given().map(str::to_string),
        seed: arguments.seed,
    };
    let experiment = resolve(replay.to_spec());
    let mut experiment = experiment.map_err(|problem| Exit::input(problem.message))?;
    arguments.options.name_stores(&mut experiment)?;
    let recording = experiment.phases.last().and_then(|phase| phase.workload.recording.as_ref());
    for remark in recording.iter().flat_map(|recording| &recording.notes) {
        note(remark);
    }
    if arguments.options.dry_run {
        return say(&fit(&arguments.options.preview(&experiment)?));
    }
    let (settings, components) = (arguments.options.settings()?, arguments.options.components()?);
    arguments.options.print(execute(&experiment, &settings, &components)?)
}
