//! Administrative commands on the store of a running gateway: the command line sends its arguments through a socket in
//! the directory of the catalog, and prints what the gateway answers.

pub mod client;
pub mod server;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the socket in the directory of the catalog.
const SOCKET: &str = "admin.sock";
/// Longest message in bytes.
const MAX_MESSAGE: u64 = 1 << 20;

/// A request: the arguments of the command line without the name of the program.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// Version of the client.
    version: String,
    /// Directory of the client, for relative paths.
    directory: PathBuf,
    arguments: Vec<String>,
}

/// A part of the answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// Text for standard output.
    Output(String),
    /// End of the command: its exit code, and the message if it has failed.
    Exit(u8, Option<String>),
}

/// A directory through which the path of its socket is short: the address of a socket has at most 108 bytes.
struct SocketPlace {
    _directory: File,
    path: PathBuf,
}

impl SocketPlace {
    fn of(catalog: &Path) -> io::Result<SocketPlace> {
        let directory = File::open(catalog)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()));
        Ok(SocketPlace { _directory: directory, path })
    }
}

fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Receives a message; `None` at the end.
fn receive<T: for<'a> Deserialize<'a>>(reader: &mut BufReader<UnixStream>) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    reader.take(MAX_MESSAGE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::directory::TempDir;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_works_in_a_directory_with_a_long_name() {
        let dir = TempDir::new("admin");
        let catalog = dir.path().join("x".repeat(200));
        std::fs::create_dir(&catalog).unwrap();
        let place = SocketPlace::of(&catalog).unwrap();
        let listener = UnixListener::bind(&place.path).unwrap();
        let mut client = UnixStream::connect(&place.path).unwrap();
        let (served, _) = listener.accept().unwrap();
        send(&mut client, &Answer::Exit(1, Some("a\nb".into()))).unwrap();
        drop(client);
        let mut reader = BufReader::new(served);
        assert_eq!(receive(&mut reader).unwrap(), Some(Answer::Exit(1, Some("a\nb".into()))));
        assert_eq!(receive::<Answer>(&mut reader).unwrap(), None);
    }
}
