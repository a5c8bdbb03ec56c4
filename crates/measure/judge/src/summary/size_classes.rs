//! Latencies by the size of the objects: the classes of one window, and of several.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::latencies::of_histogram;
use super::percentiles::percentiles;
use super::result::{SizeClassFigures, Window};
use plimsoll_recorder::histogram::Latencies;
use plimsoll_recorder::part::WindowPart;
use plimsoll_recorder::tally::Tally;
use plimsoll_workload::schedule::Phase;

/// Sets the classes of a window, and their histograms.
fn set(window: &mut Window, classes: BTreeMap<u64, (Option<u64>, Latencies)>) {
    window.size_classes.clear();
    for (from_bytes, (to_bytes, latencies)) in classes {
        let figures = SizeClassFigures { from_bytes, to_bytes, service_ms: percentiles(&latencies) };
        window.histograms.insert(figures.histogram(), STANDARD.encode(latencies.to_bytes()));
        window.size_classes.push(figures);
    }
}

/// Fills in the size classes of a window from its tally.
pub fn of_tally(window: &mut Window, phase: &Phase, tally: &Tally) {
    let Some(classes) = &phase.size_classes else { return };
    let of_size = tally.parts.iter().filter_map(|(part, latencies)| match part {
        WindowPart::Size(from) => Some((*from, (classes.end_of(*from), latencies.clone()))),
        _ => None,
    });
    set(window, of_size.collect());
}

/// Returns the latencies of a class of a window, with its exact ends.
fn latencies(window: &Window, class: &SizeClassFigures) -> Latencies {
    of_histogram(window, &class.histogram(), Some(&class.service_ms))
}

/// Sets the classes of a window to the sums of those of several windows.
pub fn merge(out: &mut Window, windows: &[&Window]) {
    let mut sums: BTreeMap<u64, (Option<u64>, Latencies)> = BTreeMap::new();
    for window in windows {
        for class in &window.size_classes {
            let sum = sums.entry(class.from_bytes).or_default();
            sum.0 = class.to_bytes;
            sum.1.merge(&latencies(window, class));
        }
    }
    set(out, sums);
}

/// Computes the percentiles of the classes from their histograms again. Returns the number of classes.
pub fn recompute(window: &mut Window) -> usize {
    let stated = window.clone();
    merge(window, &[&stated]);
    window.size_classes.len()
}

/// Returns the first contradiction between the histograms of the classes and the histogram of all operations; `None`
/// if the classes add up to all operations.
pub fn contradiction(window: &Window) -> Option<String> {
    if window.size_classes.is_empty() {
        return None;
    }
    let mut sum = Latencies::default();
    window.size_classes.iter().for_each(|class| sum.merge(&latencies(window, class)));
    let service = of_histogram(window, "service", None);
    let is_same = sum.to_bytes() == service.to_bytes();
    (!is_same).then(|| "the histograms of the size classes do not add up to that of all operations".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::arrangement::Arrangement;
    use crate::summary::merge::merge as merge_windows;
    use plimsoll_workload::size_classes::SizeClasses;

    fn classes() -> SizeClasses {
        SizeClasses::between(&[1000]).unwrap()
    }

    /// Returns a window with operations of these sizes and times in ms.
    fn window(operations: &[(u64, u64)]) -> Window {
        let mut sums: BTreeMap<u64, (Option<u64>, Latencies)> = BTreeMap::new();
        let mut all = Latencies::default();
        for (bytes, ms) in operations {
            let from = classes().from_of(*bytes);
            let class = sums.entry(from).or_default();
            class.0 = classes().end_of(from);
            class.1.record(ms * 1_000_000);
            all.record(ms * 1_000_000);
        }
        let mut window = Window::default();
        window.histograms.insert("service".into(), STANDARD.encode(all.to_bytes()));
        window.service_ms = percentiles(&all);
        set(&mut window, sums);
        window
    }

    #[test]
    fn classes_of_several_windows_or_shards_are_those_of_all_operations() {
        let (first, second) = ([(1, 5), (2000, 50), (2, 7)], [(3, 9), (1, 2)]);
        let all = window(&[&first[..], &second].concat());
        for how in [Arrangement::Consecutive, Arrangement::Parallel] {
            let merged = merge_windows(&[&window(&first), &window(&second)], how).unwrap();
            assert_eq!(merged.size_classes, all.size_classes);
            assert_eq!(merged.histograms["size_0"], all.histograms["size_0"]);
        }
        assert_eq!(all.size_classes[1].from_bytes, 1000);
        assert_eq!((all.size_classes[0].service_ms.n, all.size_classes[0].service_ms.max), (4, Some(9.0)));
        let ends: Vec<_> = all.size_classes.iter().map(|class| class.to_bytes).collect();
        assert_eq!(ends, [Some(1000), None]);
    }

    #[test]
    fn a_changed_class_contradicts_the_histogram_of_all_operations() {
        let mut window = window(&[(1, 5), (2000, 50)]);
        assert_eq!(contradiction(&window), None);
        let mut again = window.clone();
        assert_eq!((recompute(&mut again), &again), (2, &window));
        let swapped = window.histograms["size_0"].clone();
        window.histograms.insert("size_1000".into(), swapped);
        assert!(contradiction(&window).is_some());
        again.size_classes[0].service_ms.p50 = Some(1.0);
        let stated = again.clone();
        recompute(&mut again);
        assert_ne!(again, stated);
    }
}
