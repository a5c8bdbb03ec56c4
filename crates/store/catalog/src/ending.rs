//! The end of the process: SIGTERM ends it within [`LIMIT`], in every state. A supervisor that waits no longer kills
//! it, and what hangs would then be known to nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll_base::clock::{SECOND, now_ns, sleep_until};

use crate::liveness;
use crate::log::warn;
use crate::threads;

/// Time from the signal until the process ends itself, whatever hangs.
const LIMIT: Duration = Duration::from_secs(9);
/// Time that is left for the last step, which writes the index.
const RESERVE: Duration = Duration::from_secs(2);
/// Exit code if something hangs: the code of a store that fails.
const CODE: i32 = 3;

/// Monotonic time at which the process ends itself, in nanoseconds; 0 before the signal.
static END_NS: AtomicU64 = AtomicU64::new(0);
/// Description of the part of the process that has not ended.
static STEP: Mutex<&'static str> = Mutex::new("open requests");

/// Begins the end of the process.
///
/// # Errors
/// If the thread that ends the process cannot be started.
pub fn begin() -> std::io::Result<()> {
    let end_ns = now_ns() + LIMIT.as_nanos() as u64;
    // Only the first signal counts. A second one must not extend the time, or start a second thread.
    if END_NS.compare_exchange(0, end_ns, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return Ok(());
    }
    threads::spawn("deadline", move || {
        sleep_until(end_ns);
        let step = *STEP.lock().unwrap_or_else(PoisonError::into_inner);
        let late = liveness::all().into_iter().filter(|found| found.late_s > 0);
        let loops: String = late.map(|found| format!("; {}", found.text())).collect();
        warn(&format!(
            "the end of the process has waited for {} s for {step}{loops}; it ends now, and the next start repairs what \
             is unfinished",
            LIMIT.as_secs()
        ));
        // Without the destructors of other threads, which would wait for what hangs.
        std::process::exit(CODE);
    })?;
    Ok(())
}

/// Records what the end of the process waits for.
pub fn step(what: &'static str) {
    *STEP.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

/// Returns the time that a step of the end may take, at most `most`.
pub fn left(most: Duration) -> Duration {
    let end_ns = match END_NS.load(Ordering::Acquire) {
        // A restart, or a command of an administrator: nobody waits with a deadline.
        0 => return most,
        end_ns => end_ns.saturating_sub(RESERVE.as_nanos() as u64),
    };
    // At least a tenth of a second, from the reserve: without any time, a step would be given up at its first wait.
    Duration::from_nanos(end_ns.saturating_sub(now_ns()).max(SECOND / 10)).min(most)
}
