//! Reduces a violating history to the few operations that prove the violation.
//!
//! An operation may be removed only if the removal cannot create a violation: if the longer history had a valid order,
//! so would the shorter one. Then a violation in the shorter history proves one in the longer history.

use super::history::{Action, Answer, RecordedRequest, Value};
use super::linearizable::{Verdict, check, final_state};

/// Returns the operations of a history up to the end of operation `last`, the first that cannot be explained. Reads
/// that had not ended then are removed; writes that had not ended then have no end.
fn until(history: &[RecordedRequest], last: usize) -> Vec<RecordedRequest> {
    let end_ns = history[last].end_ns;
    let mut out = Vec::new();
    for operation in history.iter().filter(|operation| operation.start_ns <= end_ns) {
        if operation.end_ns <= end_ns {
            out.push(*operation);
        } else if !operation.is_observer() {
            out.push(RecordedRequest { end_ns: u64::MAX, ..*operation });
        }
    }
    out.sort_by_key(|operation| (operation.start_ns, operation.end_ns));
    out
}

/// Returns true if the answer of an operation depends on the presence of this value.
fn needs(operation: &RecordedRequest, value: Value) -> bool {
    match (operation.action, operation.answer) {
        (_, Answer::Saw(seen)) => seen == Some(value),
        (Action::PutIfUnchanged(expected, _), Answer::Done | Answer::Unknown) => expected == value,
        _ => false,
    }
}

/// Returns true if the removal of a write or delete from `rest` cannot create a violation.
///
/// Without a written value, the object keeps its earlier state until the next write. That changes no answer unless an
/// operation observed the value, or observed only that the object existed or had another value. The same holds for a
/// delete and the operations that need an absent object.
fn may_remove<'a>(removed: &RecordedRequest, mut rest: impl Iterator<Item = &'a RecordedRequest>) -> bool {
    match removed.action.written() {
        Some(value) => !rest.any(|operation| {
            needs(operation, value) || matches!(operation.answer, Answer::Refused | Answer::Present)
        }),
        None => !rest.any(|operation| match (operation.action, operation.answer) {
            (_, Answer::Saw(seen)) => seen.is_none(),
            (Action::PutIfAbsent(_), answer) => answer != Answer::Refused,
            (Action::PutIfUnchanged(..), answer) => answer == Answer::Refused,
            _ => false,
        }),
    }
}

/// Removes a range of operations if that is allowed and the rest still violates; returns the rest.
fn without(
    history: &[RecordedRequest],
    range: std::ops::Range<usize>,
    last: &RecordedRequest,
) -> Option<Vec<RecordedRequest>> {
    let (removed, rest) =
        (&history[range.clone()], [&history[..range.start], &history[range.end..]].concat());
    let allowed = removed.iter().all(|operation| {
        operation != last && (operation.is_observer() || may_remove(operation, rest.iter()))
    });
    (allowed && matches!(check(&rest), Verdict::Violation(_))).then_some(rest)
}

/// Removes the longest beginning of a history after which no operation was pending and the object did not exist, or
/// existed because of one write that needs no earlier one. That write is kept. A beginning with another write that a
/// later operation observed is not removed, because the reader would not know the observed value.
fn without_beginning(history: &[RecordedRequest]) -> Option<Vec<RecordedRequest>> {
    let mut latest_end = 0;
    let mut cuts = Vec::new();
    for (index, operation) in history.iter().enumerate() {
        if index > 0 && latest_end < operation.start_ns {
            cuts.push(index);
        }
        latest_end = latest_end.max(operation.end_ns);
    }
    cuts.into_iter().rev().find_map(|cut| {
        let kept = match final_state(&history[..cut])? {
            None => Vec::new(),
            Some(value) => {
                let write =
                    history[..cut].iter().find(|operation| operation.action.written() == Some(value))?;
                (!matches!(write.action, Action::PutIfUnchanged(..))).then(|| vec![*write])?
            }
        };
        let removed = history[..cut].iter().filter(|operation| !kept.contains(operation));
        let observed = removed.filter_map(|operation| operation.action.written());
        let mut observed = observed.filter(|value| history[cut..].iter().any(|later| needs(later, *value)));
        (kept.len() < cut && observed.next().is_none()).then(|| [&kept, &history[cut..]].concat())
    })
}

