//! Computes the true latencies of a phase from the server's timing log, and their quantiles.

use std::collections::HashMap;

use plimsoll_server::timing_log::TimingEntry;
use plimsoll_workload::schedule::arrival::Arrivals;
use plimsoll_workload::schedule::{Load, Phase};

/// Times of one operation as the server logged them, in nanoseconds on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTimes {
    /// Arrival of the first byte of the request.
    pub received_ns: u64,
    /// Time just before the last byte of the response was sent.
    pub last_byte_ns: u64,
}

/// The true latencies of a phase, in nanoseconds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TrueValues {
    /// Service times: last byte sent minus first byte received.
    pub service: Vec<u64>,
    /// Response times: last byte sent minus intended time. Empty for a closed loop. Operations that never reached
    /// the server are assumed to end after its last answer, at the mean rate of its answers.
    pub response: Vec<u64>,
    /// Times from the intended time to the first byte received. Empty for a closed loop.
    pub start_lag: Vec<u64>,
    /// Times of the operations that the server answered, by number.
    pub operations: HashMap<u64, ServerTimes>,
}

/// Returns the number of an operation of `phase` from its tag, `PHASE/NUMBER`; `None` for another phase.
fn number(entry: &TimingEntry, phase: &str) -> Option<u64> {
    entry.tag.strip_prefix(phase)?.strip_prefix('/')?.parse().ok()
}

/// Returns the true latencies of `phase`, whose window began at `start_ns`.
pub fn of(phase: &Phase, start_ns: u64, log: &[TimingEntry]) -> TrueValues {
    let answered = |e: &&TimingEntry| e.last_byte_ns > 0 && e.status < 300;
    let times = |e: &TimingEntry| ServerTimes { received_ns: e.received_ns, last_byte_ns: e.last_byte_ns };
    let numbered = log.iter().filter(answered).filter_map(|e| Some((number(e, &phase.name)?, times(e))));
    let operations: HashMap<u64, ServerTimes> = numbered.collect();
    let service = operations.values().map(|t| t.last_byte_ns.saturating_sub(t.received_ns)).collect();
    let Load::Open { rate_per_s, arrival, .. } = phase.load else {
        return TrueValues { service, operations, ..TrueValues::default() };
    };
    let length = phase.limit.duration_ns.unwrap_or(u64::MAX);
    let intended: Vec<u64> = Arrivals::new(arrival, rate_per_s, phase.workload.seed, &phase.name, 0)
        .take_while(|offset| *offset < length)
        .map(|offset| start_ns + offset)
        .collect();
    let ends = operations.values().map(|t| t.last_byte_ns);
    let (first, last) = (ends.clone().min().unwrap_or(0), ends.max().unwrap_or(0));
    let per_operation = (last - first) as f64 / operations.len().saturating_sub(1).max(1) as f64;
    let (mut missing, mut response, mut start_lag) = (0.0, Vec::new(), Vec::new());
    for (number, intended) in (0..).zip(intended) {
        let end = match operations.get(&number) {
            Some(times) => {
                start_lag.push(times.received_ns.saturating_sub(intended));
                times.last_byte_ns
            }
            None => {
                missing += 1.0;
                last + (missing * per_operation) as u64
            }
        };
        response.push(end.saturating_sub(intended));
    }
    TrueValues { service, response, start_lag, operations }
}

/// Returns the `q`-quantile of `values`, the value of rank `ceil(q * n)`, in milliseconds; `None` if there are none.
pub fn quantile_ms(values: &mut [u64], q: f64) -> Option<f64> {
    let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    (rank < values.len()).then(|| *values.select_nth_unstable(rank).1 as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_experiment::resolve::parse;

    #[test]
    fn operations_that_never_reached_the_server_are_extrapolated() {
        let text = "name='t'\n[[phase]]\nname='p'\noperations={put=1}\nrate='10/s'\nduration='1s'\n";
        let phase = parse("t", text, &[]).unwrap().phases.remove(0);
        let second = 1_000_000_000;
        // The server answers one operation every 200 ms, and the client stops after five.
        let entry = |n: u64| TimingEntry {
            tag: format!("p/{n}"),
            status: 200,
            received_ns: second,
            last_byte_ns: second + (n + 1) * 200_000_000,
            ..TimingEntry::default()
        };
        let log: Vec<TimingEntry> = (0..5).map(entry).collect();
        let true_values = of(&phase, second, &log);
        let expected: Vec<u64> = (0..10).map(|n| (n + 1) * 200_000_000 - n * 100_000_000).collect();
        assert_eq!(true_values.response, expected);
        assert_eq!((true_values.service.len(), true_values.start_lag.len()), (5, 5));
        assert_eq!(true_values.start_lag[3], 0, "received before it was due");
        assert_eq!(quantile_ms(&mut [5_000_000, 1_000_000, 3_000_000], 0.5), Some(3.0));
        assert_eq!(quantile_ms(&mut [], 0.5), None);
    }
}
