//! Multipart uploads: one line per window.

use plimsoll_base::units::{format_bytes, format_count};
use plimsoll_judge::summary::result::Window;
use plimsoll_judge::summary::uploads::median_bytes_per_s;

/// Returns the line of one window of multipart uploads; `None` for other windows.
fn line(window: &Window) -> Option<String> {
    let upload = window.upload.as_ref()?;
    let size = upload.object_bytes.map_or("various sizes".into(), format_bytes);
    let seconds = |ms: Option<f64>| ms.map_or("-".into(), |ms| format!("{:.2} s", ms / 1e3));
    let p99 = match window.service_ms.samples_needed.get("p99") {
        Some(needed) => format!("p99 needs {} uploads", format_count(*needed)),
        None => format!("p99 {}", seconds(window.service_ms.p99)),
    };
    let rate = |rate: f64| format!("{:.1} MB/s", rate / 1e6);
    let typical = match (median_bytes_per_s(window), upload.object_bytes, window.service_ms.mean) {
        (Some(median), ..) => format!("median {} ({}", rate(median), seconds(window.service_ms.p50)),
        (None, Some(bytes), Some(mean)) => {
            let of = rate(bytes as f64 / (mean / 1e3));
            format!("{of} at the mean ({}; a median needs 20 uploads", seconds(Some(mean)))
        }
        _ => format!("median - ({}", seconds(window.service_ms.p50)),
    };
    let failed: u64 = window.errors.values().sum();
    let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    Some(format!(
        "{}: {size} in parts of {}, {} in flight: {typical}, {p99}, longest {}); {} of {} requests retried ({:.2}%), {failed} of {} uploads failed ({:.2}%)",
        window.label(),
        format_bytes(upload.part_bytes),
        upload.parts_in_flight,
        seconds(window.service_ms.max),
        format_count(window.retries),
        format_count(window.attempts),
        share(window.retries, window.attempts),
        format_count(window.operations),
        share(failed, window.operations),
    ))
}

/// Renders the multipart uploads among the windows of one store, one per phase.
pub fn render(merged: &[&Window]) -> String {
    merged.iter().filter_map(|window| line(window)).map(|line| format!("{line}\n")).collect()
}
