//! The latencies of a window: its histograms, and the percentiles that follow from them. A new kind of latency needs
//! one line in `recorder::latency`; if results contain its percentiles, also a field of [`Window`] and a line of
//! `percentiles_of`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::latency::{Latency, LatencyTable};

use super::disturbances;
use super::percentiles::{percentiles, with_censored};
use super::result::{Percentiles, Window};

/// Returns a reference to the percentiles of a kind of latency, mutable with `mut`. Returns `None` for a kind of which
/// results contain only the histogram, and for response times, which censored operations change.
macro_rules! percentiles_of {
    ($window:ident, $kind:ident $(, $mutable:tt)?) => {
        match $kind {
            Latency::Service => Some(&$($mutable)? $window.service_ms),
            Latency::FirstByte => Some(&$($mutable)? $window.first_byte_ms),
            Latency::Body => Some(&$($mutable)? $window.body_ms),
            Latency::Connect => Some(&$($mutable)? $window.connect_ms),
            Latency::Tls => Some(&$($mutable)? $window.tls_ms),
            Latency::Failed => Some(&$($mutable)? $window.failed_ms),
            Latency::Attempt => Some(&$($mutable)? $window.attempt_ms),
            Latency::StartLag => Some(&$($mutable)? $window.start_lag_ms),
            Latency::ClientDelay => Some(&$($mutable)? $window.disturbances.client_delay_ms),
            Latency::WakeUpDelay => Some(&$($mutable)? $window.disturbances.wake_up_delay_ms),
            Latency::Response | Latency::CensoredWait | Latency::PausedService | Latency::PausedResponse => None,
        }
    };
}

/// Returns the percentiles of a kind of latency; `None` if results contain only its histogram.
fn figures(window: &Window, kind: Latency) -> Option<&Percentiles> {
    if kind == Latency::Response { window.response_ms.as_ref() } else { percentiles_of!(window, kind) }
}

/// Sets all histograms and percentiles of a window. `open` is true for an open loop, which has response times.
pub fn set(window: &mut Window, table: &LatencyTable, open: bool) {
    set_with(window, table, &table[Latency::WakeUpDelay], open);
}

/// Does the same as [`set`] with other delays of wake-ups than those in the table, which need not be copied.
pub fn set_with(window: &mut Window, table: &LatencyTable, wake_ups: &Latencies, open: bool) {
    for kind in Latency::ALL {
        let latencies = if kind == Latency::WakeUpDelay { wake_ups } else { &table[kind] };
        if !latencies.is_empty() {
            window.histograms.insert(kind.name().to_string(), STANDARD.encode(latencies.to_bytes()));
        }
        if let Some(figures) = percentiles_of!(window, kind, mut) {
            *figures = percentiles(latencies);
        }
    }
    let response = || with_censored(&table[Latency::Response], &table[Latency::CensoredWait]);
    window.response_ms = open.then(response);
    disturbances::set_without_pauses(&mut window.disturbances, table, open);
}

/// Returns the latencies of a window's histogram. Minimum, maximum and mean are exact if `shown` has them for
/// the same number of samples.
pub fn of_histogram(window: &Window, histogram: &str, shown: Option<&Percentiles>) -> Latencies {
    let bytes =
        window.histograms.get(histogram).and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    let mut out = Latencies::from_bytes(&bytes).unwrap_or_default();
    if let Some(shown) = shown.filter(|p| p.n == out.len()) {
        out.sharpen(shown.min, shown.max, shown.mean);
    }
    out
}

/// Returns the sums of the histograms of several windows.
pub fn sums(windows: &[&Window]) -> LatencyTable {
    let mut out = LatencyTable::default();
    for kind in Latency::ALL {
        for window in windows {
            out[kind].merge(&of_histogram(window, kind.name(), figures(window, kind)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_latency_is_set_and_read_again() {
        let mut table = LatencyTable::default();
        for (number, kind) in (1..).zip(Latency::ALL) {
            (0..number).for_each(|_| table[kind].record(number * 1_000_000));
        }
        let mut window = Window::default();
        set(&mut window, &table, true);
        let read = sums(&[&window, &window]);
        for (number, kind) in (1..).zip(Latency::ALL) {
            assert_eq!(read[kind].len(), 2 * number, "{kind:?}");
            if let Some(figures) = figures(&window, kind) {
                let censored = table[Latency::CensoredWait].len();
                let expected = if kind == Latency::Response { number + censored } else { number };
                assert_eq!(figures.n, expected, "{kind:?}");
            }
        }
    }
}
