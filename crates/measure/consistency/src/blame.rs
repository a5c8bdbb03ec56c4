//! Which guarantees explain a history without a valid order.
//!
//! A guarantee explains a violation if the history has a valid order once the answers that this guarantee is about may
//! be wrong: listings are left out, conditions are ignored, acknowledged writes may be lost, and so on. If several
//! guarantees explain it, the history alone does not tell which of them the store violates. The fewest guarantees that
//! explain all violating histories of a run are blamed ([`fewest`]).

use std::collections::BTreeSet;

use super::guarantee::{Acknowledged, Guarantee};
use super::history::{Action, Answer, RecordedRequest};
use super::linearizable::{Verdict, check};

/// Guarantees that explain a violation together.
pub type Suspects = BTreeSet<Guarantee>;

/// Explanations of a violation: each of them alone is enough.
pub type Explanations = BTreeSet<Suspects>;

fn is_valid(history: &[RecordedRequest]) -> bool {
    check(history) == Verdict::Linearizable
}

/// Returns a write or delete that may have had no effect although it was acknowledged.
fn maybe_lost(operation: RecordedRequest) -> RecordedRequest {
    match operation.answer {
        Answer::Done => RecordedRequest { answer: Answer::Unknown, ..operation },
        _ => operation,
    }
}

/// Kind of violation of a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// Reads return an older state.
    Stale,
    /// Acknowledged writes or deletes have no effect.
    Lost,
    /// Conditions are not checked, or refuse although they hold.
    Unchecked,
}

impl Guarantee {
    /// Returns true if a violation of the guarantee can be of this kind.
    fn has(self, defect: Defect) -> bool {
        let is_condition = matches!(self, Guarantee::PutIfAbsent | Guarantee::PutIfUnchanged);
        let is_listing = matches!(self, Guarantee::ListAfterPut | Guarantee::ListAfterDelete);
        match defect {
            Defect::Stale => !is_condition,
            Defect::Lost => !is_condition && !is_listing,
            Defect::Unchecked => is_condition,
        }
    }

    /// Returns true if the guarantee is about the effect of a write or delete.
    fn is_about(self, action: Action) -> bool {
        match (action, self) {
            (Action::Put(_), Guarantee::ReadAfterPut) | (Action::Delete, Guarantee::ReadAfterDelete) => true,
            (action, Guarantee::ReadAfterConditionalPut) => action.is_conditional(),
            (Action::PutIfAbsent(_), Guarantee::PutIfAbsent) => true,
            (Action::PutIfUnchanged(..), Guarantee::PutIfUnchanged) => true,
            _ => false,
        }
    }
}

/// Returns a history in which the answers that a guarantee is about may be wrong because of a defect; `None` if the
/// guarantee has no such defect.
fn doubted(
    history: &[RecordedRequest],
    guarantee: Guarantee,
    defect: Defect,
) -> Option<Vec<RecordedRequest>> {
    let acknowledged = Acknowledged::of(history);
    let doubt = |operation: &RecordedRequest| -> Option<RecordedRequest> {
        let action = operation.action;
        match defect {
            Defect::Stale if acknowledged.violated_by(operation) == Some(guarantee) => None,
            Defect::Lost if guarantee.is_about(action) => Some(maybe_lost(*operation)),
            Defect::Unchecked if guarantee.is_about(action) => match (operation.answer, action.written()) {
                (Answer::Refused, _) => None,
                (_, Some(value)) => Some(RecordedRequest { action: Action::Put(value), ..*operation }),
                (_, None) => Some(*operation),
            },
            _ => Some(*operation),
        }
    };
    guarantee.has(defect).then(|| history.iter().filter_map(doubt).collect())
}

