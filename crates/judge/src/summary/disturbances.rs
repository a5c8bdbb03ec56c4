//! Computes the disturbances of the client in a window, and the latencies without its pauses.

use super::percentiles::{percentiles, with_censored};
use super::result::{Disturbances, PauseFigures, ReceiveClock};
use plimsoll_base::machine::pauses::covered_ns;
use plimsoll_recorder::Edges;
use plimsoll_recorder::collector::Usage;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::tally::Tally;

/// Number of pauses that a result lists.
const LISTED: usize = 100;

/// Histograms of one window that describe or exclude disturbances.
#[derive(Debug, Default)]
pub struct Histograms {
    /// Time from arrival to processing.
    pub client_delay: Latencies,
    /// Overshoot of sleeps.
    pub wake_up_delay: Latencies,
    /// Service times of all operations.
    pub service: Latencies,
    /// Response times of all operations; empty in a closed loop.
    pub response: Latencies,
    /// Waits of censored operations.
    pub censored: Latencies,
    /// Service times of the operations that overlap a pause.
    pub paused_service: Latencies,
    /// Response times of these operations.
    pub paused_response: Latencies,
}

/// Sets the figures of `out` that follow from histograms.
pub fn set_percentiles(out: &mut Disturbances, histograms: &Histograms, open: bool) {
    out.client_delay_ms = percentiles(&histograms.client_delay);
    out.wake_up_delay_ms = percentiles(&histograms.wake_up_delay);
    out.paused_operations = histograms.paused_service.len();
    let paused = out.paused_operations > 0;
    let service = paused.then(|| percentiles(&histograms.service.without(&histograms.paused_service)));
    out.service_without_pauses_ms = service;
    out.response_without_pauses_ms = (paused && open).then(|| {
        with_censored(&histograms.response.without(&histograms.paused_response), &histograms.censored)
    });
}

/// Returns the disturbances of a window.
pub fn of_window(tally: &Tally, usage: &Usage, edges: Edges, open: bool) -> Disturbances {
    let ms = |ns: u64| ns as f64 / 1e6;
    let pauses = &usage.pauses;
    let listed = pauses.iter().take(LISTED).map(|pause| PauseFigures {
        core: pause.core as u64,
        start_s: (pause.start_ns as f64 - edges.start_ns as f64) / 1e9,
        duration_ms: ms(pause.end_ns - pause.start_ns),
    });
    let mut out = Disturbances {
        receive_clock: match tally.by_kernel {
            0 => ReceiveClock::Process,
            n if n == tally.succeeded => ReceiveClock::Kernel,
            _ => ReceiveClock::Mixed,
        },
        pauses: pauses.len() as u64,
        pauses_s: covered_ns(pauses, edges.start_ns, edges.end_ns) as f64 / 1e9,
        longest_pause_ms: pauses.iter().map(|p| ms(p.end_ns - p.start_ns)).fold(0.0, f64::max),
        first_pauses: listed.collect(),
        clock_steps_ms: usage.clock_steps.iter().map(|step| step.by_ns as f64 / 1e6).collect(),
        ..Disturbances::default()
    };
    let histograms = Histograms {
        client_delay: tally.client_delay.clone(),
        wake_up_delay: usage.wake_up_delay.clone(),
        service: tally.service.clone(),
        response: tally.response.clone(),
        censored: tally.censored_waits.clone(),
        paused_service: tally.paused_service.clone(),
        paused_response: tally.paused_response.clone(),
    };
    set_percentiles(&mut out, &histograms, open);
    out
}

/// Merges the figures of several windows that do not follow from histograms.
pub fn merge(parts: &[&Disturbances]) -> Disturbances {
    let clock = |clock: ReceiveClock| parts.iter().all(|part| part.receive_clock == clock);
    let first = parts.iter().flat_map(|part| &part.first_pauses).take(LISTED).copied();
    Disturbances {
        receive_clock: match (clock(ReceiveClock::Kernel), clock(ReceiveClock::Process)) {
            (true, _) => ReceiveClock::Kernel,
            (_, true) => ReceiveClock::Process,
            _ => ReceiveClock::Mixed,
        },
        pauses: parts.iter().map(|part| part.pauses).sum(),
        pauses_s: parts.iter().map(|part| part.pauses_s).sum(),
        longest_pause_ms: parts.iter().map(|part| part.longest_pause_ms).fold(0.0, f64::max),
        first_pauses: first.collect(),
        clock_steps_ms: parts.iter().flat_map(|part| &part.clock_steps_ms).copied().collect(),
        ..Disturbances::default()
    }
}
