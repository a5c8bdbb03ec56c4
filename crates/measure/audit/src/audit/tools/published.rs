//! Documents that others published, with their figures and known errors.

use super::super::facts::{Facts, Measurement};
use super::is_read;
use plimsoll_cost::published::Published;
use plimsoll_cost::published::check::check;

/// Returns what a document shows.
pub fn facts(document: &Published) -> Facts {
    let mut measurements: Vec<Measurement> = Vec::new();
    let mut stores: Vec<&str> = Vec::new();
    for row in document.rows.iter().filter(|row| !row.operation.is_empty()) {
        if !stores.contains(&row.store.as_str()) {
            stores.push(&row.store);
        }
        let percentiles: Vec<f64> =
            document.percentiles(&row.store, &row.operation).into_iter().map(|(share, _)| share).collect();
        let figure = |names: &[&str]| names.iter().find_map(|name| row.figures.get(*name)).copied();
        let rate = figure(&[
            "operations_per_s",
            "ops_per_s",
            "per_s",
            "throughput_bytes_per_s",
            "throughput_gbit_per_s",
        ]);
        let share = figure(&["failed_percent"]).map(|percent| percent / 100.0);
        measurements.push(Measurement {
            name: row.label.clone(),
            reads: is_read(&row.operation),
            figure: "rate".into(),
            values: rate.into_iter().collect(),
            measured_s: figure(&["time_s", "duration_s"]),
            // The share alone is as good as a count.
            operations: share.map(|_| 1_000_000),
            failed: share.map(|share| (share * 1e6).round() as u64),
            has_times: !percentiles.is_empty() || row.figures.keys().any(|name| name.ends_with("_ms")),
            percentiles,
            ..Measurement::default()
        });
    }
    let broken = check(document).into_iter().filter(|relation| !relation.holds);
    let mut known_errors = document.errors.clone();
    known_errors.extend(broken.map(|relation| format!("does not hold: {}", relation.says)));
    Facts {
        subject: document.name.clone(),
        tool: document.source.clone(),
        measurements,
        stores: stores.len(),
        undisclosed: vec![format!("logs of operations (stated: {})", document.environment)],
        known_errors,
        ..Facts::default()
    }
}
