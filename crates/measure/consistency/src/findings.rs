//! Sums up the checked histories: counts, violations by guarantee, visibility lag and the shortest violating history.

use std::collections::BTreeMap;

use serde::Serialize;

use super::blame::{Explanations, Suspects, cause, explanations, fewest};
use super::guarantee::{Acknowledged, Guarantee};
use super::history::{Action, Answer, RecordedRequest, Value};
use super::lag::lags;
use super::linearizable::{Verdict, check};
use super::shortest::shortest;
use plimsoll_recorder::histogram::Latencies;

/// Counts for one guarantee.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GuaranteeCounts {
    /// Number of operations whose answers were checked.
    pub checked: u64,
    /// Number of keys whose violation this guarantee explains, and no other one of those that are blamed.
    pub violations: u64,
    /// Number of keys whose violation this guarantee or another one explains, and the histories do not tell which.
    pub possible: u64,
}

/// One line of a violating history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ViolationLine {
    /// Number of the client among those of the key, from 1.
    pub client: u32,
    /// Start in milliseconds after the first operation of the history.
    pub start_ms: f64,
    /// End in milliseconds after the first operation of the history; `null` if there was no answer before the end of
    /// the history.
    pub end_ms: Option<f64>,
    /// Request, with its values renumbered as v1, v2 and so on.
    pub request: String,
    /// Answer to the request.
    pub answer: String,
}

/// A history without a valid order, reduced to the operations that prove it.
#[derive(Debug, Clone, Serialize)]
pub struct Violation {
    /// Sets of guarantees that explain the violation; each set alone is enough.
    pub explanations: Explanations,
    /// Cause that the history shows directly. `None` if it shows none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// Key of the object.
    pub key: String,
    /// Operations in order of their starts.
    pub operations: Vec<ViolationLine>,
}

/// Visibility lag of writes and deletes: the time from the acknowledgement to the start of the last read, or the last
/// listing, that returned an older state.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct LagSummary {
    /// Number of acknowledged writes and deletes.
    pub writes: u64,
    /// Number of those that a later read (or listing) missed.
    pub late: u64,
    /// Median lag of the late ones in milliseconds; 0 if there are none.
    pub p50_ms: f64,
    /// 99th percentile of the lag of the late ones in milliseconds; 0 if there are none.
    pub p99_ms: f64,
    /// Maximum lag in milliseconds.
    pub max_ms: f64,
}

/// Results of a consistency run.
#[derive(Default, Serialize)]
pub struct Findings {
    /// Number of keys whose histories were checked.
    pub keys: u64,
    /// Number of keys whose histories have no valid order.
    pub violations: u64,
    /// Number of keys whose histories were too concurrent to decide.
    pub undecided: u64,
    /// Number of answered operations.
    pub operations: u64,
    /// Number of writes and deletes without a known answer.
    pub unknown: u64,
    /// Failed requests without an effect, by error class.
    pub errors: BTreeMap<String, u64>,
    /// Checks and violations by guarantee.
    pub guarantees: BTreeMap<Guarantee, GuaranteeCounts>,
    /// Visibility lag of writes and deletes in reads.
    pub lag: LagSummary,
    /// Visibility lag of writes and deletes in listings.
    pub list_lag: LagSummary,
    /// Writes and deletes without a known answer, by the reason.
    pub unanswered: BTreeMap<String, u64>,
    /// Number of acknowledged writes that a later read would have missed if they had been lost.
    pub verified_writes: u64,
    /// Number of entity tags that two writes with different contents had in common.
    pub shared_tags: u64,
    /// Smallest sets of guarantees that explain all violations; more than one if the histories do not tell which.
    pub blamed: Vec<Suspects>,
    /// Shortest violating history of each kind of explanation.
    pub shortest: Vec<Violation>,
    #[serde(skip)]
    explained: BTreeMap<Explanations, u64>,
    #[serde(skip)]
    late: Latencies,
    #[serde(skip)]
    late_in_lists: Latencies,
    /// First failure, for the message if no operation succeeds.
    #[serde(skip)]
    pub first_failure: Option<String>,
}

impl LagSummary {
    /// Adds the lags of the writes of a history, in nanoseconds. `late` collects those above 0.
    fn add(&mut self, late: &mut Latencies, lags_ns: &[u64]) {
        self.writes += lags_ns.len() as u64;
        for lag_ns in lags_ns.iter().filter(|lag_ns| **lag_ns > 0) {
            self.late += 1;
            late.record(*lag_ns);
            self.max_ms = self.max_ms.max(*lag_ns as f64 / 1e6);
        }
    }
}

