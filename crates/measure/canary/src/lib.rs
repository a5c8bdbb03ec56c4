//! A canary: one operation per interval, without an end. It puts an object, gets it, deletes it, and begins again.
//!
//! [`target`] sends the operations, and [`history`] keeps what happened on each day. The store, the network and the
//! disk may be absent for any time: failed operations are counted, and the history is written when the disk is back.
//! Uses `session`; `plimsoll` uses it.

pub mod day;
pub mod history;
pub mod outage;
pub mod slow;
pub mod target;

use std::sync::Arc;

use history::History;
use outage::Change;
use target::{CanaryStore, Ended};

use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::units::{format_count, format_ms};
use plimsoll_engine::driver::Control;
use plimsoll_judge::run_dir::intervals::IntervalKey;
use plimsoll_recorder::collector::SecondRow;
use plimsoll_recorder::latency::Latency;
use plimsoll_recorder::tally::Tally;
use plimsoll_session::live::Live;
use plimsoll_workload::schedule::Role;

/// Name of the phase in metrics.
pub const PHASE: &str = "canary";

/// Time between two writes of the history, in nanoseconds.
const WRITE_EVERY_NS: u64 = 60 * SECOND;

/// Interval between the operations of a canary, and the condition that ends the canary.
pub struct Schedule {
    /// Time between the intended starts of two operations, in nanoseconds.
    pub every_ns: u64,
    /// Number of operations after which it ends; `None` if it does not.
    pub operations: Option<u64>,
    /// Handle that stops it.
    pub control: Arc<Control>,
}

/// Receiver of what a canary tells while it runs.
pub trait Listener {
    /// Receives the first failure, or the success that ends failures, in words.
    fn changed(&self, line: &str);
}

/// Number of operations of a canary, and number of failed operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CanaryCounts {
    /// Number of operations, failed ones included.
    pub operations: u64,
    /// Number of failed operations.
    pub failed: u64,
}

/// Sends operations until the schedule ends. Returns their numbers.
pub fn watch(
    target: &mut CanaryStore,
    schedule: &Schedule,
    history: &mut History,
    live: Option<&Live>,
    listener: &dyn Listener,
) -> CanaryCounts {
    let (began_ns, mut slot, mut counts) = (now_ns(), 0, CanaryCounts::default());
    let mut written_ns = began_ns;
    while schedule.control.stopped_at().is_none()
        && schedule.operations.is_none_or(|most| counts.operations < most)
    {
        let intended_ns = began_ns + slot * schedule.every_ns;
        if !target.wait_until(intended_ns, &schedule.control) {
            break;
        }
        let ended = target.next(intended_ns);
        counts.operations += 1;
        counts.failed += u64::from(ended.failure.is_some());
        // Intervals that passed during a slow operation have none.
        let passed = (now_ns() - began_ns) / schedule.every_ns;
        let missed = passed.saturating_sub(slot + 1);
        slot += 1 + missed;
        let change = history.add(&ended, missed);
        if let Some(live) = live {
            let key = IntervalKey {
                store: target.name(),
                phase: PHASE,
                role: Role::Measure,
                repeat: 0,
                block: 0,
                step: None,
            };
            let tally = tally_of(&ended);
            let second = (now_ns() - began_ns) / SECOND;
            live.second(key, &SecondRow { second, phase: 0, kind: ended.kind, tally: &tally });
        }
        if let Some(line) = change.and_then(|change| words(&change, &ended)) {
            listener.changed(&line);
        }
        if now_ns() >= written_ns + WRITE_EVERY_NS || history.is_another_day() {
            written_ns = now_ns();
            history.write_or_tell(listener);
        }
    }
    history.write_or_tell(listener);
    counts
}

/// Describes a change that an operation is.
fn words(change: &Change, ended: &Ended) -> Option<String> {
    match (change, &ended.failure) {
        (Change::Ended { operations: 1, .. }, _) => {
            Some("all operations succeed again after one failure".into())
        }
        (Change::Ended { operations, seconds }, _) => Some(format!(
            "all operations succeed again after {} failures in {seconds:.1} s",
            format_count(*operations)
        )),
        (Change::Began, Some((class, message))) => {
            let at = ended.address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
            Some(format!("{} failed{at}: {class}: {message}", ended.kind))
        }
        (Change::Began, None) => None,
        (Change::Slow(slow), _) => Some(format!(
            "slow: {} takes {}, usually {}",
            ended.kind,
            format_time(slow.mean_ms),
            format_time(slow.usual_ms)
        )),
        (Change::Usual(slow), _) => Some(format!(
            "as fast as usual again; it was slow from {} for {:.1} s: {}, usually {}",
            slow.from,
            slow.seconds,
            format_time(slow.mean_ms),
            format_time(slow.usual_ms)
        )),
    }
}

/// Formats a time in milliseconds for a line.
fn format_time(ms: f64) -> String {
    format!("{} ms", format_ms(ms))
}

/// Returns the counts of one operation.
fn tally_of(ended: &Ended) -> Tally {
    let mut tally = Tally { operations: 1, attempts: 1, ..Tally::default() };
    match &ended.failure {
        Some((class, _)) => {
            tally.errors.insert(class.clone(), 1);
        }
        None => {
            (tally.succeeded, tally.completed, tally.bytes) = (1, 1, ended.bytes as f64);
            tally.latencies[Latency::Service].record(ended.service_ns);
            tally.latencies[Latency::Response].record(ended.response_ns);
        }
    }
    tally
}