/// Returns the explanations of a violation: sets of guarantees, of which the members explain it together. If nothing
/// explains it, the only set contains the guarantee of the operation `last`, the first that cannot be explained.
pub fn explanations(history: &[RecordedRequest], last: usize) -> Explanations {
    let defects = [Defect::Stale, Defect::Lost, Defect::Unchecked];
    let is_explained = |guarantees: &[Guarantee], defect: Defect| {
        let doubt =
            |doubts: Vec<RecordedRequest>, g: &Guarantee| doubted(&doubts, *g, defect).unwrap_or(doubts);
        is_valid(&guarantees.iter().fold(history.to_vec(), doubt))
    };
    // All sets of which no member can be left out: the other histories decide which of them is blamed.
    let mut found = Explanations::new();
    for defect in defects {
        let members: Vec<Guarantee> = Guarantee::ALL.into_iter().filter(|g| g.has(defect)).collect();
        let subset = |bits: usize| -> Vec<Guarantee> {
            members.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, g)| *g).collect()
        };
        let mut sets: Vec<usize> = (1..1 << members.len()).collect();
        sets.sort_by_key(|bits| bits.count_ones());
        let mut smallest: Vec<usize> = Vec::new();
        if is_explained(&members, defect) {
            for bits in sets {
                let is_larger = smallest.iter().any(|smaller| smaller & bits == *smaller);
                if !is_larger && is_explained(&subset(bits), defect) {
                    smallest.push(bits);
                }
            }
        }
        found.extend(smallest.into_iter().map(|bits| subset(bits).into_iter().collect::<Suspects>()));
    }
    if !found.is_empty() {
        return found;
    }
    // A wrong write is noticed at its own end or, if nothing was written before, by a read.
    let noticed = Acknowledged::of(history).violated_by(&history[last]).unwrap_or(Guarantee::ReadAfterPut);
    Explanations::from([Suspects::from([noticed])])
}

/// Returns the smallest sets of guarantees that contain an explanation of each violation. There are several if the
/// histories do not tell which guarantee the store violates.
pub fn fewest<'a>(violations: impl Iterator<Item = &'a Explanations> + Clone) -> Vec<Suspects> {
    let all = Guarantee::ALL;
    let subset = |bits: usize| -> Suspects {
        all.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, guarantee)| *guarantee).collect()
    };
    let explains =
        |set: &Suspects| violations.clone().all(|one| one.iter().any(|needs| needs.is_subset(set)));
    let explaining: Vec<Suspects> = (0..1 << all.len()).map(subset).filter(explains).collect();
    let least = explaining.iter().map(BTreeSet::len).min().unwrap_or(0);
    explaining.into_iter().filter(|set| set.len() == least).collect()
}

/// Names the cause of a violation that a history shows directly; `None` if there is none.
pub fn cause(history: &[RecordedRequest], explanations: &Explanations) -> Option<&'static str> {
    let suspects: Suspects = explanations.iter().flatten().copied().collect();
    let expected = |operation: &RecordedRequest| match operation.action {
        Action::PutIfUnchanged(expected, _) if suspects.contains(&Guarantee::PutIfUnchanged) => {
            Some(Some(expected))
        }
        Action::PutIfAbsent(_) if suspects.contains(&Guarantee::PutIfAbsent) => Some(None),
        _ => None,
    };
    let done: Vec<&RecordedRequest> = history.iter().filter(|o| o.answer == Answer::Done).collect();
    let is_same =
        |a: &RecordedRequest, b: &RecordedRequest| expected(a).is_some() && expected(a) == expected(b);
    let overlap = |a: &RecordedRequest, b: &RecordedRequest| a.start_ns < b.end_ns && b.start_ns < a.end_ns;
    let mut pairs = done.iter().enumerate().flat_map(|(i, a)| done[..i].iter().map(move |b| (*a, *b)));
    pairs
        .any(|(a, b)| is_same(a, b) && overlap(a, b))
        .then_some("writes with the same condition that overlapped all succeeded: the check of the condition and the write are not atomic")
}

#[cfg(test)]
mod tests {
    use super::super::linearizable::tests::{operation, value};
    use super::*;

    fn get(seen: Option<u64>, at: u64) -> RecordedRequest {
        operation(2, Action::Get, Answer::Saw(seen.map(value)), at, at + 5)
    }

    fn put(number: u64, at: u64) -> RecordedRequest {
        operation(0, Action::Put(value(number)), Answer::Done, at, at + 5)
    }

    /// Returns the guarantees that explain a history, each of them alone.
    fn of(history: &[RecordedRequest]) -> Vec<Guarantee> {
        let Verdict::Violation(last) = check(history) else { panic!("{history:?} is a violation") };
        explanations(history, last).into_iter().flat_map(|one| one.into_iter().take(2)).collect()
    }

    /// Regression test: a late listing was called a violation of "read after write".
    #[test]
    fn a_late_listing_is_not_blamed_on_reads() {
        let list =
            |seen: Option<u64>, at| operation(1, Action::List, Answer::Saw(seen.map(value)), at, at + 5);
        assert_eq!(of(&[put(1, 0), list(None, 10), get(Some(1), 20)]), [Guarantee::ListAfterPut]);
        let deleted = operation(0, Action::Delete, Answer::Done, 10, 15);
        assert_eq!(of(&[put(1, 0), deleted, list(Some(1), 20), get(None, 30)]), [Guarantee::ListAfterDelete]);
    }

