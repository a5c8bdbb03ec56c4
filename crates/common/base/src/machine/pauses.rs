//! Detection of pauses: times at which a thread that should have run did not.
//!
//! A thread on each core sleeps for a short time again and again, and records by how much each sleep was too long. This
//! is the idea of jHiccup (G. Tene). An overshoot of more than 5 ms is a pause: the hypervisor, the kernel or another
//! process had the core. The sleeps take 1 ms, or 4 ms while no core was late, because each wake-up costs CPU time. The
//! threads also notice if somebody sets the wall clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::thread::CpuSet;

use crate::clock::wall::{self, ClockStep};
use crate::clock::{MILLISECOND, SECOND, now_ns, set_sleep_slack, sleep_until};

/// Length of a sleep after a late wake-up, in nanoseconds.
const SLEEP_NS: u64 = MILLISECOND;

/// Length of a sleep if no wake-up was late for [`ALERT_NS`], in nanoseconds.
const QUIET_SLEEP_NS: u64 = 4 * MILLISECOND;

/// Overshoot from which a wake-up is late, in nanoseconds.
const LATE_NS: u64 = PAUSE_NS / 2;

/// Time after a late wake-up during which all sleeps are short, in nanoseconds.
const ALERT_NS: u64 = SECOND;

/// Time by which the kernel may postpone the end of a sleep to combine it with another wake-up, in nanoseconds. It
/// makes the threads cheap and counts as overshoot.
const SLACK_NS: u64 = MILLISECOND / 2;

/// Overshoot above which a sleep counts as a pause, in nanoseconds.
pub const PAUSE_NS: u64 = 5 * MILLISECOND;

/// Maximum number of threads.
const MAX_THREADS: usize = 16;

/// Maximum number of pauses and of clock steps that are kept: some hours of a machine that pauses several times per
/// second. Later ones are not counted.
const MAX_KEPT: usize = 100_000;

/// Maximum number of overshoots that are kept until [`PauseLog::take_overshoots`].
const MAX_OVERSHOOTS: usize = 1 << 20;

/// Time at which a core did not run a thread that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Number of the core.
    pub core: usize,
    /// Time at which the thread was due, in nanoseconds on the monotonic clock.
    pub start_ns: u64,
    /// Time at which it ran, in nanoseconds on the monotonic clock.
    pub end_ns: u64,
}

impl Pause {
    /// Returns true if the pause overlaps the time from `from_ns` to `to_ns`.
    pub fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        self.start_ns < to_ns && self.end_ns > from_ns
    }
}

/// Returns the time from `from_ns` to `to_ns` that any of the pauses covers, in nanoseconds.
pub fn covered_ns(pauses: &[Pause], from_ns: u64, to_ns: u64) -> u64 {
    let mut parts: Vec<(u64, u64)> =
        pauses.iter().map(|p| (p.start_ns.max(from_ns), p.end_ns.min(to_ns))).collect();
    parts.sort_unstable();
    let (mut covered, mut at) = (0, from_ns);
    for (start, end) in parts {
        covered += end.saturating_sub(start.max(at));
        at = at.max(end);
    }
    covered
}

/// Pauses and clock steps since the start of a [`PauseWatch`]. Any thread may read it.
#[derive(Debug, Default)]
pub struct PauseLog {
    stop: AtomicBool,
    /// Time up to which each core has been watched.
    seen_ns: Vec<AtomicU64>,
    /// End of the time during which sleeps are short.
    alert_until_ns: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    pauses: Vec<Pause>,
    steps: Vec<ClockStep>,
    overshoots_us: Vec<u32>,
}

impl PauseLog {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a log of known pauses, which no thread extends.
    pub fn of(pauses: &[Pause]) -> PauseLog {
        let kept = Kept { pauses: pauses.to_vec(), ..Kept::default() };
        PauseLog { kept: Mutex::new(kept), ..PauseLog::default() }
    }

    /// Returns the time up to which all pauses are known, in nanoseconds on the monotonic clock.
    pub fn known_until_ns(&self) -> u64 {
        self.seen_ns.iter().map(|seen| seen.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }

    /// Returns the pauses from number `first` on, in the order of their ends.
    pub fn since(&self, first: usize) -> Vec<Pause> {
        self.lock().pauses.get(first..).unwrap_or_default().to_vec()
    }

    /// Returns the pauses that overlap the time from `from_ns` to `to_ns`.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> Vec<Pause> {
        self.lock().pauses.iter().filter(|p| p.overlaps(from_ns, to_ns)).copied().collect()
    }

    /// Returns the steps of the wall clock that were detected from `from_ns` to `to_ns`.
    pub fn steps_within(&self, from_ns: u64, to_ns: u64) -> Vec<ClockStep> {
        self.lock().steps.iter().filter(|s| (from_ns..to_ns).contains(&s.at_ns)).copied().collect()
    }

    /// Takes the overshoots of all sleeps since the last call, in microseconds.
    pub fn take_overshoots(&self) -> Vec<u32> {
        std::mem::take(&mut self.lock().overshoots_us)
    }

    /// Records a sleep of the thread on `core` that should have taken `slept_ns`, until `due_ns`, and ended at
    /// `now_ns`.
    fn record(&self, core: usize, slept_ns: u64, due_ns: u64, now_ns: u64, step: Option<ClockStep>) {
        let overshoot = now_ns.saturating_sub(due_ns);
        if overshoot >= LATE_NS {
            self.alert_until_ns.fetch_max(now_ns + ALERT_NS, Ordering::Relaxed);
        }
        let mut kept = self.lock();
        if kept.overshoots_us.len() < MAX_OVERSHOOTS {
            // Long sleeps stand for several short ones.
            let count = (slept_ns / SLEEP_NS).max(1) as usize;
            let us = u32::try_from(overshoot / 1_000).unwrap_or(u32::MAX);
            kept.overshoots_us.extend(std::iter::repeat_n(us, count));
        }
        if overshoot > PAUSE_NS && kept.pauses.len() < MAX_KEPT {
            kept.pauses.push(Pause { core, start_ns: due_ns, end_ns: now_ns });
        }
        if let Some(step) = step.filter(|_| kept.steps.len() < MAX_KEPT) {
            kept.steps.push(step);
        }
    }

