//! The kinds of latencies that a run records, and a histogram of each.

use std::ops::{Index, IndexMut};

use crate::histogram::Latencies;

/// Declares the enum of the kinds and the structure with a histogram of each. The text is the name of the histogram in
/// results and logs.
macro_rules! latencies {
    ($($(#[$description:meta])+ $kind:ident = $name:literal,)+) => {
        /// Kinds of latencies.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Latency {
            $($(#[$description])+ $kind,)+
        }

        impl Latency {
            /// All kinds, in order of declaration.
            pub const ALL: [Latency; [$($name),+].len()] = [$(Latency::$kind),+];

            /// Returns the name of the histogram in results and logs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Latency::$kind => $name,)+
                }
            }
        }
    };
}

latencies! {
    /// Service times of successful operations.
    Service = "service",
    /// Response times of successful operations; open loops only.
    Response = "response",
    /// Times waited for censored operations, timed-out ones included; open loops only.
    CensoredWait = "censored",
    /// Times from start to first byte of the response.
    FirstByte = "first_byte",
    /// Times from first to last byte of the content.
    Body = "body",
    /// Durations of TCP handshakes.
    Connect = "connect",
    /// Durations of TLS handshakes.
    Tls = "tls",
    /// Service times of failed operations.
    Failed = "failed",
    /// Durations of single attempts, if the phase retries.
    Attempt = "attempt",
    /// Start lags: times from the earliest possible to the actual start.
    StartLag = "start_lag",
    /// Times from the arrival of the last byte of a successful operation until the client read it.
    ClientDelay = "client_delay",
    /// Times by which sleeping threads of the client woke up too late.
    WakeUpDelay = "wake_up_delay",
    /// Service times of the successful operations that overlap a pause of the client.
    PausedService = "paused_service",
    /// Response times of these operations; open loops only.
    PausedResponse = "paused_response",
}

impl Latency {
    /// The kinds of which the interval log has a histogram of every second.
    pub const LOGGED: [Latency; 3] = [Latency::Service, Latency::Response, Latency::FirstByte];
}

/// A histogram of each kind of latency.
#[derive(Debug, Clone, Default)]
pub struct LatencyTable([Latencies; Latency::ALL.len()]);

impl LatencyTable {
    /// Adds the histograms of another table to those of this one, exactly.
    pub fn merge(&mut self, other: &LatencyTable) {
        for (sum, added) in self.0.iter_mut().zip(&other.0) {
            sum.merge(added);
        }
    }
}

impl Index<Latency> for LatencyTable {
    type Output = Latencies;

    fn index(&self, kind: Latency) -> &Latencies {
        &self.0[kind as usize]
    }
}

impl IndexMut<Latency> for LatencyTable {
    fn index_mut(&mut self, kind: Latency) -> &mut Latencies {
        &mut self.0[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_every_kind() {
        let mut sum = LatencyTable::default();
        for (number, kind) in (1..).zip(Latency::ALL) {
            let mut one = LatencyTable::default();
            (0..number).for_each(|_| one[kind].record(1_000));
            sum.merge(&one);
        }
        let counts = Latency::ALL.map(|kind| sum[kind].len());
        assert_eq!(counts.to_vec(), (1..=Latency::ALL.len() as u64).collect::<Vec<_>>());
    }
}
