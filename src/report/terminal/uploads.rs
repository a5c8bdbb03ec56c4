//! Multipart uploads: one line per window, and the table of a sweep with the recommended setting.

use comfy_table::CellAlignment;

use super::table::{lines, plain};
use crate::summary::result::{RunResult, SweepFigures, Window};
use crate::summary::uploads::median_bytes_per_s;
use crate::units::{format_bytes, format_count, format_throughput};

/// Returns the line of one window of multipart uploads; `None` for other windows and those of a sweep.
fn line(window: &Window) -> Option<String> {
    let upload = window.upload.as_ref().filter(|u| u.sweep.is_none())?;
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

fn sweep(figures: &SweepFigures) -> String {
    let mut table = plain();
    table.set_header([
        "part size",
        "in flight",
        "uploads",
        "failed",
        "retries",
        "requests",
        "seconds",
        "throughput",
    ]);
    for point in &figures.points {
        table.add_row([
            format_bytes(point.part_bytes),
            point.parts_in_flight.to_string(),
            point.uploads.to_string(),
            point.failed.to_string(),
            point.retries.to_string(),
            format_count(point.requests),
            point.median_s.map_or("-".into(), |s| format!("{s:.2}")),
            point.bytes_per_s.map_or("-".into(), format_throughput),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut out = format!(
        "\nsweep {} (seconds: median of at least 20 uploads, else the mean)\n{}",
        figures.sweep,
        lines(&table)
    );
    match &figures.recommended {
        Some(best) => {
            let cap = format_bytes(best.part_bytes.saturating_mul(10_000));
            out.push_str(&format!(
                "recommended: parts of {}, {} in flight: within 5% of the fastest, with the fewest bytes in flight (10,000 parts allow objects up to {cap})\n",
                format_bytes(best.part_bytes),
                best.parts_in_flight,
            ));
        }
        None => out.push_str("no recommendation: uploads failed with every setting\n"),
    }
    out
}

/// Renders the multipart uploads and sweeps of one store. `merged` has its windows, one per phase.
pub fn render(result: &RunResult, merged: &[&Window], store: &str) -> String {
    let mut out = String::new();
    for window in merged {
        out.extend(line(window).map(|line| format!("{line}\n")));
    }
    result.sweeps.iter().filter(|s| s.store == store).for_each(|s| out.push_str(&sweep(s)));
    out
}
