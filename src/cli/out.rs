//! Standard output and standard error. Everything that the program prints goes through here: secrets are redacted, control characters
//! escaped, a reader that went away is no failure, and a full or closed standard error is none either.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use super::exit::Exit;
use crate::text::{message, outgoing};

/// Writes `text` to standard output.
///
/// # Errors
/// 2 when it cannot be written.
pub fn say(text: &str) -> Result<(), Exit> {
    let mut out = std::io::stdout().lock();
    match out.write_all(outgoing(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::input(format!("standard output: {error}; write to another place")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. A failure is ignored: there is no place left to report it.
pub fn note(line: impl Display) {
    let text = format!("{line}\n");
    let _ = std::io::stderr().lock().write_all(message(&text).as_bytes());
}
