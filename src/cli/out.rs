//! Standard output: what cannot be written there is told, but for a reader that went away (a closed pipe), which is no failure.

use std::io::{ErrorKind, Write};

use super::exit::Exit;

/// Writes `text`.
///
/// # Errors
/// 2 when it cannot be written.
pub fn say(text: &str) -> Result<(), Exit> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(failed(&error)),
        _ => Ok(()),
    }
}

fn failed(error: impl std::fmt::Display) -> Exit {
    Exit::input(format!("standard output: {error}; write to another place"))
}

/// What the standard library says when a line could not be printed.
const UNPRINTED: &str = "failed printing to stdout: ";

/// Ends the process in a sentence where a line cannot be printed, instead of in a panic.
pub fn end_when_unprinted() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().and_then(|text| text.strip_prefix(UNPRINTED));
        match said {
            None => usual(panic),
            Some(error) if error.contains("Broken pipe") => std::process::exit(0),
            Some(error) => {
                let exit = failed(error);
                eprintln!("plimsoll: {}", exit.message);
                std::process::exit(exit.code);
            }
        }
    }));
}
