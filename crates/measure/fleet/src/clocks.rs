//! Offsets of the nodes' clocks, from round trips as in NTP.

use std::collections::BTreeMap;

/// One round trip: times in Unix nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RoundTrip {
    rtt_ns: i64,
    offset_ns: i64,
}

/// Estimated offset of a node's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The node's clock minus the coordinator's, in nanoseconds.
    pub offset_ns: i64,
    /// Maximum error of the offset in nanoseconds: half of the round-trip time.
    pub error_ns: i64,
}

/// Round trips to the nodes.
#[derive(Debug, Default)]
pub struct Clocks {
    sent: BTreeMap<u64, i64>,
    best: BTreeMap<u64, RoundTrip>,
    answers: BTreeMap<u64, u64>,
}

impl Clocks {
    /// Records that ping `number` was sent at `now_ns`, in Unix nanoseconds.
    pub fn sent(&mut self, number: u64, now_ns: i64) {
        self.sent.insert(number, now_ns);
    }

    /// Records the answer of a node to ping `number`: its clock, and the time of arrival, in Unix nanoseconds.
    pub fn answered(&mut self, node: u64, number: u64, node_ns: i64, now_ns: i64) {
        let Some(sent_ns) = self.sent.get(&number) else { return };
        let rtt_ns = (now_ns - sent_ns).max(0);
        // The node read its clock, as far as known, in the middle of the round trip.
        let trip = RoundTrip { rtt_ns, offset_ns: node_ns - (sent_ns + rtt_ns / 2) };
        let best = self.best.entry(node).or_insert(trip);
        if trip.rtt_ns < best.rtt_ns {
            *best = trip;
        }
        *self.answers.entry(node).or_default() += 1;
    }

    /// Returns the number of answers of a node.
    pub fn answers(&self, node: u64) -> u64 {
        self.answers.get(&node).copied().unwrap_or(0)
    }

    /// Returns the offset of each node that answered, from its fastest round trip.
    pub fn offsets(&self) -> BTreeMap<u64, Offset> {
        let offset = |trip: &RoundTrip| Offset { offset_ns: trip.offset_ns, error_ns: trip.rtt_ns / 2 };
        self.best.iter().map(|(node, trip)| (*node, offset(trip))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_round_trip_determines_the_offset_and_its_error() {
        let mut clocks = Clocks::default();
        for (number, rtt, asymmetry) in [(0, 8_000, 3_000), (1, 200, 50), (2, 5_000, -2_000)] {
            let sent = 1_000_000 * number as i64;
            clocks.sent(number, sent);
            // The true offset is 1 s.
            clocks.answered(7, number, sent + rtt / 2 + asymmetry + 1_000_000_000, sent + rtt);
        }
        let offset = clocks.offsets()[&7];
        assert_eq!(offset.error_ns, 100);
        assert!((offset.offset_ns - 1_000_000_000).abs() <= offset.error_ns);
        assert_eq!(clocks.answers(7), 3);
        clocks.answered(8, 99, 0, 0);
        assert_eq!(clocks.offsets().len(), 1, "an answer to no ping is ignored");
    }
}
