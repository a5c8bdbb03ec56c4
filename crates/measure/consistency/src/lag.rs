//! Visibility lag: how long after its acknowledgement a write or delete was still missing from reads.

use std::collections::HashMap;

use super::history::{Action, Answer, RecordedRequest, Value};

/// Returns the visibility lag of each acknowledged write and delete of a history, in nanoseconds, in order of their
/// ends, in reads ([`Action::Get`]) or in listings ([`Action::List`]).
///
/// The lag is the time from the acknowledgement to the start of the last of these that returned an older state; 0 if
/// there was none. It is a lower bound: the store may have been stale after the last such read. A state is older
/// only if each operation that can have caused it ended before the write began.
pub fn lags(history: &[RecordedRequest], by: Action) -> Vec<u64> {
    let mut writes: Vec<&RecordedRequest> = history.iter().filter(|o| o.answer == Answer::Done).collect();
    writes.sort_by_key(|write| write.end_ns);
    let causes = Causes::of(history);
    let mut out = vec![0; writes.len()];
    for read in history.iter().filter(|operation| operation.action == by) {
        let Answer::Saw(seen) = read.answer else { continue };
        let Some(caused_ns) = causes.before(read, seen) else { continue };
        // The writes that ended before the read started are a prefix.
        let ended = writes.partition_point(|write| write.end_ns < read.start_ns);
        for (write, lag) in writes[..ended].iter().zip(&mut out).rev() {
            if write.end_ns <= caused_ns {
                break;
            }
            if write.start_ns > caused_ns {
                *lag = (*lag).max(read.start_ns - write.end_ns);
            }
        }
    }
    out
}

/// Ends of the operations that can have caused a state.
struct Causes {
    /// End of the write of each value, in nanoseconds.
    writes: HashMap<Value, u64>,
    /// Deletes in order of their starts: the start, and the latest end of the deletes up to this one, in nanoseconds.
    deletes: Vec<(u64, u64)>,
}

impl Causes {
    fn of(history: &[RecordedRequest]) -> Causes {
        let not_refused = history.iter().filter(|operation| operation.answer != Answer::Refused);
        let writes = not_refused.filter_map(|o| Some((o.action.written()?, o.end_ns))).collect();
        let deletes = history.iter().filter(|operation| operation.action == Action::Delete);
        let mut deletes: Vec<(u64, u64)> = deletes.map(|o| (o.start_ns, o.end_ns)).collect();
        deletes.sort_unstable();
        let mut latest = 0;
        for (_, end_ns) in &mut deletes {
            latest = latest.max(*end_ns);
            *end_ns = latest;
        }
        Causes { writes, deletes }
    }

    /// Returns the latest end of the operations that can have caused the state that a read saw; `None` if one of them
    /// had not ended when the read started, or if there is none. The absence of an object before its first write
    /// counts as caused at time 0.
    fn before(&self, read: &RecordedRequest, seen: Option<Value>) -> Option<u64> {
        let latest = match seen {
            Some(value) => self.writes.get(&value).copied(),
            None => {
                let started = self.deletes.partition_point(|(start_ns, _)| *start_ns < read.end_ns);
                Some(self.deletes[..started].last().map_or(0, |(_, end_ns)| *end_ns))
            }
        };
        latest.filter(|end_ns| *end_ns < read.start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::linearizable::tests::{operation, value};
    use super::*;

    const PUT: fn(u64, u64, u64) -> RecordedRequest =
        |number, start, end| operation(0, Action::Put(value(number)), Answer::Done, start, end);

    fn read(seen: Option<u64>, start: u64) -> RecordedRequest {
        operation(1, Action::Get, Answer::Saw(seen.map(value)), start, start + 5)
    }

    #[test]
    fn the_lag_ends_with_the_last_read_of_an_older_value() {
        let history =
            [PUT(1, 0, 10), PUT(2, 20, 30), read(Some(1), 40), read(Some(1), 70), read(Some(2), 90)];
        assert_eq!(lags(&history, Action::Get), [0, 40]);
    }

    #[test]
    fn a_missing_new_object_and_a_deleted_object_that_is_read_have_lags() {
        assert_eq!(lags(&[PUT(1, 1, 10), read(None, 25)], Action::Get), [15]);
        let deleted = operation(0, Action::Delete, Answer::Done, 20, 30);
        assert_eq!(lags(&[PUT(1, 0, 10), deleted, read(Some(1), 50)], Action::Get), [0, 20]);
    }

    #[test]
    fn a_value_that_an_overlapping_write_can_have_caused_is_not_older() {
        // The write of 1 overlaps the write of 2, so 1 may be the newer value.
        assert_eq!(lags(&[PUT(1, 0, 25), PUT(2, 20, 30), read(Some(1), 40)], Action::Get), [0, 0]);
        let deleted = operation(2, Action::Delete, Answer::Done, 35, 60);
        assert_eq!(lags(&[PUT(1, 0, 10), deleted, read(None, 40)], Action::Get), [0, 0]);
    }
}
