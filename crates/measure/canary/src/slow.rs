//! Slow times: operations that succeed, and take far longer than they usually do.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::target::Ended;
use plimsoll_base::clock::MILLISECOND;

/// Factor by which a slow operation takes longer than the median of its kind.
const FACTOR: u64 = 5;
/// Least time that a slow operation takes longer than the median of its kind, in nanoseconds.
const LEAST_NS: u64 = 20 * MILLISECOND;
/// Number of operations of a kind from which its median is known.
pub(super) const KNOWN: u64 = 20;
/// Number of slow operations in a row that are a slow time. An interval that passed during one of them counts like one.
const SLOW: u64 = 3;
/// Number of other operations in a row that end a slow time.
const CALM: u64 = 2;

/// A time in which operations were slow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowTime {
    /// Start of the first slow operation (RFC 3339).
    pub from: String,
    /// End of the last slow operation (RFC 3339).
    pub to: String,
    /// Length in seconds.
    pub seconds: f64,
    /// Number of slow operations.
    pub operations: u64,
    /// Mean time of these operations, in milliseconds.
    pub mean_ms: f64,
    /// Median time of operations of the kind of the first one before it, in milliseconds.
    pub usual_ms: f64,
}

/// Slow operations that have not ended yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowing {
    from: Timestamp,
    to: Timestamp,
    operations: u64,
    /// Slow operations, and intervals that passed during them.
    intervals: u64,
    sum_ns: u64,
    usual_ns: u64,
    /// Operations in a row that were not slow.
    calm: u64,
}

/// Returns true if an operation took far longer than is usual.
fn is_slow(service_ns: u64, usual_ns: u64) -> bool {
    service_ns > FACTOR * usual_ns && service_ns > usual_ns + LEAST_NS
}

impl Slowing {
    /// Takes a successful operation into account, which ended at `now` and during which `missed` intervals passed.
    /// `usual_ns` is the median of its kind; `None` if it is not known. Returns true if a slow time is known from this
    /// operation on, and the slow time that this operation ends.
    pub fn add(
        slowing: &mut Option<Slowing>,
        ended: &Ended,
        missed: u64,
        usual_ns: Option<u64>,
        now: Timestamp,
    ) -> (bool, Option<SlowTime>) {
        let Some(usual_ns) = usual_ns else { return (false, None) };
        if !is_slow(ended.service_ns, usual_ns) {
            let Some(open) = slowing else { return (false, None) };
            open.calm += 1;
            // Two slow operations with another one between them are no slow time yet.
            let is_over = open.calm >= CALM || open.intervals < SLOW;
            return (false, slowing.take_if(|_| is_over).and_then(|open| open.time()));
        }
        let took = SignedDuration::from_nanos(i64::try_from(ended.service_ns).unwrap_or(i64::MAX));
        let from = now.checked_sub(took).unwrap_or(now);
        let open = slowing.get_or_insert(Slowing {
            from,
            to: now,
            operations: 0,
            intervals: 0,
            sum_ns: 0,
            usual_ns,
            calm: 0,
        });
        let before = open.intervals;
        (open.to, open.calm) = (now, 0);
        open.operations += 1;
        open.intervals += 1 + missed;
        open.sum_ns = open.sum_ns.saturating_add(ended.service_ns);
        (before < SLOW && open.intervals >= SLOW, None)
    }

    /// Returns the slow time so far; `None` if there were too few slow operations.
    pub fn time(&self) -> Option<SlowTime> {
        (self.intervals >= SLOW).then(|| SlowTime {
            from: self.from.to_string(),
            to: self.to.to_string(),
            seconds: self.to.duration_since(self.from).as_secs_f64(),
            operations: self.operations,
            mean_ms: self.sum_ns as f64 / self.operations.max(1) as f64 / 1e6,
            usual_ms: self.usual_ns as f64 / 1e6,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::OperationKind;

    /// Adds operations of these milliseconds, one per second, and returns when a slow time became known and the slow
    /// times that ended.
    fn watch(ms: &[u64]) -> (Vec<usize>, Vec<SlowTime>) {
        let (mut slowing, mut known, mut over) = (None, Vec::new(), Vec::new());
        for (second, ms) in ms.iter().enumerate() {
            let ended = Ended {
                kind: OperationKind::Get,
                address: None,
                bytes: 1,
                service_ns: ms * MILLISECOND,
                response_ns: ms * MILLISECOND,
                failure: None,
            };
            let now = Timestamp::from_second(1_795_824_000 + second as i64).unwrap();
            let missed = ms / 1000;
            let (is_known, ended) = Slowing::add(&mut slowing, &ended, missed, Some(5 * MILLISECOND), now);
            known.extend(is_known.then_some(second));
            over.extend(ended);
        }
        (known, over)
    }

    /// Regression test: 15 s of operations that took 900 ms instead of 5 ms were no event.
    #[test]
    fn slowness_without_failures_is_an_event() {
        let (known, over) = watch(&[&[5; 10][..], &[900; 15], &[5; 10]].concat());
        assert_eq!(known, [12], "the third slow operation");
        let [slow] = &over[..] else { panic!("{over:?}") };
        assert_eq!((slow.operations, slow.mean_ms, slow.usual_ms), (15, 900.0, 5.0));
        assert!((slow.seconds - 14.9).abs() < 0.01, "{slow:?}");
        let (known, over) = watch(&[5, 6_000, 5, 5]);
        assert_eq!((known, over.len()), (vec![1], 1), "one operation of six intervals");
    }

    #[test]
    fn single_slow_operations_and_small_differences_are_none() {
        assert_eq!(watch(&[5, 900, 900, 5, 5, 900, 5, 5]), (vec![], vec![]));
        assert_eq!(watch(&[20; 50]), (vec![], vec![]));
        let (_, over) = watch(&[900, 900, 900, 5, 900, 900, 5, 5]);
        assert_eq!(
            over.iter().map(|slow| slow.operations).collect::<Vec<_>>(),
            [5],
            "one other operation between"
        );
    }
}
