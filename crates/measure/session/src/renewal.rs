//! Renews temporary credentials during a run.

use std::sync::Arc;

use super::observer::RunObserver;
use plimsoll_base::clock::{SECOND, Timer, now_ns};
use plimsoll_s3::credentials::CredentialSource;

/// Interval between two checks of the expiry times, in nanoseconds.
const INTERVAL_NS: u64 = 20 * SECOND;

/// Starts a thread that renews temporary credentials before they expire, for as long as the process lives.
///
/// Does nothing if no credentials expire. Reports a failed renewal to the observer and tries again.
pub fn renew(credentials: Vec<CredentialSource>, observer: &Arc<dyn RunObserver>) {
    if !credentials.iter().any(|source| source.renewal_due_in_s().is_some()) {
        return;
    }
    let observer = Arc::clone(observer);
    let renewing = move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut timer = Timer::new()?;
            loop {
                timer.until(now_ns() + INTERVAL_NS).await?;
                for source in credentials.iter().filter(|s| s.renewal_due_in_s().is_some_and(|due| due <= 0))
                {
                    if let Err(error) = source.renew().await {
                        observer.note(&format!(
                            "plimsoll: the credentials could not be renewed: {error}; Plimsoll will retry"
                        ));
                    }
                }
            }
        })
    };
    // If the thread cannot be started, requests fail when the credentials expire, and the errors show the reason.
    let _ = std::thread::Builder::new().name("credentials".into()).spawn(renewing);
}
