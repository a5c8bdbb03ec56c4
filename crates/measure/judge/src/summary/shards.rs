//! Merges the shards of one run: parallel windows, and the defects of the merged run.

use super::arrangement::Arrangement;
use super::merge::merge;
use super::ramp::{RampEnd, of_windows};
use super::result::{ClientInfo, RampFigures, RunResult, ShardInfo, Window};
use plimsoll_workload::schedule::Role;

/// Difference between start times, as a share of the shortest measured window, above which it is reported.
const LATE_SHARE: f64 = 0.01;
/// Apparent offset, in seconds, of two correct clocks that are compared by a Date header, which has whole seconds.
const DATE_RESOLUTION_S: f64 = 1.5;
/// Offset from the reference clock, in seconds, above which it is reported.
const HOST_OFFSET_S: f64 = 0.010;

/// Merges the results of shards into one result with the id `id`. The caller must check that all are of one
/// experiment. Returns `None` if there are none.
pub fn merge_runs(id: &str, results: &[RunResult]) -> Option<RunResult> {
    let first = results.first()?;
    let mut out = RunResult { windows: windows(results), client: client(results), ..first.clone() };
    let mut shards: Vec<ShardInfo> = Vec::new();
    for result in results {
        shards.extend(
            result.run.shards.iter().cloned().map(|s| ShardInfo { partial: result.run.partial, ..s }),
        );
    }
    shards.sort_by_key(|s| s.shard);
    out.run.id = id.into();
    out.run.partial = results.iter().any(|r| r.run.partial);
    out.run.degraded = degraded(&shards, &out.windows);
    out.run.shards = shards;
    // Each host has its own bill, because each sent its own requests.
    out.cost = results.iter().flat_map(|r| r.cost.iter().cloned()).collect();
    out.ramps = ramps(results, &out.windows);
    Some(out)
}

fn same_place(a: &Window, b: &Window) -> bool {
    (&a.store, &a.phase, a.repeat, a.block, a.step, &a.operation)
        == (&b.store, &b.phase, b.repeat, b.block, b.step, &b.operation)
}

fn windows(results: &[RunResult]) -> Vec<Window> {
    let mut groups: Vec<Vec<&Window>> = Vec::new();
    for window in results.iter().flat_map(|r| &r.windows) {
        match groups.iter_mut().find(|g| same_place(g[0], window)) {
            Some(group) => group.push(window),
            None => groups.push(vec![window]),
        }
    }
    groups.iter().filter_map(|group| merge(group, Arrangement::Parallel)).collect()
}

/// Returns the figures of the merged ramps. The reason why a ramp ended is that of its shards.
fn ramps(results: &[RunResult], windows: &[Window]) -> Vec<RampFigures> {
    let mut all: Vec<RampFigures> = Vec::new();
    let of_shards: Vec<&RampFigures> = results.iter().flat_map(|r| &r.ramps).collect();
    let same = |a: &RampFigures, b: &RampFigures| {
        (&a.store, &a.phase, a.repeat, a.operation) == (&b.store, &b.phase, b.repeat, b.operation)
    };
    for mut figures in of_windows(windows, |_| RampEnd::NoPlateau) {
        let mut shards = of_shards.iter().filter(|shard| same(shard, &figures)).peekable();
        if shards.peek().is_none() {
            // Steps without a ramp, such as those of a search.
            continue;
        }
        if let Some(shard) = shards.find(|shard| shard.reached) {
            figures.reached = true;
            figures.end_reason.clone_from(&shard.end_reason);
        }
        all.push(figures);
    }
    all
}

fn client(results: &[RunResult]) -> ClientInfo {
    let measured = |r: &RunResult| {
        r.windows.iter().filter(|w| w.role == Role::Measure).map(|w| w.operations).sum::<u64>()
    };
    let operations: u64 = results.iter().map(measured).sum();
    let cpu_seconds: f64 = results.iter().map(|r| r.client.cpu_seconds).sum();
    let mut vantages: Vec<&str> =
        results.iter().map(|r| r.client.vantage.as_str()).filter(|v| !v.is_empty()).collect();
    vantages.dedup();
    ClientInfo {
        vantage: vantages.join(", "),
        workers: results.iter().map(|r| r.client.workers).sum(),
        cpu_seconds,
        cpu_us_per_operation: if operations > 0 { cpu_seconds * 1e6 / operations as f64 } else { 0.0 },
        peak_rss_bytes: results.iter().map(|r| r.client.peak_rss_bytes).max().unwrap_or(0),
    }
}

/// Returns a shard's delay after the common start, in seconds, on the reference clock if its offset is known.
fn began(shard: &ShardInfo) -> Option<f64> {
    shard.start_late_s.map(|late| late - shard.host_offset_s.unwrap_or(0.0))
}

fn list(shards: impl Iterator<Item = u64>) -> String {
    shards.map(|s| s.to_string()).collect::<Vec<_>>().join(", ")
}

