//! Stops a run, or one of its ramps, from another thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use plimsoll_base::clock::{MILLISECOND, Timer, now_ns};
pub use plimsoll_workload::schedule::plan::RampId;

/// Shared state through which other threads, such as the signal handler and the reporter, stop a run or end
/// one of its ramps.
#[derive(Debug, Default)]
pub struct Control {
    stop_at_ns: AtomicU64,
    cuts: RwLock<HashMap<RampId, u64>>,
}

impl Control {
    /// Stops the run now. The results recorded so far are kept.
    pub fn stop(&self) {
        let _ = self.stop_at_ns.compare_exchange(0, now_ns(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the time of the first call of [`Control::stop`], in nanoseconds on the monotonic clock; `None`
    /// if there was none.
    pub fn stopped_at(&self) -> Option<u64> {
        Some(self.stop_at_ns.load(Ordering::Relaxed)).filter(|at| *at != 0)
    }

    /// Runs `work` until it is complete or the run is stopped, which is checked every 100 ms.
    pub async fn unless_stopped(&self, work: impl Future<Output = ()>) {
        let stopped = async {
            while let Ok(mut timer) = Timer::new() {
                let _ = timer.until(now_ns() + 100 * MILLISECOND).await;
                if self.stopped_at().is_some() {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            () = work => {}
            () = stopped => {}
        }
    }

    /// Ends a ramp now. Its current step does not count.
    pub fn end_ramp(&self, ramp: RampId) {
        self.cuts.write().unwrap_or_else(PoisonError::into_inner).entry(ramp).or_insert_with(now_ns);
    }

    /// Returns the time of the first call of [`Control::cut`] for a ramp, in nanoseconds on the monotonic
    /// clock; `None` if there was none.
    pub fn ramp_ended_at(&self, ramp: RampId) -> Option<u64> {
        self.cuts.read().unwrap_or_else(PoisonError::into_inner).get(&ramp).copied()
    }
}