/// Returns the number of acknowledged writes that a read must return, because it started after the write and no other
/// write or delete overlaps the time from the start of the write to the end of the read.
fn verified_writes(history: &[RecordedRequest]) -> u64 {
    let mut changes: Vec<&RecordedRequest> = history.iter().filter(|o| !o.is_observer()).collect();
    changes.sort_by_key(|change| change.start_ns);
    let mut reads: Vec<&RecordedRequest> = history.iter().filter(|o| o.action == Action::Get).collect();
    reads.sort_by_key(|read| read.start_ns);
    // The latest end of all changes before each one.
    let mut latest_end = 0;
    let mut verified = 0;
    for (index, write) in changes.iter().enumerate() {
        let is_alone = latest_end < write.start_ns;
        latest_end = latest_end.max(write.end_ns);
        let next_ns = changes.get(index + 1).map_or(u64::MAX, |next| next.start_ns);
        let first = reads.partition_point(|read| read.start_ns <= write.end_ns);
        let is_read = reads.get(first).is_some_and(|read| read.end_ns < next_ns);
        let is_write = write.answer == Answer::Done && write.action != Action::Delete;
        verified += u64::from(is_alone && is_write && is_read && write.end_ns < next_ns);
    }
    verified
}

/// Adds the last write or delete that was acknowledged before the operation that cannot be explained, because a reader
/// wants to know what the store should have known, if the history still proves the violation with it.
fn with_last_write(
    shortest: Vec<RecordedRequest>,
    history: &[RecordedRequest],
    last: usize,
) -> Vec<RecordedRequest> {
    let acknowledged = Acknowledged::of(history);
    let Some(write) = acknowledged.before(&history[last]).last() else { return shortest };
    if shortest.contains(write) {
        return shortest;
    }
    let mut longer = [&shortest[..], &[**write]].concat();
    longer.sort_by_key(|operation| (operation.start_ns, operation.end_ns));
    if matches!(check(&longer), Verdict::Violation(_)) { longer } else { shortest }
}

/// Number of violating histories that are explained.
const MAX_EXPLAINED: u64 = 500;

/// Number of violating histories of each kind of explanation that are reduced, because a reduction may take a second.
const MAX_REDUCED: u64 = 5;

impl Findings {
    /// Checks the history of one key and adds the result.
    pub fn add(&mut self, key: &str, history: &[RecordedRequest]) {
        self.keys += 1;
        let acknowledged = Acknowledged::of(history);
        for operation in history {
            match operation.answer {
                Answer::Unknown => self.unknown += 1,
                _ => self.operations += 1,
            }
            if let Some(guarantee) = acknowledged.tested_by(operation) {
                self.guarantees.entry(guarantee).or_default().checked += 1;
            }
        }
        self.lag.add(&mut self.late, &lags(history, Action::Get));
        self.list_lag.add(&mut self.late_in_lists, &lags(history, Action::List));
        self.verified_writes += verified_writes(history);
        match check(history) {
            Verdict::Linearizable => {}
            Verdict::Undecided => self.undecided += 1,
            Verdict::Violation(last) => self.add_violation(key, history, last),
        }
    }

    fn add_violation(&mut self, key: &str, history: &[RecordedRequest], last: usize) {
        self.violations += 1;
        // An explanation may take many checks.
        if self.violations > MAX_EXPLAINED {
            return;
        }
        let explanations = explanations(history, last);
        let count = self.explained.entry(explanations.clone()).or_default();
        *count += 1;
        if *count > MAX_REDUCED {
            return;
        }
        let cause = cause(history, &explanations);
        let operations = lines(&with_last_write(shortest(history, last), history, last));
        let violation = Violation { explanations, cause, key: key.to_string(), operations };
        match self.shortest.iter_mut().find(|known| known.explanations == violation.explanations) {
            Some(known) if known.operations.len() > violation.operations.len() => *known = violation,
            Some(_) => {}
            None => self.shortest.push(violation),
        }
    }

    /// Assigns the violations to the guarantees that are blamed.
    fn assign(&mut self) {
        if self.explained.is_empty() {
            return;
        }
        self.blamed = fewest(self.explained.keys());
        for (explanations, keys) in &self.explained {
            let blamed = |one: &&Suspects| self.blamed.iter().any(|set| one.is_subset(set));
            let of_key: Vec<&Suspects> = explanations.iter().filter(blamed).collect();
            for guarantee in of_key.iter().copied().flatten() {
                let counts = self.guarantees.entry(*guarantee).or_default();
                if of_key.len() == 1 { counts.violations += keys } else { counts.possible += keys }
            }
        }
    }

    /// Counts a write or delete without a known answer by its reason.
    pub fn add_unanswered(&mut self, reason: &str) {
        *self.unanswered.entry(reason.to_string()).or_default() += 1;
    }

    /// Counts a failed request without an effect.
    pub fn add_failure(&mut self, class: &str, message: &str) {
        *self.errors.entry(class.to_string()).or_default() += 1;
        self.first_failure.get_or_insert_with(|| message.to_string());
    }

    /// Computes the percentiles and sorts the violations after the last history.
    pub fn finish(&mut self) {
        for (lag, late) in [(&mut self.lag, &self.late), (&mut self.list_lag, &self.late_in_lists)] {
            let ms = |share: f64| late.quantile_ns(share).map_or(0.0, |ns| ns as f64 / 1e6);
            (lag.p50_ms, lag.p99_ms) = (ms(0.5), ms(0.99));
        }
        self.assign();
        self.shortest.sort_by_key(|violation| violation.operations.len());
    }
}

