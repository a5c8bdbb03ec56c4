//! Summaries of background requests, such as those for sessions. They are counted and timed separately from the
//! operations. Also lists the places in which relays executed operations.

use super::result::{BackgroundRequests, PlaceFigures};
use plimsoll_recorder::store_facts::BackgroundRequest;
use plimsoll_recorder::store_facts::RelayFacts;

/// Lists the places in which a relay executed the operations of one store; empty without a relay.
pub fn places(store: &str, seen: Option<RelayFacts>) -> Vec<PlaceFigures> {
    let seen = seen.unwrap_or_default();
    let figures = |(place, requests)| PlaceFigures {
        store: store.to_string(),
        place,
        requests,
        clock_step_us: seen.step_us,
    };
    seen.places.into_iter().map(figures).collect()
}

/// Summarizes the background requests of one store, one entry per purpose, in order of the first request.
pub fn sums(store: &str, calls: &[BackgroundRequest]) -> Vec<BackgroundRequests> {
    let mut out: Vec<BackgroundRequests> = Vec::new();
    for call in calls {
        let ms = call.took_ns as f64 / 1e6;
        let at = out.iter().position(|sum| sum.request == call.kind.name()).unwrap_or_else(|| {
            out.push(BackgroundRequests {
                store: store.to_string(),
                request: call.kind.name().to_string(),
                first_ms: ms,
                ..BackgroundRequests::default()
            });
            out.len() - 1
        });
        let sum = &mut out[at];
        sum.calls += 1;
        sum.failed += u64::from(call.error.is_some());
        sum.mean_ms += (ms - sum.mean_ms) / sum.calls as f64;
        sum.max_ms = sum.max_ms.max(ms);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_recorder::store_facts::BackgroundRequestKind::CreateSession;

    #[test]
    fn background_requests_are_summed_by_purpose() {
        let call = |kind, ms: u64, error: Option<&str>| BackgroundRequest {
            kind,
            began_ns: 0,
            took_ns: ms * 1_000_000,
            error: error.map(str::to_string),
        };
        let sums = sums("s", &[call(CreateSession, 9, None), call(CreateSession, 3, Some("503"))]);
        assert_eq!(sums.len(), 1);
        let BackgroundRequests { calls, failed, first_ms, mean_ms, max_ms, .. } = sums[0];
        assert_eq!((calls, failed, first_ms, mean_ms, max_ms), (2, 1, 9.0, 6.0, 9.0));
    }
}
