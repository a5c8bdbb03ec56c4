//! Operations by the address to which they were sent: those of one window, and of several.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::latencies::of_histogram;
use super::percentiles::percentiles;
use super::result::{AddressFigures, Window};
use plimsoll_base::units::format_count;
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::part::WindowPart;
use plimsoll_recorder::tally::Tally;

/// Number of operations from which on an address can be compared with others.
const FEWEST: u64 = 20;
/// Number of failures from which on an address can be called failing.
const FEWEST_FAILED: u64 = 5;
/// Factor from which on an address is slower than the others.
const SLOWER: f64 = 2.0;
/// Factor from which on an address fails more often than the others.
const MORE_OFTEN: f64 = 3.0;

/// Counts and latencies of an address.
#[derive(Default)]
struct Sum {
    failed: u64,
    failed_attempts: u64,
    latencies: Latencies,
}

/// Counts and latencies by address.
type Sums = BTreeMap<String, Sum>;

/// Sets the addresses of a window, and their histograms, if there are at least two.
fn set(window: &mut Window, sums: Sums) {
    window.addresses.clear();
    if sums.len() < 2 {
        return;
    }
    for (address, Sum { failed, failed_attempts, latencies }) in sums {
        let figures =
            AddressFigures { address, failed, failed_attempts, service_ms: percentiles(&latencies) };
        window.histograms.insert(figures.histogram(), STANDARD.encode(latencies.to_bytes()));
        window.addresses.push(figures);
    }
}

/// Fills in the addresses of a window from its tally. `names` are the addresses of the store.
pub fn of_tally(window: &mut Window, names: &[String], tally: &Tally) {
    let name =
        |number: u16| names.get(usize::from(number)).cloned().unwrap_or_else(|| format!("number {number}"));
    let mut sums = Sums::new();
    for (part, latencies) in &tally.parts {
        if let WindowPart::Address(number) = part {
            sums.entry(name(*number)).or_default().latencies.merge(latencies);
        }
    }
    for (number, failed) in &tally.failed_at {
        sums.entry(name(*number)).or_default().failed += failed;
    }
    for (number, failed) in &tally.failed_attempts_at {
        sums.entry(name(*number)).or_default().failed_attempts += failed;
    }
    set(window, sums);
}

/// Returns the latencies of an address of a window, with their exact ends.
fn latencies(window: &Window, figures: &AddressFigures) -> Latencies {
    of_histogram(window, &figures.histogram(), Some(&figures.service_ms))
}

/// Sets the addresses of a window to the sums of those of several windows. A window without addresses used one, which
/// is not known, so that the sums would not be those of all operations.
pub fn merge(out: &mut Window, windows: &[&Window]) {
    let mut sums = Sums::new();
    if windows.iter().all(|window| !window.addresses.is_empty() || window.operations == 0) {
        for window in windows {
            for figures in &window.addresses {
                let sum = sums.entry(figures.address.clone()).or_default();
                sum.failed += figures.failed;
                sum.failed_attempts += figures.failed_attempts;
                sum.latencies.merge(&latencies(window, figures));
            }
        }
    }
    set(out, sums);
}

/// Computes the percentiles of the addresses from their histograms again. Returns the number of addresses.
pub fn recompute(window: &mut Window) -> usize {
    let stated = window.clone();
    merge(window, &[&stated]);
    window.addresses.len()
}

/// Returns the first contradiction between the figures of the addresses and the figures of all operations; `None` if
/// the addresses add up to all operations.
pub fn contradiction(window: &Window) -> Option<String> {
    if window.addresses.is_empty() {
        return None;
    }
    let mut sum = Latencies::default();
    window.addresses.iter().for_each(|figures| sum.merge(&latencies(window, figures)));
    let service = of_histogram(window, "service", None);
    let failed: u64 = window.addresses.iter().map(|figures| figures.failed).sum();
    // An operation fails at no address if its file cannot be read.
    let all: u64 = window.errors.values().sum();
    let is_same = sum.to_bytes() == service.to_bytes() && failed <= all;
    (!is_same).then(|| "the figures of the addresses do not add up to those of all operations".into())
}

/// Returns sentences about the addresses that fail more often, or are slower, than the others of a window.
pub fn findings(window: &Window) -> Vec<String> {
    let of = |figures: &AddressFigures| {
        let others: Vec<&AddressFigures> =
            window.addresses.iter().filter(|other| other.address != figures.address).collect();
        [failing(figures, &others).or_else(|| retried(figures, &others)), slow(figures, &others)]
    };
    window.addresses.iter().flat_map(of).flatten().collect()
}

/// Describes an address that fails at least three times as often as the others together.
fn failing(figures: &AddressFigures, others: &[&AddressFigures]) -> Option<String> {
    let (failed, of) = (figures.failed, figures.operations());
    let failed_there: u64 = others.iter().map(|other| other.failed).sum();
    let of_others: u64 = others.iter().map(|other| other.operations()).sum();
    let share = |failed: u64, of: u64| failed as f64 / of.max(1) as f64;
    let is_worse = share(failed, of) >= MORE_OFTEN * share(failed_there, of_others);
    (failed >= FEWEST_FAILED && of_others >= FEWEST && is_worse).then(|| {
        let [failed, of, failed_there, of_others] = [failed, of, failed_there, of_others].map(format_count);
        format!(
            "{} failed {failed} of {of} operations, the other addresses {failed_there} of {of_others}",
            figures.address
        )
    })
}