/// Returns a part of a history that is not linearizable and from which no further operation can be removed. `last` is
/// the index of the first operation that cannot be explained.
pub fn shortest(history: &[RecordedRequest], last: usize) -> Vec<RecordedRequest> {
    let unexplained = history[last];
    let mut left = until(history, last);
    let mut block = left.len().div_ceil(2).max(1);
    loop {
        let before = left.len();
        // From the end, because removed reads make earlier writes removable.
        let mut end = left.len();
        while end > 0 {
            let start = end.saturating_sub(block);
            if let Some(rest) = without(&left, start..end, &unexplained) {
                left = rest;
            }
            end = start;
        }
        if let Some(rest) = without_beginning(&left) {
            left = rest;
        } else if block == 1 && left.len() == before {
            return left;
        }
        block = (block / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::linearizable::tests::{operation, value};
    use super::*;
    use plimsoll_base::rng::Stream;

    /// Returns a history of one client that writes and reads in turn, in which read number `stale` returns the value
    /// before the last one.
    fn history_with_a_stale_read(n: u64, stale: u64) -> Vec<RecordedRequest> {
        let mut out = Vec::new();
        for i in 0..n {
            let seen = if i == stale { value(i) } else { value(i + 1) };
            out.push(operation(0, Action::Put(value(i + 1)), Answer::Done, 100 * i, 100 * i + 10));
            out.push(operation(1, Action::Get, Answer::Saw(Some(seen)), 100 * i + 20, 100 * i + 30));
        }
        out
    }

    #[test]
    fn a_stale_read_among_thousands_is_reduced_to_three_operations() {
        let history = history_with_a_stale_read(2_000, 1_234);
        let Verdict::Violation(last) = check(&history) else { panic!("the stale read is a violation") };
        let shortest = shortest(&history, last);
        let actions: Vec<Action> = shortest.iter().map(|operation| operation.action).collect();
        assert_eq!(actions, [Action::Put(value(1_234)), Action::Put(value(1_235)), Action::Get]);
        assert!(matches!(check(&shortest), Verdict::Violation(_)));
    }

    #[test]
    fn a_removal_never_turns_a_valid_history_into_a_violation() {
        for seed in 0..3_000 {
            let draws = Stream::new(seed, "valid history");
            let mut state = None;
            let history: Vec<RecordedRequest> = (0..8)
                .map(|i| {
                    let action = match draws.below(4 * i, 6) {
                        0 => Action::Put(value(i + 1)),
                        1 => Action::PutIfAbsent(value(i + 1)),
                        2 => Action::PutIfUnchanged(value(1 + draws.below(4 * i + 1, 8)), value(i + 1)),
                        3 => Action::Delete,
                        _ => Action::Get,
                    };
                    let answer = match action {
                        Action::Get => Answer::Saw(state),
                        Action::PutIfAbsent(_) if state.is_some() => Answer::Refused,
                        Action::PutIfUnchanged(expected, _) if state != Some(expected) => Answer::Refused,
                        _ => Answer::Done,
                    };
                    let operation = operation(0, action, answer, 10 * i, 10 * i + 5);
                    state = operation.apply(state).unwrap();
                    operation
                })
                .collect();
            assert_eq!(check(&history), Verdict::Linearizable);
            for at in 0..history.len() {
                let rest = [&history[..at], &history[at + 1..]].concat();
                if history[at].is_observer() || may_remove(&history[at], rest.iter()) {
                    assert_eq!(
                        check(&rest),
                        Verdict::Linearizable,
                        "seed {seed}, without {at}: {history:#?}"
                    );
                }
            }
        }
    }
}