    /// Regression test: stale listings after a put and after a delete were blamed on a lost put, which explains both.
    #[test]
    fn explanations_of_several_guarantees_are_kept_beside_those_of_one() {
        let list =
            |seen: Option<u64>, at| operation(1, Action::List, Answer::Saw(seen.map(value)), at, at + 5);
        let delete = |at| operation(0, Action::Delete, Answer::Done, at, at + 5);
        let history =
            [put(1, 0), list(None, 10), get(Some(1), 20), delete(30), list(Some(1), 40), get(None, 50)];
        let Verdict::Violation(last) = check(&history) else { panic!("this is a violation") };
        let found = explanations(&history, last);
        assert!(
            found.contains(&Suspects::from([Guarantee::ListAfterPut, Guarantee::ListAfterDelete])),
            "{found:?}"
        );
        let one = Explanations::from([Suspects::from([Guarantee::ListAfterPut])]);
        let other = Explanations::from([Suspects::from([Guarantee::ListAfterDelete])]);
        let blamed = fewest([found, one, other].iter());
        assert_eq!(blamed, [Suspects::from([Guarantee::ListAfterPut, Guarantee::ListAfterDelete])]);
    }

    #[test]
    fn stale_reads_and_lost_writes_violate_read_after_write() {
        assert_eq!(
            of(&[put(1, 0), put(2, 10), get(Some(1), 20), get(Some(2), 30)]),
            [Guarantee::ReadAfterPut]
        );
        assert_eq!(of(&[put(1, 0), put(2, 10), get(Some(1), 20)]), [Guarantee::ReadAfterPut]);
        let deleted = operation(0, Action::Delete, Answer::Done, 10, 15);
        assert_eq!(of(&[put(1, 0), deleted, get(Some(1), 20)]), [Guarantee::ReadAfterDelete]);
    }

    /// Regression test: an ignored `If-Match` was blamed on reads.
    #[test]
    fn an_ignored_condition_is_blamed_or_named_as_one_of_two() {
        let commit = |client, from, to, at| {
            let action = Action::PutIfUnchanged(value(from), value(to));
            operation(client, action, Answer::Done, at, at + 10)
        };
        // A read saw the first commit, so it was not lost.
        let seen = [put(1, 0), commit(0, 1, 2, 10), get(Some(2), 30), commit(1, 1, 3, 40), get(Some(3), 60)];
        assert_eq!(of(&seen), [Guarantee::PutIfUnchanged]);
        let unseen = [put(1, 0), commit(0, 1, 2, 10), commit(1, 1, 3, 15), get(Some(3), 60)];
        assert_eq!(of(&unseen), [Guarantee::ReadAfterConditionalPut, Guarantee::PutIfUnchanged]);
        let both = Explanations::from([Suspects::from([Guarantee::PutIfUnchanged])]);
        assert!(cause(&unseen, &both).is_some_and(|cause| cause.contains("not atomic")));
        assert_eq!(cause(&seen, &both), None);
    }

    #[test]
    fn the_fewest_guarantees_that_explain_all_violations_are_blamed() {
        use Guarantee::{PutIfUnchanged, ReadAfterConditionalPut, ReadAfterDelete, ReadAfterPut};
        let one = |guarantee| Suspects::from([guarantee]);
        let either = Explanations::from([one(ReadAfterConditionalPut), one(PutIfUnchanged)]);
        let single = Explanations::from([one(PutIfUnchanged)]);
        let fewest = |violations: &[&Explanations]| fewest(violations.iter().copied());
        assert_eq!(fewest(&[&either, &single]), [one(PutIfUnchanged)]);
        assert_eq!(fewest(&[&either]).len(), 2, "either of them");
        let reads = Explanations::from([one(ReadAfterPut)]);
        let both = Explanations::from([Suspects::from([ReadAfterPut, ReadAfterDelete])]);
        assert_eq!(fewest(&[&reads, &both]), [Suspects::from([ReadAfterPut, ReadAfterDelete])]);
        assert_eq!(fewest(&[]), [Suspects::new()]);
    }

    #[test]
    fn two_defects_of_one_kind_explain_a_history_together() {
        let deleted = operation(0, Action::Delete, Answer::Done, 30, 35);
        let history = [
            put(1, 0),
            put(2, 10),
            get(Some(1), 20),
            get(Some(2), 24),
            deleted,
            get(Some(2), 40),
            get(None, 50),
        ];
        assert_eq!(of(&history), [Guarantee::ReadAfterPut, Guarantee::ReadAfterDelete]);
    }
}
