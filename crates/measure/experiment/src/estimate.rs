//! Estimates of a run before it starts: operations, bytes and time per phase. The number of operations in a closed
//! loop that is limited by time depends on the store, so it is not estimated.

use super::Experiment;
use plimsoll_workload::popularity::Popularity;
use plimsoll_workload::schedule::{Load, Phase, Role, Verify};
use plimsoll_workload::size::Size;
use plimsoll_workload::trace::{Recorded, Trace};
use plimsoll_workload::{Dataset, OperationKind, Workload};

/// Maximum number of objects whose random sizes are added up one by one. For more objects, the estimate uses the mean
/// size, and its error is then within a few thousandths.
const COUNTED_OBJECTS: u64 = 1_000_000;

/// Estimate of one phase on one store, all repeats together.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseEstimate {
    /// Number of operations; `None` if it depends on the store.
    pub operations: Option<u64>,
    /// Object bytes written; `None` if they depend on the store.
    pub bytes_written: Option<u64>,
    /// Object bytes read; `None` if they depend on the store.
    pub bytes_read: Option<u64>,
    /// Length, in nanoseconds; `None` if a number of operations ends the phase.
    pub duration_ns: Option<u64>,
}

/// Returns the number of operations in one pass through a phase; `None` if it depends on the store.
fn operations(phase: &Phase) -> Option<u64> {
    let by_time = |rate_per_s: f64, ns: u64| (rate_per_s * ns as f64 / 1e9).round() as u64;
    let timed = match (phase.load, phase.ramp, phase.limit.duration_ns) {
        (Load::Open { .. }, Some(ramp), _) => {
            Some((0..ramp.steps()).map(|step| by_time(ramp.load(step), ramp.every_ns)).sum())
        }
        (Load::Open { rate_per_s, .. }, None, Some(ns)) => Some(by_time(rate_per_s, ns)),
        _ => None,
    };
    match (timed, phase.limit.operations) {
        (Some(timed), Some(most)) => Some(timed.min(most)),
        (None, Some(most)) if phase.limit.duration_ns.is_none() => Some(most),
        (timed, _) => timed,
    }
}

/// Returns the total size of the first `puts` objects written, in bytes.
fn written_bytes(dataset: &Dataset, puts: u64) -> u64 {
    match &dataset.size {
        Size::Fixed(bytes) => bytes * puts,
        size if puts > COUNTED_OBJECTS => (size.mean() * puts as f64).round() as u64,
        _ => (0..puts).map(|i| dataset.size_of(i % dataset.count, i / dataset.count)).sum(),
    }
}

/// Estimates a phase that repeats recorded requests.
fn of_replay(phase: &Phase, trace: &Trace) -> PhaseEstimate {
    let requests = trace.requests();
    let Some(operations) = operations(phase) else {
        let duration_ns = phase.limit.duration_ns;
        let written = trace.only_reads().then_some(0);
        return PhaseEstimate { operations: None, bytes_written: written, bytes_read: None, duration_ns };
    };
    let size = |request: &Recorded| match request.kind {
        OperationKind::GetRange => request.length,
        _ => trace.size(u64::from(request.object), u64::from(request.version)),
    };
    // All passes that are complete, and a part of another one.
    let (passes, rest) = (operations / requests.len() as u64, (operations % requests.len() as u64) as usize);
    let bytes = |kinds: &[OperationKind]| {
        let of = |part: &[Recorded]| part.iter().filter(|r| kinds.contains(&r.kind)).map(size).sum::<u64>();
        passes * of(requests) + of(&requests[..rest])
    };
    let last = requests[..operations.min(requests.len() as u64) as usize].last();
    PhaseEstimate {
        operations: Some(operations),
        bytes_written: Some(bytes(&[OperationKind::Put])),
        bytes_read: Some(bytes(&[OperationKind::Get, OperationKind::GetRange])),
        // Rounded up to milliseconds, for people.
        duration_ns: last
            .filter(|_| phase.load.is_open())
            .map(|request| request.at_ns.div_ceil(1_000_000) * 1_000_000),
    }
}

/// Number of objects from which the mean length of a range read is computed, if some are smaller than the range.
const SAMPLED: u64 = 4096;

/// Returns the mean length of a range read in bytes: smaller objects are read whole.
fn mean_range(workload: &Workload) -> f64 {
    let Some(read) = workload.read.as_ref().filter(|read| read.existing.is_none()) else {
        return workload.range as f64;
    };
    if workload.popularity == Popularity::Ranges {
        let count = read.count.clamp(1, SAMPLED);
        let (bytes, ranges) = (0..count)
            .map(|index| read.size_of(index, 0))
            .fold((0, 0), |(bytes, ranges), size| (bytes + size, ranges + size.div_ceil(workload.range)));
        return bytes as f64 / ranges.max(1) as f64;
    }
    if read.size.smallest() >= workload.range {
        return workload.range as f64;
    }
    let count = read.count.clamp(1, SAMPLED);
    (0..count).map(|index| read.size_of(index, 0).min(workload.range) as f64).sum::<f64>() / count as f64
}

