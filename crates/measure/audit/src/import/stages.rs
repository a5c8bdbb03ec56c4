//! Stages of a log without phases: a tool first writes the objects that it will read, and deletes them at the end. One
//! window for all of it would divide the operations of each stage by the time of the others.

use std::ops::Range;

use super::ImportedRequest;
use plimsoll_base::units::{format_count, format_per_s, format_throughput};
use plimsoll_workload::OperationKind;

/// Name of the phase that writes the objects of the benchmark.
pub(super) const PREPARATION: &str = "prepare";

/// Probability below which a sequence of requests of one kind did not come from the mix of the others.
const CHANCE: f64 = 1e-6;

/// Assigns the requests, which are sorted by start, to stages. Returns the names of the stages; the benchmark is called
/// `name`.
pub(super) fn assign(records: &mut [ImportedRequest], name: &str) -> Vec<String> {
    let all = 0..records.len();
    let first = leading(records, all.clone(), OperationKind::Put);
    let last = trailing(records, first..all.end, OperationKind::Delete);
    let middle = first..last;
    let reads = records[middle.clone()].iter().any(|record| record.kind != OperationKind::Delete);
    // If nothing but deletes follows the puts, either may be the benchmark.
    let named = if reads { [PREPARATION, name] } else { ["put", "delete"] };
    let stages = match first {
        0 => [(0..0, ""), (middle, name), (last..all.end, "delete")],
        _ => [(0..first, named[0]), (middle, named[1]), (last..all.end, "delete")],
    };
    let mut names = Vec::new();
    for (range, stage) in stages.into_iter().filter(|(range, _)| !range.is_empty()) {
        records[range].iter_mut().for_each(|record| record.phase = names.len() as u16);
        names.push(stage.to_string());
    }
    names
}

/// Describes the preparation, which is not among the figures of the benchmark; `None` if there is none.
pub(super) fn note(records: &[ImportedRequest], names: &[String]) -> Option<String> {
    (names.first()? == PREPARATION).then_some(())?;
    let own = || records.iter().filter(|record| record.phase == 0);
    let (first, last) = (own().map(|r| r.start_ns).min()?, own().map(|r| r.end_ns).max()?);
    let (count, bytes) = (own().count(), own().map(|record| record.bytes).sum::<u64>());
    let seconds = (last - first).max(1) as f64 / 1e9;
    Some(format!(
        "the first {} puts, in {seconds:.1} s ({}/s, {}), wrote the objects of the benchmark: they are its preparation",
        format_count(count as u64),
        format_per_s(count as f64 / seconds),
        format_throughput(bytes as f64 / seconds)
    ))
}

/// Returns the end of the stage of requests of `kind` at the start of `range`; the start of `range` if there is none,
/// or nothing after it.
fn leading(records: &[ImportedRequest], range: Range<usize>, kind: OperationKind) -> usize {
    let length = records[range.clone()].iter().take_while(|record| record.kind == kind).count();
    let at = range.start + length;
    let Some(next) = records.get(at).filter(|_| at < range.end) else { return range.start };
    let ended = records[range.start..at].iter().map(|record| record.end_ns).max();
    let is_apart = ended.is_some_and(|ended| ended <= next.start_ns);
    if is_apart && !by_chance(&records[at..range.end], length, kind) { at } else { range.start }
}

/// Returns the start of the stage of requests of `kind` at the end of `range`; the end of `range` if there is none, or
/// nothing before it.
fn trailing(records: &[ImportedRequest], range: Range<usize>, kind: OperationKind) -> usize {
    let length = records[range.clone()].iter().rev().take_while(|record| record.kind == kind).count();
    let at = range.end - length;
    let before = &records[range.start..at];
    let Some(ended) = before.iter().map(|record| record.end_ns).max().filter(|_| length > 0) else {
        return range.end;
    };
    let is_apart = ended <= records[at].start_ns;
    if is_apart && !by_chance(before, length, kind) { at } else { range.end }
}

/// Returns true if a mix like that of `others` may begin or end with `length` requests of `kind`.
fn by_chance(others: &[ImportedRequest], length: usize, kind: OperationKind) -> bool {
    let same = others.iter().filter(|record| record.kind == kind).count() as f64;
    (same / others.len().max(1) as f64).powf(length as f64) > CHANCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use OperationKind::{Delete, Get, Head, Put};

    /// Returns the stages of requests that follow each other without a pause, as names and numbers of requests.
    fn stages(kinds: &[OperationKind]) -> Vec<(String, usize)> {
        let mut records: Vec<ImportedRequest> = (0u64..)
            .zip(kinds)
            .map(|(i, kind)| ImportedRequest {
                phase: 0,
                kind: *kind,
                error: None,
                start_ns: 10 * i,
                first_byte_ns: 0,
                end_ns: 10 * i + 10,
                bytes: 1,
                retries: 0,
            })
            .collect();
        let names = assign(&mut records, "warp");
        let count = |stage| records.iter().filter(|record| usize::from(record.phase) == stage).count();
        names.into_iter().enumerate().map(|(i, name)| (name, count(i))).collect()
    }

    fn of(parts: &[(OperationKind, usize)]) -> Vec<(String, usize)> {
        stages(&parts.iter().flat_map(|(kind, n)| vec![*kind; *n]).collect::<Vec<_>>())
    }

    /// Regression test: puts of the preparation and gets of the benchmark had one window, so both rates were too low.
    #[test]
    fn the_preparation_and_the_clean_up_are_stages_of_their_own() {
        let named = |parts: &[(&str, usize)]| -> Vec<(String, usize)> {
            parts.iter().map(|(name, n)| ((*name).to_string(), *n)).collect()
        };
        assert_eq!(of(&[(Put, 100), (Get, 400)]), named(&[("prepare", 100), ("warp", 400)]));
        assert_eq!(
            of(&[(Put, 1), (Head, 40), (Delete, 1)]),
            named(&[("prepare", 1), ("warp", 40), ("delete", 1)])
        );
        assert_eq!(of(&[(Put, 100)]), named(&[("warp", 100)]));
        assert_eq!(of(&[(Get, 100)]), named(&[("warp", 100)]));
        assert_eq!(of(&[(Put, 100), (Delete, 100)]), named(&[("put", 100), ("delete", 100)]));
        assert_eq!(of(&[(Delete, 100)]), named(&[("warp", 100)]));
    }

    #[test]
    fn a_mix_stays_one_benchmark() {
        let mix = [Put, Put, Get, Get, Head, Put, Get, Delete, Get, Head].repeat(50);
        assert_eq!(stages(&mix), [("warp".to_string(), 500)]);
        let prepared = [vec![Put; 200], mix, vec![Delete; 100]].concat();
        let found = stages(&prepared);
        assert_eq!(
            found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["prepare", "warp", "delete"]
        );
        assert_eq!(found.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [202, 498, 100]);
    }
}
