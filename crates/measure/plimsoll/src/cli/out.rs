//! Standard output and standard error. Everything that the program prints goes through this module, which
//! redacts secrets and escapes control characters. A closed pipe on standard output is not an error, and
//! neither is any failure to write to standard error.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::exit::Exit;
use plimsoll_base::text::{message, outgoing};
use plimsoll_document::terminal;

/// Writes `text` to standard output.
///
/// # Errors
/// Exit code 2 if the text cannot be written. A closed pipe is not an error.
pub fn say(text: &str) -> Result<(), Exit> {
    let mut out = std::io::stdout().lock();
    match out.write_all(outgoing(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::input(format!("standard output: {error}; redirect the output elsewhere")))
        }
        _ => Ok(()),
    }
}

/// Returns a text for people whose lines break between words in a terminal.
pub fn fit(text: &str) -> String {
    terminal::fit(text, std::io::stdout())
}

/// Appends `text` to the file that a flag names.
///
/// # Errors
/// Exit code 2 if the file cannot be written.
pub fn append(flag: &str, path: &Path, text: &str) -> Result<(), Exit> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(outgoing(text).as_bytes()))
        .map_err(|e| Exit::input(format!("{flag} {}: {e}; choose another file", path.display())))
}

/// True if `--quiet` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses the lines of [`progress`].
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Returns true if no progress is shown.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes a line about the progress of the command to standard error, unless `--quiet` was given.
pub fn progress(line: impl Display) {
    if !is_quiet() {
        note(line);
    }
}

/// Writes commands for a shell to standard error, with their lines as they are.
pub fn shell(commands: &str) {
    let _ = std::io::stderr().lock().write_all(message(commands).as_bytes());
}

/// Writes a line to standard error. Ignores a failure, because there is nowhere to report it.
pub fn note(line: impl Display) {
    let text = terminal::fit(&format!("{line}\n"), std::io::stderr());
    let _ = std::io::stderr().lock().write_all(message(&text).as_bytes());
}
