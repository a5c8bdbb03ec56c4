//! `plimsoll run parquet`: scans Parquet files as DuckDB or pyarrow would.

use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::flags::as_flag;
use super::out::{fit, progress, say};
use super::run_options::RunOptions;
use super::timeout::TimeoutArgument;
use plimsoll_experiment::replay::ScanExperiment;
use plimsoll_experiment::resolve::resolve;
use plimsoll_experiment::spec::{DEFAULT_SEED, TraceSpec};
use plimsoll_session::execute;
use plimsoll_workload::scan::READERS;

/// Arguments of `plimsoll run parquet`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Parquet files whose scan is measured, and directories with such files. Objects of the same sizes are written;
    /// the files stay where they are
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Program whose requests are sent: duckdb or pyarrow
    #[arg(long, value_name = "NAME", value_parser = READERS, default_value = "duckdb")]
    reader: String,
    /// Columns that are read, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    /// Number of requests in flight [default: 16]
    #[arg(long, value_name = "N")]
    concurrency: Option<u64>,
    /// Length of the measurement [default: 30s, unless --operations is given]
    #[arg(long)]
    duration: Option<String>,
    /// Number of requests after which the measurement ends
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Length of the warm-up
    #[arg(long, default_value = "2s")]
    warmup: String,
    /// Maximum number of retries after throttling, server errors and broken connections [default: 0]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Verification of reads: on compares every byte; off compares only the length [default: on]
    #[arg(long)]
    verify: Option<String>,
    /// Seed of the objects' contents
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    #[command(flatten)]
    timeout: TimeoutArgument,
    #[command(flatten)]
    options: RunOptions,
}

/// Measures the scan of files and prints the result.
///
/// # Errors
/// Exit code 2 if an argument is invalid or a file cannot be read; otherwise as [`execute`].
pub fn parquet(arguments: &Arguments) -> Result<(), Exit> {
    arguments.timeout.apply()?;
    let scan = ScanExperiment {
        trace: TraceSpec {
            files: arguments.files.iter().map(|file| file.display().to_string()).collect(),
            reader: Some(arguments.reader.clone()),
            select: arguments.columns.clone(),
            ..TraceSpec::default()
        },
        concurrency: arguments.concurrency,
        duration: arguments.duration.clone(),
        operations: arguments.operations,
        warmup: arguments.warmup.clone(),
        retries: arguments.retries,
        verify: arguments.verify.clone(),
        timeout: arguments.timeout.given().map(str::to_string),
        seed: arguments.seed,
    };
    let experiment = resolve(scan.to_spec());
    let mut experiment = experiment.map_err(|problem| Exit::input(as_flag(&problem.message)))?;
    arguments.options.name_stores(&mut experiment)?;
    let recording = experiment.phases.last().and_then(|phase| phase.workload.recording.as_ref());
    for remark in recording.iter().flat_map(|recording| &recording.notes) {
        progress(format_args!("{remark}"));
    }
    if arguments.options.dry_run {
        return say(&fit(&arguments.options.preview(&experiment)?));
    }
    let (settings, components) = (arguments.options.settings()?, arguments.options.components()?);
    arguments.options.print(execute(&experiment, &settings, &components)?)
}
