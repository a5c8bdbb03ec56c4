//! A PostgreSQL server of the distribution, for tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::directory::TempDir;

/// A running server that is reached over a socket in its directory.
pub struct Postgres {
    directory: TempDir,
    process: Child,
}

/// Returns the directory of the newest server of the distribution.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let newest = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max();
    newest.filter(|bin| bin.join("initdb").exists())
}

/// Returns a command of the server. It refuses to run as root, so that root uses the account of the distribution.
fn command(program: &str, directory: &Path) -> Option<Command> {
    let program = programs()?.join(program);
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(command)
}

impl Postgres {
    /// Creates a database and starts its server; `None` if the distribution's package is not installed.
    pub fn start() -> Option<Postgres> {
        if programs().is_none() {
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        }
        let directory = TempDir::new("postgres");
        if rustix::process::geteuid().is_root() {
            Command::new("chown").arg("postgres").arg(directory.path()).status().ok()?;
        }
        let mut init = command("initdb", directory.path())?;
        init.args(["--auth=trust", "--username=plimsoll", "--no-sync", "--no-instructions", "-D", "data"]);
        assert!(init.status().unwrap().success(), "initdb has failed");
        let process = run(directory.path());
        Some(Postgres { directory, process })
    }

    /// Returns the URL of the database.
    pub fn url(&self) -> String {
        let host = self.directory.path().display().to_string().replace('/', "%2F");
        format!("postgres://plimsoll@{host}/postgres")
    }

    /// Kills all processes of the server.
    pub fn kill(&self) {
        let server = rustix::process::Pid::from_child(&self.process);
        // The processes of connections have groups of their own.
        let number = server.to_string();
        let children = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
        let numbers = children.unwrap_or_default();
        for child in numbers.split_whitespace().filter_map(|number| number.parse().ok()) {
            let child = rustix::process::Pid::from_raw(child);
            let _ = child.map(|child| rustix::process::kill_process(child, rustix::process::Signal::KILL));
        }
        let _ = rustix::process::kill_process(server, rustix::process::Signal::KILL);
    }

    /// Starts the server again after it was killed.
    pub fn restart(mut self) -> Postgres {
        self.process.wait().unwrap();
        self.process = run(self.directory.path());
        self
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
        let _ = self.process.wait();
    }
}

/// Starts the server, and waits until it accepts connections.
fn run(directory: &Path) -> Child {
    let mut server = command("postgres", directory).unwrap();
    let socket = format!("unix_socket_directories={}", directory.display());
    server.args(["-D", "data", "-c", "listen_addresses=", "-c", &socket]);
    let mut process = server.spawn().unwrap();
    let is_ready =
        || command("pg_isready", directory).unwrap().arg("-h").arg(directory).status().unwrap().success();
    while !is_ready() {
        if let Some(status) = process.try_wait().unwrap() {
            panic!("the database does not start: {status}");
        }
    }
    process
}
