//! The scenarios: faults of the server, the load that measures it, and the figures to compare with its access log.

use std::sync::Arc;

use super::Row;
use super::true_values::{self, quantile_ms};
use crate::clock::now_ns;
use crate::driver::background::Background;
use crate::driver::{Job, Shard, Site, run as drive};
use crate::experiment::resolve::parse;
use crate::machine::usable_cores;
use crate::recorder::collector::{Listener, SecondRow, WindowState};
use crate::recorder::histogram::Latencies;
use crate::schedule::Phase;
use crate::schedule::plan::{Layout, Order, PhaseRun, plan};
use crate::server::access_log::read;
use crate::session::RunError;
use crate::session::embedded::EmbeddedServer;
use crate::session::runtime::block_on;
use crate::store::ownership::{KeySpace, RunId};
use crate::store::{Request, Store};
use crate::summary::limits::Means;
use crate::summary::percentiles::{PERCENTILES, percentiles, samples_needed, with_censored};
use crate::summary::result::Percentiles;
use crate::summary::window::{Setting, windows};
use crate::workload::OperationKind;
use crate::workload::payload::Block;

/// A server with faults, and the load that measures it.
pub struct Scenario {
    /// Name on the command line and in the table.
    pub name: &'static str,
    /// Description for the user: behaviour of the server and load.
    pub what: &'static str,
    /// Approximate duration, in seconds.
    pub seconds: u32,
    /// Faults of the server, in the syntax of `plimsoll serve --inject`.
    inject: &'static str,
    /// Load and duration of the measured phase, in the syntax of an experiment file.
    load: &'static str,
}

/// All scenarios, in the order in which they run.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "floor",
        what: "a server that answers immediately, 5,000/s",
        seconds: 13,
        inject: "latency=0",
        load: "rate = '5000/s'\nduration = '10s'",
    },
    Scenario {
        name: "constant",
        what: "constant 5 ms, 500/s",
        seconds: 25,
        inject: "latency=5ms",
        load: "rate = '500/s'\nduration = '22s'",
    },
    Scenario {
        name: "lognormal",
        what: "lognormal latency with median 5 ms and sigma 0.8, 500/s Poisson",
        seconds: 25,
        inject: "latency=lognormal(5ms;0.8)",
        load: "rate = '500/s'\narrival = 'poisson'\nduration = '22s'",
    },
    Scenario {
        name: "stall",
        what: "5 ms with a stall of 1 s every 10 s, 500/s",
        seconds: 36,
        inject: "latency=5ms,stall=1s/10s",
        load: "rate = '500/s'\nduration = '35s'",
    },
    Scenario {
        name: "slow-stretch",
        what: "5 ms, but 100 ms for 10 s, 16 in flight for 50 s",
        seconds: 53,
        inject: "latency=5ms,slow=100ms@22s+10s",
        load: "concurrency = 16\nduration = '50s'",
    },
    Scenario {
        name: "saturation",
        what: "a server limited to 400/s, 500/s offered",
        seconds: 20,
        inject: "capacity=400/s",
        load: "rate = '500/s'\nduration = '12s'\ndrain = '1s'",
    },
];

/// Objects to read, as in an experiment file. There are few, because the faults also slow down their writing.
const OBJECTS: &str = "{ count = 64, size = '1 KiB' }";

/// Result of a scenario.
pub struct Measured {
    /// Measured figures with their true values.
    pub rows: Vec<Row>,
    /// CPU time of the client per operation, in microseconds.
    pub cpu_us_per_operation: f64,
}

struct Silent;