    /// Returns the length of a sleep that begins now, in nanoseconds.
    fn sleep_ns(&self, now_ns: u64) -> u64 {
        let is_alert = now_ns < self.alert_until_ns.load(Ordering::Relaxed);
        if is_alert { SLEEP_NS } else { QUIET_SLEEP_NS }
    }

    fn watch(&self, index: usize, core: usize) {
        let mut own = CpuSet::new();
        own.set(core);
        // A thread that may not choose its core still detects pauses of the whole machine.
        let _ = rustix::thread::sched_setaffinity(None, &own);
        set_sleep_slack(SLACK_NS);
        while !self.stop.load(Ordering::Relaxed) {
            let slept = self.sleep_ns(now_ns());
            let due = now_ns() + slept;
            sleep_until(due);
            let step = if index == 0 { wall::sample() } else { None };
            self.record(core, slept, due, now_ns(), step);
            self.seen_ns[index].store(now_ns(), Ordering::Release);
        }
    }
}

/// Threads that detect pauses, each on its own core. Dropping the watch stops them.
#[derive(Debug)]
pub struct PauseWatch {
    log: Arc<PauseLog>,
    threads: Vec<JoinHandle<()>>,
}

impl PauseWatch {
    /// Starts one thread for each of `used` cores, at most one per core that the process may use and at most 16. If the
    /// system refuses a thread, its core is not watched.
    pub fn start(used: usize) -> PauseWatch {
        wall::sample();
        let cores = rustix::thread::sched_getaffinity(None).map_or_else(
            |_| vec![0],
            |set| {
                (0..CpuSet::MAX_CPU)
                    .filter(|core| set.is_set(*core))
                    .take(used.clamp(1, MAX_THREADS))
                    .collect()
            },
        );
        let seen_ns = cores.iter().map(|_| AtomicU64::new(now_ns())).collect();
        let log = Arc::new(PauseLog { seen_ns, ..PauseLog::default() });
        let mut threads = Vec::new();
        for (index, core) in cores.into_iter().enumerate() {
            let shared = Arc::clone(&log);
            let thread = std::thread::Builder::new().name(format!("pauses-{core}"));
            match thread.spawn(move || shared.watch(index, core)) {
                Ok(thread) => threads.push(thread),
                Err(_) => log.seen_ns[index].store(u64::MAX, Ordering::Release),
            }
        }
        PauseWatch { log, threads }
    }

    /// Returns the pauses and clock steps detected so far and from now on.
    pub fn log(&self) -> Arc<PauseLog> {
        Arc::clone(&self.log)
    }
}

impl Drop for PauseWatch {
    fn drop(&mut self) {
        self.log.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = MILLISECOND;

    fn pause(start_ns: u64, end_ns: u64) -> Pause {
        Pause { core: 0, start_ns, end_ns }
    }

    #[test]
    fn only_an_overshoot_above_the_threshold_is_a_pause() {
        let log = PauseLog::default();
        log.record(1, MS, 10 * MS, 15 * MS, None);
        log.record(1, MS, 20 * MS, 26 * MS, None);
        assert_eq!(log.since(0), [Pause { core: 1, start_ns: 20 * MS, end_ns: 26 * MS }]);
        assert_eq!(log.take_overshoots(), [5_000, 6_000]);
        assert!(log.take_overshoots().is_empty());
        assert_eq!(log.within(0, 20 * MS), []);
        assert_eq!(log.within(25 * MS, 100 * MS).len(), 1);
    }

    #[test]
    fn sleeps_are_short_after_a_late_wake_up_of_any_core() {
        let log = PauseLog::default();
        assert_eq!(log.sleep_ns(10 * MS), QUIET_SLEEP_NS);
        log.record(0, QUIET_SLEEP_NS, 10 * MS, 10 * MS + LATE_NS - 1, None);
        assert_eq!(log.sleep_ns(20 * MS), QUIET_SLEEP_NS);
        assert_eq!(log.take_overshoots(), [2_499; 4], "a long sleep stands for four short ones");
        log.record(1, QUIET_SLEEP_NS, 20 * MS, 20 * MS + LATE_NS, None);
        assert_eq!(log.sleep_ns(30 * MS), SLEEP_NS);
        assert_eq!(log.sleep_ns(23 * MS + ALERT_NS), QUIET_SLEEP_NS);
    }

    #[test]
    fn pauses_that_overlap_are_counted_once() {
        let pauses = [pause(0, 10), pause(5, 20), pause(30, 40), pause(32, 35)];
        assert_eq!(covered_ns(&pauses, 0, 100), 30);
        assert_eq!(covered_ns(&pauses, 8, 33), 15);
        assert_eq!(covered_ns(&[], 0, 100), 0);
    }

    #[test]
    fn a_watch_follows_every_core_until_it_is_dropped() {
        let watch = PauseWatch::start(usize::MAX);
        let log = watch.log();
        let begin = now_ns();
        while log.known_until_ns() < begin {
            std::thread::yield_now();
        }
        assert!(!log.take_overshoots().is_empty());
        drop(watch);
        let end = log.known_until_ns();
        assert_eq!(log.known_until_ns(), end);
        assert_eq!(Arc::strong_count(&log), 1);
    }
}
