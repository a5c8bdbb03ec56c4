//! Everything that the program prints on standard output. Secrets are redacted and control characters escaped.

use std::io::{self, Write};

use plimsoll_base::text::outgoing;

use super::Exit;

/// Writes text to standard output. A closed pipe is not an error.
///
/// # Errors
/// Exit code 2 if standard output cannot be written.
pub fn say(text: &str) -> Result<(), Exit> {
    let mut out = io::stdout().lock();
    match out.write_all(outgoing(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Exit::input(format!("standard output: {error}; redirect the output elsewhere")))
        }
        _ => Ok(()),
    }
}

/// Receiver of the output of a command: standard output, or an administrator who is connected to the gateway.
pub trait Output {
    /// Sends text to the receiver.
    ///
    /// # Errors
    /// If the receiver does not take the text. The command then ends.
    fn say(&self, text: &str) -> Result<(), Exit>;
}

/// Standard output of this process.
pub struct Standard;

impl Output for Standard {
    fn say(&self, text: &str) -> Result<(), Exit> {
        say(text)
    }
}
