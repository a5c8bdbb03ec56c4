//! Comparison of the objects that a run reads with the memory of the server.

use plimsoll_base::units::format_bytes;
use plimsoll_workload::schedule::{Phase, Role};
use plimsoll_workload::{Dataset, OperationKind};

use crate::run_dir::environment::Environment;

/// Kinds of operations that read the content of objects.
const READS: [OperationKind; 4] =
    [OperationKind::Get, OperationKind::GetRange, OperationKind::Scan, OperationKind::ReadModifyWrite];

/// Returns the size in bytes of the objects that a phase reads; `None` if it reads none, or their sizes are unknown.
fn bytes_read_from(phase: &Phase) -> Option<u64> {
    let workload = &phase.workload;
    let reads = workload.recording.is_none() && READS.iter().any(|kind| workload.mix.share(*kind) > 0);
    let read = workload.read.as_ref().filter(|_| reads)?;
    match Dataset::found(read) {
        Some(found) => (0..found.len()).try_fold(0u64, |sum, index| sum.checked_add(found.size(index))),
        None if read.existing.is_some() => None,
        None => Some((read.count as f64 * read.size.mean()) as u64),
    }
}

/// Returns a note, which is conditional because a local server may read around the memory or forward the requests, if
/// the objects that a measured phase reads fit into the memory of the machine that runs the client
/// and the server, and the phase does not declare the state of its caches. `None` if the server is elsewhere, because
/// its memory is not known, and if it keeps its objects in memory.
pub fn note(phases: &[Phase], environment: &Environment) -> Option<String> {
    let in_memory = |provider: &str| ["embedded", "memory"].contains(&provider);
    if environment.stores.iter().any(|store| in_memory(&store.provider)) {
        return None;
    }
    let memory = environment.memory_of_local_stores()?;
    let undeclared = phases.iter().filter(|phase| phase.role == Role::Measure && phase.cache.is_none());
    let largest =
        undeclared.filter_map(|phase| Some((bytes_read_from(phase)?, phase))).max_by_key(|(n, _)| *n);
    let (bytes, phase) = largest.filter(|(bytes, _)| *bytes < memory)?;
    Some(format!(
        "if this machine serves them from its memory, your figures are those of a cache: the objects that '{}' reads \
         ({}) fit into its {}; declare it with --cache warm, or read more",
        phase.name,
        format_bytes(bytes),
        format_bytes(memory)
    ))
}
