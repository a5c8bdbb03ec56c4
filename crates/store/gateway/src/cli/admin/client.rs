//! Sends a command to a running gateway.

use std::io::{BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::{Answer, Request, SocketPlace, receive, send};
use crate::cli::Exit;
use crate::cli::out::say;

/// Connects to the gateway that uses the catalog in a directory; `None` if no gateway does.
///
/// # Errors
/// If the socket exists but cannot be used.
pub fn connect(catalog: &Path) -> Result<Option<UnixStream>, Exit> {
    let Ok(place) = SocketPlace::of(catalog) else { return Ok(None) };
    match UnixStream::connect(&place.path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(Exit::store(format!("{}: the running gateway: {error}", catalog.display()))),
    }
}

/// Returns the arguments of this process.
pub fn own_arguments() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Executes the command of the process arguments in the gateway.
///
/// # Errors
/// The error of the command, or exit code 3 if the gateway ends before the command.
pub fn execute(mut stream: UnixStream, arguments: Vec<String>) -> Result<(), Exit> {
    let failed = |error: std::io::Error| Exit::store(format!("the running gateway: {error}"));
    let directory = std::env::current_dir().map_err(failed)?;
    let request = Request { version: env!("CARGO_PKG_VERSION").into(), directory, arguments };
    send(&mut stream, &request).map_err(failed)?;
    let mut reader = BufReader::new(stream);
    loop {
        match receive(&mut reader).map_err(failed)? {
            Some(Answer::Output(text)) => say(&text)?,
            Some(Answer::Exit(0, _)) => return Ok(()),
            Some(Answer::Exit(code, message)) => {
                return Err(Exit { code, message: message.unwrap_or_default() });
            }
            None => return Err(Exit::store("the gateway ended before the command; repeat it")),
        }
    }
}
