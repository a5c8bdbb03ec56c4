//! Computes the true latencies of a phase from the server's access log, and their quantiles.

use crate::schedule::arrival::Arrivals;
use crate::schedule::{Load, Phase};
use crate::server::access_log::Entry;

/// The true latencies of a phase, in nanoseconds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TrueValues {
    /// Service times: last byte sent minus first byte received.
    pub service: Vec<u64>,
    /// Response times: last byte sent minus intended time. Empty for a closed loop. Operations that never reached
    /// the server are assumed to end after its last answer, at the mean rate of its answers.
    pub response: Vec<u64>,
}

/// Returns the number of an operation of `phase` from its tag, `PHASE/NUMBER`; `None` for another phase.
fn number(entry: &Entry, phase: &str) -> Option<u64> {
    entry.tag.strip_prefix(phase)?.strip_prefix('/')?.parse().ok()
}

/// Returns the true latencies of `phase`, whose window began at `start_ns`.
pub fn of(phase: &Phase, start_ns: u64, log: &[Entry]) -> TrueValues {
    let answered = |e: &&Entry| e.last_byte_ns > 0 && e.status < 300;
    let mine: Vec<(u64, &Entry)> =
        log.iter().filter(answered).filter_map(|e| Some((number(e, &phase.name)?, e))).collect();
    let service = mine.iter().map(|(_, e)| e.last_byte_ns.saturating_sub(e.received_ns)).collect();
    let Load::Open { rate_per_s, arrival, .. } = phase.load else {
        return TrueValues { service, response: Vec::new() };
    };
    let length = phase.limit.duration_ns.unwrap_or(u64::MAX);
    let intended: Vec<u64> = Arrivals::new(arrival, rate_per_s, phase.workload.seed, &phase.name, 0)
        .take_while(|offset| *offset < length)
        .map(|offset| start_ns + offset)
        .collect();
    let mut ends: Vec<Option<u64>> = vec![None; intended.len()];
    for (number, entry) in mine {
        if let Some(end) = ends.get_mut(number as usize) {
            *end = Some(entry.last_byte_ns);
        }
    }
    let known: Vec<u64> = ends.iter().flatten().copied().collect();
    let (first, last) = (known.iter().min().copied().unwrap_or(0), known.iter().max().copied().unwrap_or(0));
    let per_operation = (last - first) as f64 / known.len().saturating_sub(1).max(1) as f64;
    let mut missing = 0.0;
    let response = intended
        .iter()
        .zip(ends)
        .map(|(intended, end)| {
            let end = end.unwrap_or_else(|| {
                missing += 1.0;
                last + (missing * per_operation) as u64
            });
            end.saturating_sub(*intended)
        })
        .collect();
    TrueValues { service, response }
}

/// Returns the `q`-quantile of `values`, the value of rank `ceil(q * n)`, in milliseconds; `None` if there are none.
pub fn quantile_ms(values: &mut [u64], q: f64) -> Option<f64> {
    let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    (rank < values.len()).then(|| *values.select_nth_unstable(rank).1 as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::resolve::parse;

    #[test]
    fn operations_that_never_reached_the_server_are_extrapolated() {
        let text = "name='t'\n[[phase]]\nname='p'\noperations={put=1}\nrate='10/s'\nduration='1s'\n";
        let phase = parse("t", text, &[]).unwrap().phases.remove(0);
        let second = 1_000_000_000;
        // The server answers one operation every 200 ms, and the client stops after five.
        let entry = |n: u64| Entry {
            tag: format!("p/{n}"),
            status: 200,
            received_ns: second,
            last_byte_ns: second + (n + 1) * 200_000_000,
            ..Entry::default()
        };
        let log: Vec<Entry> = (0..5).map(entry).collect();
        let true_values = of(&phase, second, &log);
        let expected: Vec<u64> = (0..10).map(|n| (n + 1) * 200_000_000 - n * 100_000_000).collect();
        assert_eq!(true_values.response, expected);
        assert_eq!(true_values.service.len(), 5);
        assert_eq!(quantile_ms(&mut [5_000_000, 1_000_000, 3_000_000], 0.5), Some(3.0));
        assert_eq!(quantile_ms(&mut [], 0.5), None);
    }
}
