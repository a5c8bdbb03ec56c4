//! `plimsoll import`: converts another tool's log into a run directory with exact percentiles.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::command_line;
use super::exit::Exit;
use super::out::{fit, note, say};
use super::report::of_run;
use plimsoll_audit::import::r2_bench::PhaseRow;
use plimsoll_audit::import::{Imported, Log, r2_bench, replay, warp};
use plimsoll_base::machine::Machine;
use plimsoll_document::Table;
use plimsoll_engine::store::ownership::RunId;
use plimsoll_judge::run_dir::directory::RunDirectory;
use plimsoll_judge::run_dir::environment::Environment;
use plimsoll_judge::run_dir::intervals::IntervalKey;
use plimsoll_judge::run_dir::json;
use plimsoll_judge::summary::limits::Means;
use plimsoll_judge::summary::ramp::{RampEnd, of_windows};
use plimsoll_judge::summary::result::{Percentiles, RunInfo, RunResult, SCHEMA, Window};
use plimsoll_judge::summary::window::{Setting, windows};
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::store_facts::Description;
use plimsoll_report::terminal;

/// Arguments of `plimsoll import`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Tool that wrote the log
    #[arg(value_enum)]
    tool: Tool,
    /// Log file: .csv.zst from warp, or .parquet from R2-bench
    file: PathBuf,
    /// Directory in which the run directory is created
    #[arg(long, value_name = "DIR", default_value = "plimsoll-runs")]
    out: PathBuf,
    /// Print result.json instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// Operation log of warp (--benchdata)
    Warp,
    /// Parquet file of R2-bench with one row per request
    R2Bench,
}

/// Imports a log and prints its results.
///
/// # Errors
/// Exit code 2 if the file is not in the format of the tool, or the run directory cannot be written.
pub fn import(arguments: &Arguments) -> Result<(), Exit> {
    let (log, published_rows) = match arguments.tool {
        Tool::Warp => (warp::read(&arguments.file).map_err(Exit::input)?, None),
        Tool::R2Bench => {
            let (log, table) = r2_bench::read(&arguments.file).map_err(Exit::input)?;
            (log, Some(table))
        }
    };
    log.notes.iter().for_each(|text| note(format_args!("note: {text}")));
    let imported = replay(&log);
    let result = result_of(&log, &imported, if arguments.tool == Tool::Warp { "warp" } else { "r2-bench" });
    let out_error = |e: std::io::Error| Exit::input(format!("--out {}: {e}", arguments.out.display()));
    let text = format!("# {}: an imported run has no experiment\nname = \"imported\"\n", log.origin);
    let mut directory =
        RunDirectory::create(&arguments.out, &result.run.id, &text, true).map_err(out_error)?;
    let environment = Environment {
        version: env!("CARGO_PKG_VERSION").into(),
        command: command_line(),
        machine: Machine::default(),
        origin_unix_s: log.origin_unix_s,
        ..Environment::default()
    };
    directory.environment(&environment).map_err(out_error)?;
    write_rows(&log, &imported, &mut directory);
    let (run, unwritten) = directory.finish(result, environment);
    unwritten.map_or(Ok(()), |e| Err(out_error(e)))?;
    of_run(&run)?;
    let text = if arguments.json {
        json::to_string(&run.result)
    } else {
        fit(&tables(&log, published_rows.as_deref(), &run.result, &run.path))
    };
    say(&text)?;
    Ok(())
}

fn result_of(log: &Log, imported: &Imported, provider: &str) -> RunResult {
    let store = Description { url: log.store.clone(), provider: provider.into(), ..Description::default() };
    let mut all: Vec<Window> = Vec::new();
    for (phase_run, state) in imported.phase_runs.iter().zip(&imported.states) {
        let setting = Setting {
            store: &store,
            means: Means { usable_cores: 1.0, workers: 1 },
            connections: phase_run.phase.load.slots(),
            epoch_unix_s: log.origin_unix_s,
            now_ns: 0,
        };
        all.extend(windows(phase_run, state, setting));
    }
    let transfers_known = log.records.iter().any(|r| r.first_byte_ns > 0);
    for window in &mut all {
        // No log contains start lags, and some do not contain the times at which bodies began.
        window.start_lag_ms = Percentiles::default();
        window.histograms.remove("start_lag");
        if !transfers_known {
            window.body_ms = Percentiles::default();
            window.histograms.remove("body");
        }
    }
    let ramps = of_windows(&all, |_| RampEnd::Imported);
    let started = jiff::Timestamp::from_nanosecond((log.origin_unix_s * 1e9) as i128).unwrap_or_default();
    RunResult {
        schema: SCHEMA,
        run: RunInfo {
            id: RunId::generate().to_string(),
            experiment: "imported".into(),
            started_at: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            imported: Some(log.origin.clone()),
            stores: vec![log.store.clone()],
            notes: log.notes.clone(),
            ..RunInfo::default()
        },
        windows: all,
        ramps,
        ..RunResult::default()
    }
}

fn write_rows(log: &Log, imported: &Imported, directory: &mut RunDirectory) {
    let place = |index: usize| {
        let phase_run = &imported.phase_runs[index];
        IntervalKey {
            store: &log.store,
            phase: &phase_run.phase.name,
            role: phase_run.phase.role,
            repeat: 0,
            block: 0,
            step: phase_run.step,
        }
    };
    for (second, phase_run, kind, tally) in &imported.seconds {
        directory
            .second(place(*phase_run), &SecondRow { second: *second, phase: *phase_run, kind: *kind, tally });
    }
    for operation in &imported.operations {
        directory.operation(place(operation.phase_run), operation);
    }
}

/// Builds the table that R2-bench prints.
fn as_published(rows: &[PhaseRow]) -> Table {
    let columns = [
        "Phase",
        "Duration#",
        "Requests#",
        "Data (GB)#",
        "Throughput#",
        "Req/s#",
        "Latency (ms)#",
        "Concurrency#",
    ];
    let mut table = Table::new("", &columns);
    for row in rows {
        table.row([
            row.phase.clone(),
            format!("{:.1}", row.duration_s),
            row.requests.to_string(),
            format!("{:.3}", row.data_gib),
            format!("{:.2}", row.mbit_per_s),
            format!("{:.2}", row.per_s),
            format!("{:.1}", row.latency_ms),
            format!("{:.0}", row.concurrency),
        ]);
    }
    table
}

fn tables(
    log: &Log,
    published_rows: Option<&[PhaseRow]>,
    result: &RunResult,
    path: &std::path::Path,
) -> String {
    let mut out = String::new();
    if let Some(rows) = published_rows {
        out.push_str(
            "As R2-bench computes it: a phase lasts from its first to its last completion; the data are all \
             bytes of requests that began in the phase; concurrency is averaged over requests. GB means \
             GiB; throughput is in Mbit/s.\n\n",
        );
        out.push_str(&plimsoll_document::terminal::plain(&as_published(rows)));
        out.push_str(
            "\nAs Plimsoll computes it: a phase lasts from its first start to its last end; concurrency is the \
             time average of requests in flight.\n\n",
        );
    }
    for (name, n) in &log.left_out {
        out.push_str(&format!("! {n} rows of operation '{name}' were left out\n"));
    }
    out.push_str(&terminal::render(result, terminal::Detail::default()));
    out.push_str(&format!("results: {}\n", path.display()));
    out
}