/// Estimates one phase on one store over all repeats.
pub fn of_phase(phase: &Phase, repeats: u32) -> PhaseEstimate {
    if let Some(recording) = phase.workload.recording.as_ref().filter(|recording| recording.repeats) {
        return of_replay(phase, &recording.trace);
    }
    let passes = if phase.role == Role::Prepare { 1 } else { u64::from(repeats) };
    let once = operations(phase);
    let workload = &phase.workload;
    let share = |kind| f64::from(workload.mix.share(kind)) / f64::from(workload.mix.total());
    let of_kind = |kind| once.map(|n| (n as f64 * share(kind)).round() as u64 * passes);
    let wrote = workload.written.size.mean();
    let rewritten = of_kind(OperationKind::Update)
        .zip(of_kind(OperationKind::ReadModifyWrite))
        .zip(of_kind(OperationKind::CompareAndSwap))
        .map(|((updates, modified), swapped)| ((updates + modified + swapped) as f64 * wrote).round() as u64);
    let read_mean = workload.read.as_ref().filter(|d| d.existing.is_none()).map(|d| d.size.mean());
    let reads = of_kind(OperationKind::Get)
        .zip(of_kind(OperationKind::ReadModifyWrite))
        .zip(of_kind(OperationKind::CompareAndSwap))
        .map(|((gets, modified), swapped)| {
            read_mean.map(|mean| (mean * (gets + modified + swapped) as f64).round() as u64)
        });
    let ranges = of_kind(OperationKind::GetRange).map(|n| (n as f64 * mean_range(workload)).round() as u64);
    let any = |kinds: &[OperationKind]| kinds.iter().any(|kind| share(*kind) > 0.0);
    let swaps = share(OperationKind::CompareAndSwap) > 0.0;
    let whole = swaps || any(&[OperationKind::Get, OperationKind::ReadModifyWrite]);
    let bytes_read = match (whole, reads, ranges) {
        // The number of bytes that a scan reads depends on the store.
        _ if share(OperationKind::Scan) > 0.0 => None,
        (true, Some(Some(whole)), Some(ranges)) => Some(whole + ranges),
        (true, _, _) => None,
        (false, _, ranges) if share(OperationKind::GetRange) > 0.0 => ranges,
        _ => Some(0),
    };
    let bytes_written =
        match swaps || any(&[OperationKind::Put, OperationKind::Update, OperationKind::ReadModifyWrite]) {
            true => of_kind(OperationKind::Put)
                .map(|puts| written_bytes(&workload.written, puts))
                .zip(rewritten)
                .map(|(put, rewritten)| put + rewritten),
            false => Some(0),
        };
    let copied = of_kind(OperationKind::Copy).and_then(|copies| match (copies, read_mean) {
        (0, _) => Some(0),
        (copies, mean) => Some((mean? * copies as f64).round() as u64),
    });
    let read_back = match phase.verify {
        Verify::Readback => bytes_written.zip(copied).map(|(written, copied)| written + copied),
        _ => Some(0),
    };
    PhaseEstimate {
        operations: once.map(|n| n * passes),
        bytes_written,
        bytes_read: bytes_read.zip(read_back).map(|(read, back)| read + back),
        duration_ns: phase.limit.duration_ns.map(|ns| ns * passes),
    }
}

/// Returns the minimum length of the run on one store, in nanoseconds. Phases that a number of operations ends are
/// not included.
pub fn duration_ns(experiment: &Experiment) -> u64 {
    experiment.phases.iter().filter_map(|p| of_phase(p, experiment.repeats).duration_ns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::parse;

    #[test]
    fn estimates_are_exact_if_the_plan_determines_them() {
        let text = "name='x'\nrepeats=2\n\
            [[phase]]\nname='o'\nrole='prepare'\noperations={put=1}\nobjects={count=10, size='1 MiB'}\n\
            [[phase]]\nname='open'\noperations={get=3, put=1}\nobjects={from='o', size='1 KiB'}\nrate='100/s'\nduration='10s'\n\
            [[phase]]\nname='closed'\noperations={get=1}\nobjects={from='o'}\nduration='10s'\n";
        let experiment = parse("f", text, &[]).unwrap();
        let [objects, open, closed] = &experiment.phases[..] else { panic!() };
        let mib = 1 << 20;
        let of = |phase| of_phase(phase, 2);
        assert_eq!(
            of(objects),
            PhaseEstimate {
                operations: Some(10),
                bytes_written: Some(10 * mib),
                bytes_read: Some(0),
                duration_ns: None
            }
        );
        assert_eq!(
            of(open),
            PhaseEstimate {
                operations: Some(2000),
                bytes_written: Some(500 * 1024),
                bytes_read: Some(1500 * mib),
                duration_ns: Some(20_000_000_000)
            }
        );
        assert_eq!((of(closed).operations, of(closed).bytes_read), (None, None), "they depend on the store");
        assert_eq!(duration_ns(&experiment), 40_000_000_000);
    }
}
