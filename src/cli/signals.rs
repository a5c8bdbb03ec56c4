//! Ctrl-C, SIGTERM and SIGHUP: the first ends the run in good order, a later one ends the process at once.

use std::sync::Arc;

use super::out::note;
use crate::clock::{MILLISECOND, SECOND, Timer, now_ns};
use crate::driver::Control;
use crate::s3::credentials::CredentialSource;

/// A signal so soon after the first is the same one: `timeout -s INT` sends it to the process and to its group.
const DEBOUNCE_NS: u64 = 500 * MILLISECOND;

/// Meaning of a signal.
#[derive(Debug, PartialEq, Eq)]
enum Asks {
    /// The first: end in good order.
    Stop,
    /// The first, delivered again.
    Nothing,
    /// A later one: end at once.
    Exit,
}

/// Tells signals from their repetitions.
#[derive(Default)]
struct Debounce {
    first_ns: Option<u64>,
}

impl Debounce {
    fn signalled(&mut self, now_ns: u64) -> Asks {
        match self.first_ns {
            None => {
                self.first_ns = Some(now_ns);
                Asks::Stop
            }
            Some(first) if now_ns - first < DEBOUNCE_NS => Asks::Nothing,
            Some(_) => Asks::Exit,
        }
    }
}

/// Listens on a thread of its own for as long as the process lives; also renews temporary credentials there, off the
/// measured path.
pub fn listen(control: Arc<Control>, credentials: Vec<CredentialSource>) {
    let listening = move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            let mut hang_up = signal(SignalKind::hangup())?;
            let mut timer = Timer::new()?;
            let mut debounce = Debounce::default();
            loop {
                let signalled = tokio::select! {
                    _ = interrupt.recv() => true,
                    _ = terminate.recv() => true,
                    _ = hang_up.recv() => true,
                    result = timer.until(now_ns() + 20 * SECOND) => { result?; false }
                };
                if signalled {
                    match debounce.signalled(now_ns()) {
                        Asks::Stop => {
                            control.stop();
                            note("\nstopping; results are kept (press Ctrl-C again to stop at once)");
                        }
                        Asks::Nothing => {}
                        Asks::Exit => {
                            note("plimsoll: stopped at once; `plimsoll clean RUN` removes what is left in the store");
                            std::process::exit(130);
                        }
                    }
                }
                for source in &credentials {
                    if source.renewal_due_in_s().is_some_and(|due| due <= 0)
                        && let Err(error) = source.renew().await
                    {
                        note(format_args!("plimsoll: credentials could not be renewed: {error}"));
                    }
                }
            }
        })
    };
    // Without the thread a Ctrl-C still ends the process, only less politely.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(listening);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `timeout -s INT` delivers the signal twice, which ended the process before anything was cleaned.
    #[test]
    fn a_signal_delivered_twice_counts_once() {
        let mut debounce = Debounce::default();
        assert_eq!(debounce.signalled(SECOND), Asks::Stop);
        assert_eq!(debounce.signalled(SECOND + 1000), Asks::Nothing);
        assert_eq!(debounce.signalled(SECOND + DEBOUNCE_NS - 1), Asks::Nothing);
        assert_eq!(debounce.signalled(SECOND + DEBOUNCE_NS), Asks::Exit);
    }
}