/// Describes an address whose attempts fail at least three times as often as those at the others together, so that its
/// operations succeed only because they are sent again.
fn retried(figures: &AddressFigures, others: &[&AddressFigures]) -> Option<String> {
    let [failed, of] = [figures.failed_attempts, figures.failed_attempts + figures.service_ms.n];
    let failed_there: u64 = others.iter().map(|other| other.failed_attempts).sum();
    let of_others = failed_there + others.iter().map(|other| other.service_ms.n).sum::<u64>();
    let share = |failed: u64, of: u64| failed as f64 / of.max(1) as f64;
    let is_worse = share(failed, of) >= MORE_OFTEN * share(failed_there, of_others);
    (failed >= FEWEST_FAILED && of_others >= FEWEST && is_worse).then(|| {
        let [failed, of, failed_there, of_others] = [failed, of, failed_there, of_others].map(format_count);
        format!(
            "{} failed {failed} of {of} attempts, the other addresses {failed_there} of {of_others}",
            figures.address
        )
    })
}

/// Describes an address whose median is at least twice that of every other.
fn slow(figures: &AddressFigures, others: &[&AddressFigures]) -> Option<String> {
    let median = |figures: &AddressFigures| figures.service_ms.p50.filter(|_| figures.service_ms.n >= FEWEST);
    let own = median(figures)?;
    let slowest = others.iter().filter_map(|other| median(other)).reduce(f64::max)?;
    (own >= SLOWER * slowest).then(|| {
        format!("{} is slow: p50 {own:.2} ms, the other addresses at most {slowest:.2} ms", figures.address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::arrangement::Arrangement;
    use crate::summary::merge::merge as merge_windows;

    /// Returns a window with `n` operations of `ms` and failures at each address.
    fn window(addresses: &[(&str, u64, u64, u64)]) -> Window {
        let mut all = Latencies::default();
        let mut sums = Sums::new();
        for (address, n, ms, failed) in addresses {
            let sum = sums.entry(address.to_string()).or_default();
            sum.failed = *failed;
            (0..*n).for_each(|_| {
                [&mut sum.latencies, &mut all].into_iter().for_each(|l| l.record(ms * 1_000_000))
            });
        }
        let failed: u64 = addresses.iter().map(|(.., failed)| failed).sum();
        let mut window = Window { operations: all.len() + failed, ..Window::default() };
        window.errors.insert("connect".into(), failed);
        window.histograms.insert("service".into(), STANDARD.encode(all.to_bytes()));
        set(&mut window, sums);
        window
    }

    #[test]
    fn addresses_of_several_windows_are_those_of_all_operations() {
        let (first, second) =
            (window(&[("a", 5, 1, 0), ("b", 7, 2, 3)]), window(&[("b", 1, 9, 1), ("c", 2, 4, 0)]));
        let merged = merge_windows(&[&first, &second], Arrangement::Parallel).unwrap();
        let shown: Vec<_> =
            merged.addresses.iter().map(|of| (&*of.address, of.service_ms.n, of.failed)).collect();
        assert_eq!(shown, [("a", 5, 0), ("b", 8, 4), ("c", 2, 0)]);
        assert_eq!(contradiction(&merged), None);
        let one = Window { operations: 3, ..window(&[("a", 3, 1, 0)]) };
        let unknown = merge_windows(&[&first, &one], Arrangement::Parallel).unwrap();
        assert!(unknown.addresses.is_empty(), "of one window, the address is not known");
    }

    #[test]
    fn figures_that_do_not_add_up_are_found() {
        let mut changed = window(&[("a", 5, 1, 0), ("b", 7, 2, 3)]);
        changed.addresses[0].failed = 9;
        assert!(contradiction(&changed).is_some());
        let mut changed = window(&[("a", 5, 1, 0), ("b", 7, 2, 3)]);
        changed.histograms.insert("address_a".into(), changed.histograms["address_b"].clone());
        assert!(contradiction(&changed).is_some());
    }

    #[test]
    fn an_address_that_fails_or_is_slow_is_named_and_no_other() {
        let healthy = window(&[("a", 500, 5, 1), ("b", 490, 5, 2), ("c", 510, 6, 1)]);
        assert!(findings(&healthy).is_empty(), "{:?}", findings(&healthy));
        let dead = window(&[("a", 500, 5, 0), ("b", 200, 5, 33), ("c", 510, 5, 0)]);
        assert_eq!(findings(&dead), ["b failed 33 of 233 operations, the other addresses 0 of 1,010"]);
        let slow = window(&[("a", 500, 5, 0), ("b", 200, 11, 0), ("c", 510, 5, 0)]);
        let found = findings(&slow);
        assert!(found.len() == 1 && found[0].starts_with("b is slow: p50 11.0"), "{found:?}");
        let mut hidden = window(&[("a", 500, 5, 0), ("b", 0, 5, 0), ("c", 510, 5, 0)]);
        hidden.addresses[1].failed_attempts = 90;
        let named = "b failed 90 of 90 attempts, the other addresses 0 of 1,010";
        assert_eq!(findings(&hidden), [named], "retries hide the failed attempts from the operations");
        let two = window(&[("a", 500, 5, 0), ("b", 3, 50, 0)]);
        assert!(findings(&two).is_empty(), "three operations are too few");
    }
}
