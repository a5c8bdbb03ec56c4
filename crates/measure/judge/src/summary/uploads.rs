//! Figures of multipart uploads.

use super::latencies::of_histogram;
use super::result::{UploadFigures, Window};
use super::student::t_quantile;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Phase;
use plimsoll_workload::size::Size;

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
    })
}

/// Returns the factor by which the typical time of an upload may be wrong to either side, at the 95% level: Student's t
/// on the logarithms of the times, which are independent because the uploads follow each other. `None` with fewer than
/// two uploads.
pub fn uncertainty(window: &Window) -> Option<f64> {
    let recorded = of_histogram(window, "service", None);
    let histogram = recorded.histogram()?;
    let times =
        histogram.iter_recorded().map(|v| (v.count_at_value() as f64, (v.value_iterated_to() as f64).ln()));
    let times: Vec<(f64, f64)> = times.collect();
    let n: f64 = times.iter().map(|(count, _)| count).sum();
    let mean = times.iter().map(|(count, log)| count * log).sum::<f64>() / n;
    let squares: f64 = times.iter().map(|(count, log)| count * (log - mean).powi(2)).sum();
    (n >= 2.0).then(|| (t_quantile(n - 1.0) * (squares / (n - 1.0) / n).sqrt()).exp())
}

/// Returns the median rate of single uploads in bytes per second; `None` if object sizes differ or there is no median.
pub fn median_bytes_per_s(window: &Window) -> Option<f64> {
    let bytes = window.upload.as_ref()?.object_bytes?;
    Some(bytes as f64 / (window.service_ms.p50? / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use plimsoll_recorder::histogram::Latencies;

    /// Regression test: a sweep of uploads recommended a setting by a rate without an interval.
    #[test]
    fn a_few_uploads_have_an_interval_and_one_has_none() {
        let of = |times_ms: &[u64]| {
            let mut histogram = Latencies::default();
            times_ms.iter().for_each(|ms| histogram.record(ms * 1_000_000));
            let mut window = Window::default();
            window.histograms.insert("service".into(), STANDARD.encode(histogram.to_bytes()));
            uncertainty(&window)
        };
        assert_eq!(of(&[1_000]), None);
        // Logarithms 1% apart: a standard error of 0.00577, and t = 4.303 with two degrees of freedom.
        let factor = of(&[1_000, 1_010, 1_020]).unwrap();
        assert!((factor.ln() / (4.303 * 0.0057) - 1.0).abs() < 0.15, "{factor}");
        assert!(of(&[1_000, 3_000, 500]).unwrap() > 5.0);
    }
}