/// Describes the defects of a merged run: missing or partial shards, late starts, clocks that disagree. `None`
/// if there are none.
pub fn degraded(shards: &[ShardInfo], windows: &[Window]) -> Option<String> {
    let of = shards.iter().map(|s| s.of).max()?;
    let mut out = Vec::new();
    let missing = list((1..=of).filter(|n| shards.iter().all(|s| s.shard != *n)));
    if !missing.is_empty() {
        out.push(format!("shard {missing} of {of} is missing, and so is its share of the load"));
    }
    let cut = list(shards.iter().filter(|s| s.partial).map(|s| s.shard));
    if !cut.is_empty() {
        out.push(format!("shard {cut} did not complete"));
    }
    let unprepared = list(shards.iter().filter(|s| s.prepared.is_some_and(|n| n < s.of)).map(|s| s.shard));
    if !unprepared.is_empty() {
        out.push(format!(
            "shard {unprepared} began before all objects were prepared; allow more time before --start-at"
        ));
    }
    let shortest =
        windows.iter().filter(|w| w.role == Role::Measure).map(|w| w.window_s).fold(f64::INFINITY, f64::min);
    let begins: Vec<f64> = shards.iter().filter_map(began).collect();
    let skew = begins.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        - begins.iter().copied().fold(f64::INFINITY, f64::min);
    if skew > LATE_SHARE * shortest {
        out.push(format!("shards began up to {skew:.3} s apart, more than 1% of the shortest window"));
    }
    for (what, offsets, limit) in [
        (
            "the store's clock",
            shards.iter().filter_map(|s| s.clock_offset_s).collect::<Vec<_>>(),
            DATE_RESOLUTION_S,
        ),
        // A fleet corrects the start for the offset, so only shards that began at another time are reported.
        (
            "the reference clock",
            shards
                .iter()
                .filter(|s| began(s).is_none_or(|late| late.abs() > HOST_OFFSET_S))
                .filter_map(|s| s.host_offset_s)
                .collect(),
            HOST_OFFSET_S,
        ),
    ] {
        let far = offsets.iter().copied().fold(0.0, |far: f64, o| if o.abs() > far.abs() { o } else { far });
        if far.abs() > limit {
            out.push(format!("a host's clock differs by {:.3} s from {what}", far.abs()));
        }
    }
    (!out.is_empty()).then(|| out.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(n: u64) -> ShardInfo {
        ShardInfo {
            shard: n,
            of: 3,
            start_late_s: Some(0.001),
            prepared: Some(3),
            clock_offset_s: Some(0.0),
            ..ShardInfo::default()
        }
    }

    fn window() -> Window {
        Window { role: Role::Measure, window_s: 10.0, achieved_per_s: 5.0, ..Window::default() }
    }

    #[test]
    fn each_defect_is_reported() {
        let judge = |shards: &[ShardInfo]| degraded(shards, &[window()]).unwrap_or_default();
        assert_eq!(judge(&[shard(1), shard(2), shard(3)]), "");
        assert!(judge(&[shard(1), shard(3)]).contains("shard 2 of 3 is missing"));
        assert!(
            judge(&[shard(1), shard(2), ShardInfo { partial: true, ..shard(3) }])
                .contains("shard 3 did not complete")
        );
        assert!(
            judge(&[shard(1), shard(2), ShardInfo { prepared: Some(2), ..shard(3) }])
                .contains("shard 3 began before")
        );
        assert!(
            judge(&[shard(1), shard(2), ShardInfo { start_late_s: Some(0.2), ..shard(3) }])
                .contains("0.199 s apart")
        );
        assert!(
            judge(&[shard(1), shard(2), ShardInfo { clock_offset_s: Some(-4.0), ..shard(3) }])
                .contains("4.000 s from the store's")
        );
        let offset = ShardInfo { host_offset_s: Some(0.05), ..shard(3) };
        let text = judge(&[shard(1), shard(2), offset.clone()]);
        assert!(text.contains("0.050 s from the reference clock") && !text.contains("apart"), "{text}");
        // The start of this shard was corrected for its clock.
        let corrected = ShardInfo { start_late_s: Some(0.051), ..offset };
        assert_eq!(judge(&[shard(1), shard(2), corrected]), "");
    }

    #[test]
    fn rates_of_shards_add_up() {
        let run = |n| RunResult {
            windows: vec![window()],
            run: super::super::result::RunInfo { shards: vec![shard(n)], ..Default::default() },
            ..RunResult::default()
        };
        let merged = merge_runs("all", &[run(1), run(2), run(3)]).unwrap();
        assert_eq!(
            (merged.windows.len(), merged.windows[0].achieved_per_s, merged.windows[0].window_s),
            (1, 15.0, 10.0)
        );
        assert_eq!((merged.run.id.as_str(), merged.run.shards.len(), merged.run.degraded), ("all", 3, None));
    }
}
