//! Results of sweeps, and the recommended point of a sweep of part sizes.

use std::collections::BTreeMap;

use super::result::{SweepFigures, SweepPoint, Window};
use super::uploads::uncertainty;
use plimsoll_workload::schedule::Role;

/// Points within this share of the fastest count as equally fast, because a few uploads cannot distinguish them.
const AS_FAST: f64 = 0.05;

fn point(window: &Window, at: &BTreeMap<String, String>) -> SweepPoint {
    let upload = window.upload.as_ref();
    let median_ms = window.service_ms.p50.or(window.service_ms.mean);
    let bytes_per_s = match (upload.and_then(|upload| upload.object_bytes), median_ms) {
        (Some(bytes), Some(ms)) if ms > 0.0 => Some(bytes as f64 / (ms / 1e3)),
        _ => None,
    };
    let interval = bytes_per_s.zip(uncertainty(window));
    SweepPoint {
        at: at.clone(),
        operations: window.operations,
        failed: window.errors.values().sum(),
        requests: window.attempts,
        retries: window.retries,
        achieved_per_s: window.achieved_per_s,
        throughput_bytes_per_s: window.throughput_bytes_per_s,
        p50_ms: window.service_ms.p50,
        p99_ms: window.service_ms.p99,
        client_limited: window.client_limited.is_some(),
        part_bytes: upload.map_or(0, |upload| upload.part_bytes),
        parts_in_flight: upload.map_or(0, |upload| upload.parts_in_flight),
        median_s: median_ms.filter(|_| upload.is_some()).map(|ms| ms / 1e3),
        bytes_per_s,
        low_bytes_per_s: interval.map(|(rate, factor)| rate / factor),
        high_bytes_per_s: interval.map(|(rate, factor)| rate * factor),
    }
}

/// Returns the sweeps among these windows. There must be one window per store, phase and operation.
pub fn sweeps(windows: &[Window]) -> Vec<SweepFigures> {
    let mut out: Vec<SweepFigures> = Vec::new();
    for window in windows.iter().filter(|w| w.role == Role::Measure) {
        let Some(place) = &window.sweep else { continue };
        let same = |s: &&mut SweepFigures| {
            s.store == window.store && s.sweep == place.of && s.operation == window.operation
        };
        let point = point(window, &place.at);
        match out.iter_mut().find(same) {
            Some(found) => found.points.push(point),
            None => out.push(SweepFigures {
                store: window.store.clone(),
                sweep: place.of.clone(),
                operation: window.operation,
                points: vec![point],
                recommended: None,
            }),
        }
    }
    out.iter_mut().for_each(|sweep| sweep.recommended = recommend(&sweep.points));
    out
}

/// Returns the part size and parts in flight to use: of those without a failed upload and within 5% of the fastest,
/// the point with the fewest bytes in flight, then with the fewest requests. `None` if every point lost an upload, or
/// if the part size was not swept.
fn recommend(points: &[SweepPoint]) -> Option<SweepPoint> {
    if points.iter().any(|point| !point.at.contains_key("part_size")) {
        return None;
    }
    let whole = |p: &&SweepPoint| p.failed == 0 && p.bytes_per_s.is_some();
    let best = points.iter().filter(whole).filter_map(|p| p.bytes_per_s).fold(0.0, f64::max);
    let as_fast = points
        .iter()
        .filter(whole)
        .filter(|p| p.bytes_per_s.is_some_and(|rate| rate >= best * (1.0 - AS_FAST)));
    as_fast.min_by_key(|p| (p.part_bytes * p.parts_in_flight, p.requests)).cloned()
}

impl SweepFigures {
    /// Returns the swept fields, each with its values in the order of the sweep. The load is last.
    pub fn fields(&self) -> Vec<(String, Vec<String>)> {
        let mut out: Vec<(String, Vec<String>)> = Vec::new();
        for (field, value) in self.points.iter().flat_map(|point| &point.at) {
            let at = out.iter().position(|(name, _)| name == field).unwrap_or_else(|| {
                out.push((field.clone(), Vec::new()));
                out.len() - 1
            });
            if !out[at].1.contains(value) {
                out[at].1.push(value.clone());
            }
        }
        out.sort_by_key(|(field, _)| ["concurrency", "rate", "parts_in_flight"].contains(&field.as_str()));
        out
    }

    /// Returns the point with the highest value of `of`; `None` if no point has a value above zero.
    pub fn best(&self, of: impl Fn(&SweepPoint) -> f64) -> Option<&SweepPoint> {
        let highest = self.points.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
        (of(highest) > 0.0).then_some(highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::schedule::SweepPlace;

    fn point(part: u64, in_flight: u64, rate: f64, failed: u64) -> SweepPoint {
        SweepPoint {
            at: BTreeMap::from([("part_size".to_string(), format!("{part} MiB"))]),
            part_bytes: part << 20,
            parts_in_flight: in_flight,
            failed,
            bytes_per_s: Some(rate),
            requests: 1024 / part,
            ..SweepPoint::default()
        }
    }

    #[test]
    fn the_fast_setting_with_the_fewest_bytes_in_flight_is_recommended() {
        let points =
            [point(8, 1, 50.0, 0), point(8, 8, 97.0, 0), point(64, 8, 100.0, 0), point(64, 16, 130.0, 1)];
        let chosen = recommend(&points).unwrap();
        assert_eq!((chosen.part_bytes >> 20, chosen.parts_in_flight), (8, 8), "130 lost an upload");
        assert_eq!(recommend(&[point(8, 1, 1.0, 1)]), None);
    }

    #[test]
    fn a_sweep_keeps_its_points_in_order_and_has_no_recommendation_without_part_sizes() {
        let window = |size: &str, concurrency: &str, rate: f64| Window {
            sweep: Some(SweepPlace {
                of: "get".into(),
                at: [("size", size), ("concurrency", concurrency)]
                    .map(|(field, value)| (field.to_string(), value.to_string()))
                    .into(),
            }),
            role: Role::Measure,
            achieved_per_s: rate,
            ..Window::default()
        };
        let windows = [
            window("64 KiB", "8", 5.0),
            window("64 KiB", "1", 3.0),
            window("1 KiB", "8", 9.0),
            window("1 KiB", "1", 4.0),
        ];
        let [found] = &sweeps(&windows)[..] else { panic!() };
        let fields = [("size", ["64 KiB", "1 KiB"]), ("concurrency", ["8", "1"])];
        let fields = fields.map(|(name, values)| (name.to_string(), values.map(String::from).to_vec()));
        assert_eq!(found.fields(), fields);
        assert_eq!(found.best(|p| p.achieved_per_s).unwrap().achieved_per_s, 9.0);
        assert_eq!(found.best(|p| p.throughput_bytes_per_s), None);
        assert_eq!(found.recommended, None);
    }
}
