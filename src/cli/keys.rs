//! Single keys from a terminal while a run goes on: `q` ends it. The terminal gets its settings back whatever happens but a kill.

use std::io::{IsTerminal, Read};
use std::sync::Arc;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::out::note;
use crate::driver::Control;

/// The terminal listens to single keys as long as this lives.
pub struct Keys {
    before: Termios,
}

impl Keys {
    /// Listens on a thread of its own, when standard input is a terminal.
    pub fn listen(control: Arc<Control>) -> Option<Keys> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut single = before.clone();
        // Ctrl-C goes on to be a signal.
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
        // The thread ends with the process; without it there is still Ctrl-C.
        let _ = std::thread::Builder::new().name("keys".into()).spawn(read);
        Some(Keys { before })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