impl Listener for Silent {
    fn second(&mut self, _: &SecondRow<'_>) {}
    fn snapshot(&mut self, _: &[WindowState]) {}
    fn failure(&mut self, _: &str, _: &str) {}
}

/// Returns the phases of a scenario: writing the objects, 2 s of warm-up under the same load, and the measurement.
fn phases(scenario: &Scenario) -> Result<Vec<Phase>, RunError> {
    let measured =
        format!("operations = {{ get = 1 }}\nobjects = {{ from = 'objects' }}\n{}\n", scenario.load);
    let length = scenario.load.lines().find(|l| l.starts_with("duration")).unwrap_or_default();
    let warmup = measured.replace(length, "duration = '2s'");
    let text = format!(
        "name = 'calibrate'\n[[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = {{ put = 1 }}\nobjects = {OBJECTS}\n\
         [[phase]]\nname = 'warmup'\nrole = 'warmup'\n{warmup}[[phase]]\nname = 'measured'\n{measured}"
    );
    Ok(parse(scenario.name, &text, &[]).map_err(RunError::check)?.phases)
}

/// Runs one scenario against a new server.
///
/// # Errors
/// Fails if the server cannot be started, its access log cannot be read, or nothing was measured.
pub fn run(scenario: &Scenario) -> Result<Measured, RunError> {
    let log = std::env::temp_dir().join(format!(
        "plimsoll-access-log-{}-{}.csv",
        std::process::id(),
        scenario.name
    ));
    let measured = measure(scenario, &log);
    let _ = std::fs::remove_file(&log);
    measured
}

fn measure(scenario: &Scenario, log: &std::path::Path) -> Result<Measured, RunError> {
    let phases = phases(scenario)?;
    let layout = Layout { repeats: 1, order: Order::Sequential, block_ns: 1, rewarm_ns: 0, seed: 42 };
    let phase_runs: Arc<[PhaseRun]> = plan(&phases, layout, 1).into();
    let server =
        EmbeddedServer::start(&["--inject", scenario.inject, "--access-log", &log.to_string_lossy()])?;
    let store = server.store("calibrate")?;
    create_bucket(store.as_ref())?;
    // One worker is enough for every scenario and leaves the other cores to the server.
    let workers = 1;
    let job = Arc::new(Job {
        sites: vec![Site { store, space: KeySpace::of_run("", &RunId::generate()) }],
        phase_runs: Arc::clone(&phase_runs),
        workers,
        block: Block::new(42),
        tag: true,
        log: false,
        shard: Shard::default(),
        start_at_ns: None,
        prepared: None,
    });
    let states = drive(&job, now_ns(), &Arc::default(), &mut Silent).map_err(RunError::store)?;
    let description = job.sites[0].store.describe();
    drop(job);
    server.stop();
    let entries =
        read(log).map_err(|e| RunError::store(format!("cannot read the access log of the server: {e}")))?;
    let means = Means { usable_cores: usable_cores(), workers };
    let (Some(phase_run), Some(state)) = (phase_runs.last(), states.last()) else {
        return Err(RunError::check("the scenario has no phase"));
    };
    let connections = phase_run.phase.load.slots();
    let setting = Setting { store: &description, means, connections, epoch_unix_s: 0.0, now_ns: now_ns() };
    let windows = windows(phase_run, state, setting);
    let window = windows.first().ok_or_else(|| RunError::check("the scenario measured nothing"))?;
    if let Some(error) = &window.instrument_error {
        return Err(RunError::check(error));
    }
    let phase = &phase_run.phase;
    let start_ns = state.edges.map_or(0, |e| e.start_ns);
    let mut true_values = true_values::of(phase, start_ns, &entries);
    let empty = Latencies::default();
    let tally = state.tallies.get(&OperationKind::Get);
    let mut rows = Vec::new();
    if true_values.response.is_empty() || window.censored == 0 {
        let service = percentiles(tally.map_or(&empty, |t| &t.service));
        rows.extend(compare(scenario.name, "service", &service, &mut true_values.service));
    }
    if !true_values.response.is_empty() {
        let response =
            with_censored(tally.map_or(&empty, |t| &t.response), tally.map_or(&empty, |t| &t.censored_waits));
        rows.extend(compare(scenario.name, "response", &response, &mut true_values.response));
    }
    if scenario.name == "floor" {
        rows.push(lag_row(&window.start_lag_ms));
    }
    let cpu_us_per_operation = state.usage.process_cpu_ns as f64 / 1e3 / window.operations.max(1) as f64;
    Ok(Measured { rows, cpu_us_per_operation })
}

fn create_bucket(store: &dyn Store) -> Result<(), RunError> {
    block_on(async { Background::new(store).send_until_answered(Request::CreateBucket).await })?
        .map_err(RunError::store)?;
    Ok(())
}

/// Returns the row of the start lag. All of it counts as error; at most 0.5 ms is allowed.
fn lag_row(lag: &Percentiles) -> Row {
    let measured_ms = lag.p99.unwrap_or(f64::INFINITY);
    Row {
        name: "floor".into(),
        metric: "start lag p99".into(),
        true_ms: 0.0,
        measured_ms,
        error_ms: measured_ms,
        allowed_ms: 0.5,
        bound: false,
        within: measured_ms <= 0.5,
    }
}

/// Compares the percentiles of `measured` with the true values. The largest allowed error is 2% of the true value,
/// but at least 0.5 ms for p50 and p99 and at least 1 ms for p99.9.
fn compare(name: &str, latency: &str, measured: &Percentiles, true_values: &mut [u64]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (percentile, q) in PERCENTILES {
        if !matches!(percentile, "p50" | "p99" | "p99.9") || (true_values.len() as u64) < samples_needed(q) {
            continue;
        }
        let Some(true_ms) = quantile_ms(true_values, q) else { continue };
        let floor = if percentile == "p99.9" { 1.0 } else { 0.5 };
        let allowed_ms = f64::max(0.02 * true_ms, floor);
        let bound = measured.get(percentile).is_none();
        let measured_ms =
            measured.get(percentile).or(measured.lower_bounds.get(percentile).copied()).unwrap_or(f64::NAN);
        // A bound is correct if the true value is not below it.
        let error_ms = if bound { f64::max(measured_ms - true_ms, 0.0) } else { measured_ms - true_ms };
        rows.push(Row {
            name: name.into(),
            metric: format!("{latency} {percentile}"),
            true_ms,
            measured_ms,
            error_ms,
            allowed_ms,
            bound,
            within: error_ms.abs() <= allowed_ms,
        });
    }
    rows
}
