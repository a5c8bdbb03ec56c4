//! Computes the figures of one window and operation.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::addresses;
use super::contention;
use super::disturbances;
use super::latencies;
use super::limits::{Means, client_limited, exhausted};
use super::percentiles::percentiles;
use super::result::{LoopKind, Percentiles, Window};
use super::saturation::saturated;
use super::size_classes;
use super::uploads;
use plimsoll_recorder::Edges;
use plimsoll_recorder::cache_status::CacheStatus;
use plimsoll_recorder::collector::WindowState;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::Latency;
use plimsoll_recorder::part::WindowPart;
use plimsoll_recorder::store_facts::Description;
use plimsoll_recorder::tally::Tally;
use plimsoll_workload::OperationKind;
use plimsoll_workload::naming::Naming;
use plimsoll_workload::schedule::Phase;
use plimsoll_workload::schedule::plan::PhaseRun;

/// Share by which the integral of the in-flight counter and the operations' overlaps may differ
/// (docs/method.md, "Windows").
const FLOW_TOLERANCE: f64 = 0.005;

/// Inputs of a window's figures other than the counts.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Description of the store.
    pub store: &'a Description,
    /// Resources available to the client.
    pub means: Means,
    /// This host's share of the in-flight limit, in operations.
    pub connections: usize,
    /// Unix time of the monotonic clock's zero, in seconds.
    pub epoch_unix_s: f64,
    /// Provisional end of a phase run that has not finished, on the monotonic clock.
    pub now_ns: u64,
}

/// Returns the windows of one phase run, one per kind of operation in its mix.
pub fn windows(phase_run: &PhaseRun, state: &WindowState, setting: Setting<'_>) -> Vec<Window> {
    let (phase, now_ns) = (&phase_run.phase, setting.now_ns);
    let Some(edges) = state.edges else { return Vec::new() };
    let end_ns = if state.finished { edges.end_ns } else { edges.end_ns.min(now_ns.max(edges.start_ns + 1)) };
    let window_s = state.length_ns.unwrap_or(end_ns - edges.start_ns) as f64 / 1e9;
    let mut lag = Latencies::default();
    state.tallies.values().for_each(|t| lag.merge(&t.latencies[Latency::StartLag]));
    let lag = percentiles(&lag);
    // Kinds outside the phase's mix are operations that spill over from the previous phase; they are skipped.
    let own = state.tallies.iter().filter(|(kind, _)| phase.workload.mix.share(**kind) > 0);
    own.map(|(kind, tally)| {
        let mut window = figures(phase, tally, window_s);
        window.store = setting.store.url.clone();
        window.provider = setting.store.provider.clone();
        window.operation = *kind;
        window.repeat = phase_run.repeat;
        window.block = phase_run.block;
        window.step = phase_run.step;
        window.concurrency = setting.connections;
        window.sweep = phase.sweep.clone();
        window.upload = uploads::of_phase(phase, *kind);
        window.key_group = key_group(phase, *kind);
        window.start_unix_s = setting.epoch_unix_s + edges.start_ns as f64 / 1e9;
        window.client_steal = state.usage.steal;
        let open = phase.load.is_open();
        window.disturbances = disturbances::of_window(tally, &state.usage, Edges { end_ns, ..edges });
        let mut wake_ups = tally.latencies[Latency::WakeUpDelay].clone();
        wake_ups.merge(&state.usage.wake_up_delay);
        latencies::set_with(&mut window, &tally.latencies, &wake_ups, open);
        size_classes::of_tally(&mut window, phase, tally);
        addresses::of_tally(&mut window, &setting.store.addresses, tally);
        window.client_exhausted = exhausted(&state.usage, window_s, setting.means);
        window.client_limited =
            client_limited(&state.usage, window_s, setting.means, &lag, &window.service_ms);
        window
    })
    .collect()
}

