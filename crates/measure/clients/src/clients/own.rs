//! Plimsoll's own client: the engine that also executes experiments.

use super::Turn;
use super::batch::{BatchOperation, DATASET, OperationBatch, Timed};
use plimsoll_base::clock::SECOND;
use plimsoll_experiment::Experiment;
use plimsoll_judge::summary::latencies::of_histogram;
use plimsoll_judge::summary::result::Window;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_session::RunError;
use plimsoll_session::one_phase::{Ran, Timeline, each_once, run_phase};
use plimsoll_workload::naming::Naming;
use plimsoll_workload::schedule::Phase;
use plimsoll_workload::schedule::plan::Order;
use plimsoll_workload::size::Size;
use plimsoll_workload::{Dataset, OperationKind, Workload};

fn dataset(batch: &OperationBatch) -> Dataset {
    let naming = Naming::template("{dir}/{index}", 0).unwrap_or_default();
    Dataset { naming, ..Dataset::new(DATASET, batch.seed, batch.objects, Size::Fixed(batch.bytes)) }
}

/// Returns the phase that executes a batch.
///
/// # Errors
/// [`RunError::Input`] if the workload is invalid.
pub fn phase(batch: &OperationBatch) -> Result<Phase, RunError> {
    let kind = match batch.operation {
        BatchOperation::Put => OperationKind::Put,
        BatchOperation::Get => OperationKind::Get,
    };
    // Other clients have written other contents, which are not compared.
    each_once(batch.operation.name(), kind, dataset(batch), batch.concurrency)
}

/// Returns an experiment that writes the objects once. The run directory stores it, and `plimsoll clean` derives the
/// keys to delete from it.
///
/// # Errors
/// [`RunError::Input`] if the workload is invalid.
pub fn recorded(batch: &OperationBatch, store: &str, rounds: u32) -> Result<Experiment, RunError> {
    let upload = phase(&OperationBatch { operation: BatchOperation::Put, ..*batch })?;
    let workload = Workload { phase: DATASET.into(), ..upload.workload };
    Ok(Experiment {
        name: DATASET.into(),
        description: format!(
            "Objects of `plimsoll run clients`, written and read {rounds} times by each client"
        ),
        seed: batch.seed,
        stores: vec![store.into()],
        named: std::collections::BTreeMap::new(),
        repeats: 1,
        order: Order::Sequential,
        block_ns: 10 * SECOND,
        rewarm_ns: 2 * SECOND,
        phases: vec![Phase { name: DATASET.into(), workload, ..upload }],
    })
}

/// Executes a batch.
///
/// # Errors
/// [`RunError::Store`] if an operation failed.
pub fn execute(batch: &OperationBatch, turn: &Turn<'_>) -> Result<Timed, RunError> {
    let timeline = Timeline { repeat: 0, seed: batch.seed, origin_ns: turn.origin_ns, control: turn.control };
    let Ran { cpu_s, windows, failures, .. } =
        run_phase(&turn.store.store, turn.space, phase(batch)?, timeline, None)?;
    if let Some(first) = failures.first() {
        return Err(RunError::store(format!("plimsoll, {}: {first}", batch.operation.name())));
    }
    let mut service = Latencies::default();
    let merge = |window: &Window| service.merge(&of_histogram(window, "service", Some(&window.service_ms)));
    windows.iter().for_each(merge);
    let quantile = |rank: u64| service.quantile_ns(rank as f64 / service.len() as f64).unwrap_or_default();
    let latencies_ns = (1..=service.len()).map(quantile).collect();
    // The window begins with the first operation, and ends with the last one.
    let per_s: f64 = windows.iter().map(|window| window.achieved_per_s).sum();
    let wall_ns = (batch.objects as f64 / per_s.max(1e-9) * 1e9) as u64;
    Ok(Timed { wall_ns, cpu_ns: (cpu_s * 1e9) as u64, latencies_ns })
}
