//! Ctrl-C, SIGTERM and SIGHUP: the first ends the run in good order, a later one ends the process at once.

use std::sync::Arc;

use super::out::note;
use crate::clock::{MILLISECOND, now_ns};
use crate::driver::Control;

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

/// Listens for signals on a separate thread for as long as the process lives.
pub fn listen(control: Arc<Control>) {
    let listening = move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            // Under nohup the run goes on when its terminal ends.
            let mut hang_up = if is_ignored(1) { None } else { Some(signal(SignalKind::hangup())?) };
            // A file beyond the limit of its size is an error of the write, not the end of the process.
            let _file_size = signal(SignalKind::from_raw(25))?;
            let mut debounce = Debounce::default();
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    Some(_) = async { hang_up.as_mut()?.recv().await } => {}
                }
                {
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
            }
        })
    };
    // Without the thread a Ctrl-C still ends the process, only less politely.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(listening);
}

/// Returns true if the process was started with this signal ignored.
fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

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
