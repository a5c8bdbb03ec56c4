//! Handling of Ctrl-C, SIGTERM and SIGHUP. The first signal stops the run and keeps its results; a later one
//! exits immediately.

use std::sync::{Arc, mpsc};

use super::out::note;
use plimsoll_base::clock::{MILLISECOND, now_ns};
use plimsoll_engine::driver::Control;
use plimsoll_live::screen::keys::is_ignored;

/// Time after the first signal within which another one counts as a repetition, in nanoseconds.
/// `timeout -s INT` sends its signal both to the process and to the process group.
const DEBOUNCE_NS: u64 = 500 * MILLISECOND;

/// The response to a signal.
#[derive(Debug, PartialEq, Eq)]
enum Response {
    /// Stop the run and keep its results: the first signal.
    Stop,
    /// Ignore the signal: a repetition of the first.
    Ignore,
    /// Exit immediately: a later signal.
    Exit,
}

/// Distinguishes later signals from repetitions of the first.
#[derive(Default)]
struct Debounce {
    first_ns: Option<u64>,
}

impl Debounce {
    fn on_signal(&mut self, now_ns: u64) -> Response {
        match self.first_ns {
            None => {
                self.first_ns = Some(now_ns);
                Response::Stop
            }
            Some(first) if now_ns - first < DEBOUNCE_NS => Response::Ignore,
            Some(_) => Response::Exit,
        }
    }
}

/// Starts a thread that handles signals until the process exits, and waits until it does. The first signal stops
/// `control`.
pub fn listen(control: Arc<Control>) {
    let (ready, is_ready) = mpsc::sync_channel(1);
    let listening = move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            // Under nohup, SIGHUP is ignored, so the run continues after its terminal closes.
            let mut hang_up = if is_ignored(1) { None } else { Some(signal(SignalKind::hangup())?) };
            // Signal 25 is SIGXFSZ. With a handler, a write beyond the file size limit fails instead of
            // killing the process.
            let _file_size = signal(SignalKind::from_raw(25))?;
            let mut debounce = Debounce::default();
            let _ = ready.send(());
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    Some(_) = async { hang_up.as_mut()?.recv().await } => {}
                }
                {
                    match debounce.on_signal(now_ns()) {
                        Response::Stop => {
                            control.stop();
                            note("\nstopping; results are kept (press Ctrl-C again to exit immediately)");
                        }
                        Response::Ignore => {}
                        Response::Exit => {
                            note("plimsoll: exited immediately; `plimsoll clean RUN` deletes the objects left in the store");
                            std::process::exit(130);
                        }
                    }
                }
            }
        })
    };
    // If the thread cannot start, signals keep their default effect and end the process without clean-up.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(listening);
    // Otherwise a signal soon after the start could end the process without clean-up. Ends if the thread fails, too.
    let _ = is_ready.recv();
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_base::clock::SECOND;

    /// Regression test: on a busy machine, a run could write objects before it handled signals, which then ended it
    /// without clean-up.
    #[test]
    fn signals_are_handled_when_the_listener_returns() {
        listen(Arc::default());
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        // Bit n - 1 is signal n: SIGHUP, unless the tests run under nohup, SIGINT and SIGTERM.
        for signal in [1, 2, 15].into_iter().filter(|signal| !is_ignored(*signal)) {
            assert!(caught & (1 << (signal - 1)) != 0, "signal {signal}: {caught:x}");
        }
    }

    /// Regression test: `timeout -s INT` delivers its signal twice, which ended the process before the
    /// clean-up.
    #[test]
    fn a_signal_delivered_twice_counts_once() {
        let mut debounce = Debounce::default();
        assert_eq!(debounce.on_signal(SECOND), Response::Stop);
        assert_eq!(debounce.on_signal(SECOND + 1000), Response::Ignore);
        assert_eq!(debounce.on_signal(SECOND + DEBOUNCE_NS - 1), Response::Ignore);
        assert_eq!(debounce.on_signal(SECOND + DEBOUNCE_NS), Response::Exit);
    }
}
