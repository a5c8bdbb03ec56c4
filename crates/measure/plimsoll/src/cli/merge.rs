//! `plimsoll merge`: merges the runs of several shards into one run directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;

use super::command_line;
use super::exit::Exit;
use super::out::{fit, say};
use super::report::of_run;
use super::runs::find;
use plimsoll_base::files::read_text;
use plimsoll_judge::run_dir::MAX_TEXT;
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::environment::{Environment, read_environment};
use plimsoll_judge::run_dir::json;
use plimsoll_judge::run_dir::merge::{ShardLog, merge_intervals};
use plimsoll_judge::run_dir::run::Run;
use plimsoll_judge::run_dir::{intervals, size_log};
use plimsoll_judge::summary::result::RunResult;
use plimsoll_judge::summary::shards::merge_runs;
use plimsoll_report::terminal;

/// Arguments of `plimsoll merge`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run directories of the shards
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Directory in which the merged run directory is created
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
    /// Print result.json instead of the table
    #[arg(long)]
    json: bool,
}

/// The run of one shard.
struct Shard {
    path: PathBuf,
    result: RunResult,
    environment: Environment,
    experiment: String,
}

fn read(path: &Path) -> Result<Shard, Exit> {
    let of = |e: std::io::Error| Exit::input(format!("{}: {e}; specify a run directory", path.display()));
    let result = json::read(path).map_err(Exit::input)?;
    if result.run.shards.len() != 1 {
        return Err(Exit::input(format!(
            "{}: not a shard; only runs made with --shard can be merged",
            path.display()
        )));
    }
    Ok(Shard {
        path: path.to_path_buf(),
        environment: read_environment(path).map_err(of)?,
        experiment: read_text(&path.join("experiment.toml"), MAX_TEXT).map_err(of)?,
        result,
    })
}

/// Returns the part of the run ID that all shards share: the part before the last dot.
fn group(id: &str) -> &str {
    id.rsplit_once('.').map_or(id, |(group, _)| group)
}

fn check(shards: &[Shard]) -> Result<(), Exit> {
    let first = &shards[0];
    let mut numbers = BTreeMap::new();
    for shard in shards {
        let differs = |property: &str| {
            Exit::input(format!(
                "{} and {} are not shards of one run: their {property} differ; merge shards of the same run",
                first.path.display(),
                shard.path.display()
            ))
        };
        if shard.experiment != first.experiment {
            return Err(differs("experiments"));
        }
        if group(&shard.result.run.id) != group(&first.result.run.id) {
            return Err(differs("start times or shard counts"));
        }
        if let Some(other) = numbers.insert(shard.result.run.shards[0].shard, &shard.path) {
            return Err(Exit::input(format!(
                "{} and {} are the same shard; specify each shard once",
                other.display(),
                shard.path.display()
            )));
        }
    }
    Ok(())
}

/// Merges shards and prints the result.
///
/// # Errors
/// Exit code 2 if the runs are not shards of one run, or the run directory cannot be written.
pub fn merge(arguments: &Arguments) -> Result<(), Exit> {
    let run = merge_shards(&find(&arguments.runs)?, &arguments.out)?;
    let text = if arguments.json {
        json::to_string(&run.result)
    } else {
        let rendered = terminal::render(&run.result, terminal::Detail::default());
        fit(&format!("{rendered}results: {}\n", run.path.display()))
    };
    say(&text)
}

/// Merges shards into a run directory below `out`, with its report.
///
/// # Errors
/// Exit code 2 if the runs are not shards of one run, or the run directory cannot be written.
pub fn merge_shards(runs: &[PathBuf], out: &Path) -> Result<Run, Exit> {
    let shards: Vec<Shard> = runs.iter().map(|run| read(run)).collect::<Result<_, _>>()?;
    check(&shards)?;
    let id = group(&shards[0].result.run.id).to_string();
    let results: Vec<RunResult> = shards.iter().map(|s| s.result.clone()).collect();
    let merged = merge_runs(&id, &results)
        .ok_or_else(|| Exit::input("there is nothing to merge; specify the run directories of the shards"))?;
    let out_error = |e: std::io::Error| Exit::input(format!("--out {}: {e}", out.display()));
    let mut directory = RunDirectory::create(out, &id, &shards[0].experiment, false).map_err(out_error)?;
    let origin = shards.iter().map(|s| s.environment.origin_unix_s).fold(f64::INFINITY, f64::min);
    let environment = Environment {
        command: command_line(),
        origin_unix_s: origin,
        shard: None,
        ..shards[0].environment.clone()
    };
    directory.environment(&environment).map_err(out_error)?;
    write_intervals(&shards, origin, &mut directory)?;
    let (run, unwritten) = directory.finish(merged, environment);
    unwritten.map_or(Ok(()), |e| Err(out_error(e)))?;
    of_run(&run)?;
    Ok(run)
}

/// Adds up the seconds of all shards on the time axis of the shard that started first. A host's clock is
/// corrected only by its `--clock-offset`.
///
/// # Errors
/// Exit code 2 if the intervals of a shard cannot be read.
fn write_intervals(shards: &[Shard], origin: f64, directory: &mut RunDirectory) -> Result<(), Exit> {
    let log = |shard: &Shard, name| {
        let offset_s = shard.result.run.shards[0].host_offset_s.unwrap_or(0.0);
        let shift_s = (shard.environment.origin_unix_s - offset_s - origin).max(0.0);
        ShardLog { run: shard.path.clone(), name, shift_s }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for name in [intervals::NAME, size_log::NAME] {
        // A shard without objects of several sizes has no log of size classes.
        let has_log = |shard: &&Shard| name == intervals::NAME || shard.path.join(name).exists();
        let logs: Vec<ShardLog> = shards.iter().filter(has_log).map(|shard| log(shard, name)).collect();
        if !logs.is_empty() {
            merge_intervals(&logs, threads, directory).map_err(Exit::input)?;
        }
    }
    Ok(())
}
