//! Computes the disturbances of the client in a window, and the latencies without its pauses.

use super::percentiles::{percentiles, with_censored};
use super::result::{Disturbances, PauseFigures, ReceiveClock};
use plimsoll_base::machine::pauses::covered_ns;
use plimsoll_recorder::Edges;
use plimsoll_recorder::collector::Usage;
use plimsoll_recorder::latency::{Latency, LatencyTable};
use plimsoll_recorder::tally::Tally;

/// Number of pauses that a result lists.
const LISTED: usize = 100;

/// Sets the latencies without the operations that overlap a pause of the client.
pub fn set_without_pauses(out: &mut Disturbances, table: &LatencyTable, open: bool) {
    out.paused_operations = table[Latency::PausedService].len();
    let paused = out.paused_operations > 0;
    let service = || percentiles(&table[Latency::Service].without(&table[Latency::PausedService]));
    let response = || table[Latency::Response].without(&table[Latency::PausedResponse]);
    out.service_without_pauses_ms = paused.then(service);
    out.response_without_pauses_ms =
        (paused && open).then(|| with_censored(&response(), &table[Latency::CensoredWait]));
}

/// Returns the disturbances of a window, except those that follow from its latencies.
pub fn of_window(tally: &Tally, usage: &Usage, edges: Edges) -> Disturbances {
    let ms = |ns: u64| ns as f64 / 1e6;
    let pauses = &usage.pauses;
    let listed = pauses.iter().take(LISTED).map(|pause| PauseFigures {
        core: pause.core as u64,
        start_s: (pause.start_ns as f64 - edges.start_ns as f64) / 1e9,
        duration_ms: ms(pause.end_ns - pause.start_ns),
    });
    Disturbances {
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
    }
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
