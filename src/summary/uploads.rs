//! Figures of multipart uploads, and the recommended setting of a sweep.

use std::collections::BTreeMap;

use super::result::{SweepFigures, SweepPoint, UploadFigures, Window};
use crate::schedule::Phase;
use crate::schedule::Role;
use crate::workload::OperationKind;
use crate::workload::size::Size;

/// Returns the settings of a phase's multipart uploads; `None` if it does not upload in parts.
pub fn of_phase(phase: &Phase, kind: OperationKind) -> Option<UploadFigures> {
    let written = &phase.workload.written;
    if kind != OperationKind::Put || written.upload.part_size == 0 {
        return None;
    }
    let object_bytes = match written.size {
        Size::Fixed(bytes) => Some(bytes),
        _ => None,
    };
    Some(UploadFigures {
        object_bytes,
        part_bytes: written.upload.part_size,
        parts_in_flight: written.upload.in_flight as u64,
        checksum: written.upload.checksum.clone(),
        verify: phase.verify.name().into(),
        sweep: phase.sweep_of.clone(),
    })
}

/// Returns the median rate of single uploads in bytes per second; `None` if object sizes differ or there is no median.
pub fn median_bytes_per_s(window: &Window) -> Option<f64> {
    let bytes = window.upload.as_ref()?.object_bytes?;
    Some(bytes as f64 / (window.service_ms.p50? / 1e3))
}

/// Settings within this share of the fastest count as equally fast, because a few uploads cannot distinguish them.
const AS_FAST: f64 = 0.05;

/// Returns the sweeps among these windows. There must be one window per store and phase.
pub fn sweeps(windows: &[Window]) -> Vec<SweepFigures> {
    let mut groups: BTreeMap<(String, String), Vec<SweepPoint>> = BTreeMap::new();
    for window in windows.iter().filter(|w| w.role == Role::Measure) {
        let Some(upload) = &window.upload else { continue };
        let Some(sweep) = &upload.sweep else { continue };
        let point = SweepPoint {
            part_bytes: upload.part_bytes,
            parts_in_flight: upload.parts_in_flight,
            uploads: window.operations,
            failed: window.errors.values().sum(),
            requests: window.attempts,
            retries: window.retries,
            median_s: window.service_ms.p50.or(window.service_ms.mean).map(|ms| ms / 1e3),
            bytes_per_s: match (upload.object_bytes, window.service_ms.p50.or(window.service_ms.mean)) {
                (Some(bytes), Some(ms)) if ms > 0.0 => Some(bytes as f64 / (ms / 1e3)),
                _ => None,
            },
        };
        groups.entry((window.store.clone(), sweep.clone())).or_default().push(point);
    }
    let figures = |((store, sweep), points): ((String, String), Vec<SweepPoint>)| {
        let recommended = recommend(&points);
        SweepFigures { store, sweep, points, recommended }
    };
    groups.into_iter().map(figures).collect()
}

/// Returns the setting to use: of those without a failed upload and within 5% of the fastest, the one with the
/// fewest bytes in flight, then with the fewest requests. `None` if every setting lost an upload.
fn recommend(points: &[SweepPoint]) -> Option<SweepPoint> {
    let whole = |p: &&SweepPoint| p.failed == 0 && p.bytes_per_s.is_some();
    let best = points.iter().filter(whole).filter_map(|p| p.bytes_per_s).fold(0.0, f64::max);
    let as_fast = points
        .iter()
        .filter(whole)
        .filter(|p| p.bytes_per_s.is_some_and(|rate| rate >= best * (1.0 - AS_FAST)));
    as_fast.min_by_key(|p| (p.part_bytes * p.parts_in_flight, p.requests)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(part: u64, in_flight: u64, rate: f64, failed: u64) -> SweepPoint {
        SweepPoint {
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
}
