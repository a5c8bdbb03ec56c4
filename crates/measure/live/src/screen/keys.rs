//! Reads single keys from the terminal during a run: `q` stops the run, and so does the end of the terminal. The
//! settings of the terminal are restored at the end, unless the process is killed.

use std::io::{IsTerminal, Stdin, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

use plimsoll_base::clock::{MILLISECOND, now_ns, sleep_until};
use plimsoll_engine::driver::Control;

/// Maximum time until the end of the run is noticed, and between two looks while another job has the terminal.
const PAUSE_NS: u64 = 100 * MILLISECOND;

/// Single-key mode of the terminal. Dropping it restores the previous settings.
pub struct KeyInput {
    before: Termios,
    ended: Arc<AtomicBool>,
}

/// Returns true if this process may read from the terminal and change its settings. The system stops a job in the
/// background that tries. A terminal that does not control the process has no jobs.
fn is_in_foreground(terminal: &Stdin) -> bool {
    tcgetpgrp(terminal).map_or(true, |group| group == getpgrp())
}

/// Restores the settings of the terminal.
pub fn restore(before: &Termios) {
    if is_in_foreground(&stdin()) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, before);
    }
}

impl KeyInput {
    /// Switches the terminal to single-key mode and reads keys on a separate thread. `stopping` is called when `q`
    /// stops the run. Returns `None` if standard input is not a terminal, another job has it, or its settings cannot be
    /// changed.
    pub fn listen(control: Arc<Control>, stopping: impl Fn() + Send + 'static) -> Option<KeyInput> {
        let terminal = stdin();
        if !terminal.is_terminal() || !is_in_foreground(&terminal) {
            return None;
        }
        let before = tcgetattr(&terminal).ok()?;
        let mut single = before.clone();
        // ISIG stays set, so Ctrl-C still sends a signal.
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        single.special_codes[SpecialCodeIndex::VMIN] = 1;
        tcsetattr(&terminal, OptionalActions::Now, &single).ok()?;
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        let read = move || read_keys(&control, &has_ended, &stopping);
        // If the thread cannot start, Ctrl-C still works.
        let _ = std::thread::Builder::new().name("keys".into()).spawn(read);
        Some(KeyInput { before, ended })
    }

    /// Returns the settings of the terminal before the run.
    pub fn before(&self) -> &Termios {
        &self.before
    }
}

/// Reads keys until the run ends or the terminal is closed, which stops the run unless the process ignores SIGHUP.
fn read_keys(control: &Control, has_ended: &AtomicBool, stopping: &impl Fn()) {
    let terminal = stdin();
    let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE_NS as i64 };
    while !has_ended.load(Ordering::Acquire) {
        let mut ready = [PollFd::new(&terminal, PollFlags::IN)];
        let polled = poll(&mut ready, Some(&pause));
        let events = ready[0].revents();
        let is_closed = events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        let key = match polled {
            _ if is_closed => None,
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) if !is_in_foreground(&terminal) => {
                sleep_until(now_ns() + PAUSE_NS);
                continue;
            }
            Ok(_) => read_key(&terminal),
            Err(_) => None,
        };
        match key {
            Some(b'q') if control.stopped_at().is_none() => {
                control.stop();
                stopping();
            }
            Some(_) => {}
            None => {
                if !is_ignored(1) {
                    control.stop();
                }
                return;
            }
        }
    }
}

/// Reads a key; `None` if the terminal is closed.
fn read_key(terminal: &Stdin) -> Option<u8> {
    let mut key = [0];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(terminal, &mut key)).ok()?;
    (count > 0).then_some(key[0])
}

/// Returns true if the process was started with this signal ignored: under `nohup`, SIGHUP is.
pub fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

impl Drop for KeyInput {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        restore(&self.before);
    }
}
