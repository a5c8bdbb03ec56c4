//! Sleep of a worker until the next operation of an open loop is due, without waking up for responses.
//!
//! A wake-up of an idle core costs up to 30 us of CPU time in a virtual machine. An asynchronous wait wakes up twice
//! per operation: for the response and for the next start. The kernel records the arrival of the response anyway, so
//! the worker may read it later, together with the next start.
//!
//! The worker naps only if a late read delays nothing: no request depends on a response, no handshake is in progress,
//! and every response fits into the socket's buffer.

use super::context::Context;
use plimsoll_base::clock::{MILLISECOND, now_ns, sleep_until};
use plimsoll_base::net::connection::handshakes;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::plan::PhaseRun;

/// Longest nap, in nanoseconds. A longer wait is rare enough for two wake-ups.
const MAX_NAP_NS: u64 = 10 * MILLISECOND;

/// Largest object, in bytes, whose response surely fits into the socket's buffer.
const MAX_OBJECT: u64 = 16 * 1024;

/// Returns true if every operation of these phase runs is one request with a small response.
pub fn are_possible(phase_runs: &[PhaseRun]) -> bool {
    phase_runs.iter().all(|phase_run| {
        let phase = &phase_run.phase;
        use OperationKind::{CompareAndSwap, List, ReadModifyWrite, Scan};
        let single = |kind: OperationKind| !matches!(kind, CompareAndSwap | List | ReadModifyWrite | Scan);
        let workload = &phase.workload;
        let small = |kind: OperationKind| {
            let dataset = if kind.reads() { workload.read.as_ref() } else { Some(&workload.written) };
            !matches!(kind, OperationKind::Get | OperationKind::Put | OperationKind::Update)
                || dataset.is_some_and(|d| d.existing.is_none() && d.size.largest() <= MAX_OBJECT)
        };
        let kinds = || OperationKind::ALL.into_iter().filter(|kind| workload.mix.share(*kind) > 0);
        phase.retries == 0 && workload.range <= MAX_OBJECT && kinds().all(|kind| single(kind) && small(kind))
    })
}

/// Sleeps until `at_ns` on the monotonic clock if that is soon and nothing needs the worker before. Returns false if
/// the caller must wait in another way.
pub async fn until(context: &Context, at_ns: u64) -> bool {
    if !context.naps_possible || at_ns.saturating_sub(now_ns()) > MAX_NAP_NS {
        return false;
    }
    // The first yield runs the connection slots and then reads what has arrived; the second one processes it.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    if !context.progress.kernel_clock.get() || handshakes() > 0 {
        return false;
    }
    sleep_until(at_ns);
    true
}
