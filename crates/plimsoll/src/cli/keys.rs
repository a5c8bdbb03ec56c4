//! Reads single keys from the terminal during a run; `q` stops the run. The terminal's settings are restored
//! at the end, unless the process is killed.

use std::io::{IsTerminal, Read};
use std::sync::Arc;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::out::note;
use plimsoll_engine::driver::Control;

/// Single-key mode of the terminal. Dropping it restores the previous settings.
pub struct Keys {
    before: Termios,
}

impl Keys {
    /// Switches the terminal to single-key mode and reads keys on a separate thread. Returns `None` if
    /// standard input is not a terminal or its settings cannot be changed.
    pub fn listen(control: Arc<Control>) -> Option<Keys> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut single = before.clone();
        // ISIG stays set, so Ctrl-C still sends a signal.
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        single.special_codes[SpecialCodeIndex::VMIN] = 1;
        tcsetattr(&stdin, OptionalActions::Now, &single).ok()?;
        let read = move || {
            let mut key = [0u8; 1];
            while std::io::stdin().read_exact(&mut key).is_ok() {
                if key[0] == b'q' && control.stopped_at().is_none() {
                    control.stop();
                    note("\nstopping; results are kept");
                }
            }
        };
        // The thread ends with the process. If it cannot start, Ctrl-C still works.
        let _ = std::thread::Builder::new().name("keys".into()).spawn(read);
        Some(Keys { before })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
