//! Sentences about the result of a sweep.

use super::cache;
use plimsoll_base::units::{format_per_s, format_size, format_throughput, short_names};
use plimsoll_judge::summary::result::{CacheFigures, RunResult, SweepFigures, SweepPoint};

/// Returns the swept values of a point, such as `size 1 KiB, concurrency 8`.
pub fn place(sweep: &SweepFigures, point: &SweepPoint) -> String {
    let fields = sweep.fields();
    let values =
        fields.iter().filter_map(|(field, _)| Some(format!("{} {}", name(field), point.at.get(field)?)));
    values.collect::<Vec<_>>().join(", ")
}

/// Returns the name of a swept field for people.
pub fn name(field: &str) -> String {
    field.replace('_', " ")
}

/// Returns one sentence per store: its best points, or the recommended setting of uploads. With several kinds of
/// operations, the sentence is about the most frequent one.
pub fn sentences(result: &RunResult) -> Vec<String> {
    let stores = result.stores();
    let names = short_names(&stores);
    let sentence = |sweep: &SweepFigures| {
        let at = stores.iter().position(|store| *store == sweep.store);
        let prefix = at.filter(|_| stores.len() > 1).map_or(String::new(), |at| format!("{}: ", names[at]));
        // The cache is the answer of a sweep of working sets.
        let of_sweep = |found: &&CacheFigures| found.store == sweep.store && found.sweep == sweep.sweep;
        let found = result.caches.iter().find(of_sweep);
        format!("{prefix}{}", found.map_or_else(|| sentence(sweep), cache::sentence))
    };
    let frequent = |sweep: &&SweepFigures| {
        let count = |s: &SweepFigures| s.points.iter().map(|point| point.operations).sum::<u64>();
        let rivals = result.sweeps.iter().filter(|s| s.store == sweep.store && s.sweep == sweep.sweep);
        rivals.max_by_key(|s| count(s)).is_some_and(|most| most.operation == sweep.operation)
    };
    result.sweeps.iter().filter(frequent).map(sentence).collect()
}

/// Returns the interval of the rate of an upload, or why there is none.
fn interval(point: &SweepPoint) -> String {
    match (point.low_bytes_per_s, point.high_bytes_per_s) {
        (Some(low), Some(high)) => {
            format!(" (95%: {} to {})", format_throughput(low), format_throughput(high))
        }
        _ => " (one upload each: not reliable)".into(),
    }
}

fn sentence(sweep: &SweepFigures) -> String {
    if let Some(point) = &sweep.recommended {
        return format!(
            "upload in parts of {}, {} in flight: {}{}",
            format_size(point.part_bytes),
            point.parts_in_flight,
            point.bytes_per_s.map_or("not measured".into(), format_throughput),
            interval(point)
        );
    }
    let Some(fastest) = sweep.best(|point| point.achieved_per_s) else {
        return format!("{}: every operation failed at every point", sweep.operation);
    };
    let rate = format_per_s(fastest.achieved_per_s);
    let most = sweep.best(|point| point.throughput_bytes_per_s);
    let first = format!("{}: up to {rate}/s at {}", sweep.operation, place(sweep, fastest));
    let limited = match sweep.points.iter().filter(|point| point.client_limited).count() {
        0 => String::new(),
        n => format!("; this client limited {n} of {} points", sweep.points.len()),
    };
    match most {
        Some(most) if most.at != fastest.at => {
            let throughput = format_throughput(most.throughput_bytes_per_s);
            format!("{first}; up to {throughput} at {}{limited}", place(sweep, most))
        }
        Some(most) => format!("{first} ({}){limited}", format_throughput(most.throughput_bytes_per_s)),
        None => format!("{first}{limited}"),
    }
}
