//! Access to files, the environment, commands and HTTP for the credential chains, which `reqsign` implements.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use reqsign_core::{CommandExecute, CommandOutput, Context, Env, Error as ReqsignError, FileRead, HttpSend};

use rustix::process::{Pid, Signal, kill_process_group};

use super::client_limits;
use super::fetch::fetch;

/// Returns the context in which a credential chain runs: the files, environment, commands and network of this machine.
pub fn context() -> Context {
    Context::new()
        .with_file_read(Files)
        .with_env(Environment)
        .with_command_execute(Commands)
        .with_http_send(Http)
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        std::fs::read(path).map_err(|e| ReqsignError::config_invalid(format!("{path}: {e}")))
    }
}

#[derive(Debug)]
struct Environment;

impl Env for Environment {
    fn var(&self, key: &str) -> Option<String> {
        std::env::var(key).ok()
    }

    fn vars(&self) -> HashMap<String, String> {
        std::env::vars().collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        std::env::home_dir()
    }
}

#[derive(Debug)]
struct Commands;

impl CommandExecute for Commands {
    async fn command_execute(&self, program: &str, args: &[&str]) -> reqsign_core::Result<CommandOutput> {
        let output = run_limited(Command::new(program).args(args), client_limits::timeout())
            .map_err(|e| ReqsignError::config_invalid(format!("credential_process {program}: {e}")))?;
        Ok(CommandOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}

/// Runs a command and returns its output. Kills its process group if it takes longer than `limit`.
fn run_limited(command: &mut Command, limit: Duration) -> std::io::Result<Output> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = Pid::from_child(&child);
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    receiver.recv_timeout(limit).unwrap_or_else(|_| {
        let _ = kill_process_group(group, Signal::KILL);
        Err(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            format!("no answer within {} s", limit.as_secs_f64()),
        ))
    })
}

#[derive(Debug)]
struct Http;

impl HttpSend for Http {
    async fn http_send(&self, request: http::Request<Bytes>) -> reqsign_core::Result<http::Response<Bytes>> {
        // `fetch` allows one second to connect, so that a machine without an instance metadata service does not
        // wait long. The chain runs before and between phases only.
        fetch(request).await.map_err(|e| ReqsignError::unexpected(format!("credential request failed: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a `credential_process` that hung blocked every command.
    #[test]
    fn a_command_that_hangs_is_killed() {
        let hung = run_limited(Command::new("sleep").arg("600"), Duration::from_millis(10));
        assert_eq!(hung.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        let good = run_limited(Command::new("echo").arg("hello"), Duration::from_secs(60)).unwrap();
        assert_eq!(good.stdout, b"hello\n");
    }
}