/// Describes the operations of a reduced history.
fn lines(history: &[RecordedRequest]) -> Vec<ViolationLine> {
    let first_ns = history.iter().map(|operation| operation.start_ns).min().unwrap_or(0);
    let ms = |ns: u64| (ns - first_ns) as f64 / 1e6;
    let mut values: Vec<Value> = history.iter().filter_map(|operation| operation.action.written()).collect();
    values.dedup();
    let name = |value: Value| match values.iter().position(|known| *known == value) {
        Some(index) => format!("v{}", index + 1),
        None => "content that no client wrote".to_string(),
    };
    let line = |operation: &RecordedRequest| ViolationLine {
        client: operation.client + 1,
        start_ms: ms(operation.start_ns),
        end_ms: (operation.end_ns != u64::MAX).then(|| ms(operation.end_ns)),
        request: match operation.action {
            Action::Put(value) => format!("PUT {}", name(value)),
            Action::PutIfAbsent(value) => format!("PUT {} If-None-Match: *", name(value)),
            Action::PutIfUnchanged(expected, value) => {
                format!("PUT {} If-Match: {}", name(value), name(expected))
            }
            Action::Delete => "DELETE".into(),
            Action::Get => "GET".into(),
            Action::List => "LIST".into(),
        },
        answer: match operation.answer {
            Answer::Done => "done".into(),
            Answer::Refused => "refused".into(),
            Answer::Saw(Some(value)) => name(value),
            Answer::Saw(None) => "absent".into(),
            Answer::Present => "present".into(),
            Answer::Unknown => "no answer".into(),
        },
    };
    history.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::linearizable::tests::{operation, value};
    use super::*;

    fn one(guarantee: Guarantee) -> Explanations {
        Explanations::from([Suspects::from([guarantee])])
    }

    #[test]
    fn a_lost_conditional_write_is_reported_with_its_shortest_history() {
        let history = [
            operation(0, Action::Put(value(7)), Answer::Done, 0, 1_000_000),
            operation(1, Action::Get, Answer::Saw(Some(value(7))), 1_100_000, 1_200_000),
            operation(1, Action::PutIfUnchanged(value(7), value(9)), Answer::Done, 2_000_000, 3_000_000),
            operation(2, Action::Get, Answer::Saw(Some(value(7))), 4_000_000, 5_000_000),
            operation(2, Action::Get, Answer::Saw(Some(value(9))), 6_000_000, 7_000_000),
        ];
        let mut findings = Findings::default();
        findings.add("key", &history);
        findings.finish();
        assert_eq!((findings.keys, findings.violations, findings.lag.late), (1, 1, 1));
        assert_eq!(findings.lag.max_ms, 1.0);
        let violation = &findings.shortest[0];
        assert_eq!(violation.explanations, one(Guarantee::ReadAfterConditionalPut));
        let requests: Vec<&str> = violation.operations.iter().map(|line| line.request.as_str()).collect();
        assert_eq!(requests, ["PUT v1", "PUT v2 If-Match: v1", "GET"]);
        assert_eq!(violation.operations[2].answer, "v1");
        assert_eq!(violation.operations[2].start_ms, 4.0);
    }

    #[test]
    fn a_read_of_the_state_before_a_lost_conditional_write_does_not_blame_the_write_before_it() {
        // v3 takes effect before v1, and the conditional write of v2 is lost. So v1 is read although v3 was
        // acknowledged last.
        let history = [
            operation(0, Action::Put(value(1)), Answer::Done, 0, 10),
            operation(1, Action::Put(value(3)), Answer::Done, 5, 40),
            operation(0, Action::PutIfUnchanged(value(1), value(2)), Answer::Done, 20, 30),
            operation(2, Action::Get, Answer::Saw(Some(value(1))), 50, 60),
        ];
        let mut findings = Findings::default();
        findings.add("key", &history);
        assert!(findings.shortest[0].explanations.is_superset(&one(Guarantee::ReadAfterConditionalPut)));
        // Without a conditional write, the read is to blame.
        let plain: Vec<RecordedRequest> = history
            .iter()
            .map(|operation| RecordedRequest {
                action: operation.action.written().map_or(operation.action, Action::Put),
                ..*operation
            })
            .collect();
        let mut findings = Findings::default();
        findings.add("key", &plain);
        assert_eq!(findings.shortest[0].explanations, one(Guarantee::ReadAfterPut));
    }

    #[test]
    fn a_write_that_was_acknowledged_late_is_not_blamed_for_the_loss_of_another() {
        let history = [
            operation(0, Action::Put(value(7)), Answer::Done, 0, 4_000_000),
            operation(1, Action::Get, Answer::Saw(Some(value(7))), 1_000_000, 1_200_000),
            operation(1, Action::PutIfUnchanged(value(7), value(9)), Answer::Done, 2_000_000, 3_000_000),
            operation(2, Action::Get, Answer::Saw(Some(value(7))), 5_000_000, 6_000_000),
        ];
        let mut findings = Findings::default();
        findings.add("key", &history);
        assert!(findings.shortest[0].explanations.is_superset(&one(Guarantee::ReadAfterConditionalPut)));
    }
}