/// Returns the name of the group of keys that an operation addresses; `None` for the default keys.
fn key_group(phase: &Phase, kind: OperationKind) -> Option<String> {
    let dataset = if kind.reads() { phase.workload.read.as_ref() } else { Some(&phase.workload.written) };
    let naming = &dataset.filter(|d| d.existing.is_none())?.naming;
    if *naming == Naming::default() { None } else { naming.group().or_else(|| Some(naming.to_string())) }
}

/// Returns the figures that follow from the counts of a tally; [`latencies::set`] adds those of its histograms.
fn figures(phase: &Phase, tally: &Tally, window_s: f64) -> Window {
    let open = phase.load.is_open();
    let achieved = tally.completed as f64 / window_s;
    let offered = tally.intended as f64 / window_s;
    let in_flight_mean = tally.in_flight_ns as f64 / 1e9 / window_s;
    let saturated = open && saturated(tally, in_flight_mean);
    let mut histograms = BTreeMap::new();
    let mut cache_ms = BTreeMap::new();
    for (part, latencies) in &tally.parts {
        if let WindowPart::Cache(status) = part {
            histograms.insert(format!("cache_{status}"), STANDARD.encode(latencies.to_bytes()));
            cache_ms.insert(status.to_string(), percentiles(latencies));
        }
    }
    Window {
        hit_ratio: hit_ratio(&cache_ms),
        cache_ms,
        phase: phase.name.clone(),
        role: phase.role,
        loop_: if open { LoopKind::Open } else { LoopKind::Closed },
        offered_per_s: open.then_some(offered),
        achieved_per_s: achieved,
        saturated,
        window_s,
        operations: tally.operations,
        attempts: tally.attempts,
        retries: tally.retries,
        commits_by_writer: contention::commits(phase, tally),
        bytes: tally.bytes.round() as u64,
        censored: tally.censored,
        connections: tally.connections,
        reconnects: tally.reconnects,
        instrument_error: flow_error(tally),
        errors: tally.errors.clone(),
        in_flight_mean,
        throughput_bytes_per_s: tally.bytes / window_s,
        histograms,
        ..Window::default()
    }
}

/// Returns the share of cache hits among the responses that carry a cache status; `None` if no
/// response carries one.
pub fn hit_ratio(cache_ms: &BTreeMap<String, Percentiles>) -> Option<f64> {
    let all: u64 = cache_ms.values().map(|p| p.n).sum();
    let hits = cache_ms.get(CacheStatus::Hit.name()).map_or(0, |p| p.n);
    (all > 0).then(|| hits as f64 / all as f64)
}

/// Returns true if all operations that overlap the window have ended, so that its figures are final.
pub fn settled(state: &WindowState) -> bool {
    state.finished
        && state
            .tallies
            .values()
            .all(|t| (t.in_flight_ns - t.overlap_ns as i128).abs() * 1000 <= t.in_flight_ns)
}

/// Describes a failed consistency check of the in-flight accounting; `None` if it passes.
fn flow_error(tally: &Tally) -> Option<String> {
    let (integral, overlaps) = (tally.in_flight_ns as f64, tally.overlap_ns as f64);
    let difference = (integral - overlaps).abs() / integral.max(overlaps).max(1.0);
    (difference > FLOW_TOLERANCE).then(|| {
        format!(
            "the in-flight integral ({:.3} s) and the operations' overlaps ({:.3} s) differ by {:.1}%; this is a bug, please report it",
            integral / 1e9,
            overlaps / 1e9,
            difference * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_operations_do_not_count_as_saturation() {
        let tally = |failed: u64| Tally {
            intended: 10_000,
            begun: 10_000,
            completed: 9_000,
            errors: [("503 SlowDown".to_string(), failed)].into_iter().collect(),
            ..Tally::default()
        };
        assert!(saturated(&tally(0), 4.0), "a tenth never ended");
        assert!(!saturated(&tally(1_000), 4.0), "a tenth failed");
        assert!(saturated(&Tally { begun: 9_000, ..tally(1_000) }, 4.0), "a tenth never began");
    }
}
