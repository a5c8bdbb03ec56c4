//! The server as a child process: it ends with all of its descendants, and with Plimsoll.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process};

use super::DurabilityError;
use super::pause::{Limit, block_for};
use super::server::{Placeholders, ServerProfile};
use plimsoll_disk::mount::{Filter, Mounted, WholeSyncs};

/// Time that a server has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(20);
/// Interval between two looks at a process that is ending.
const LOOK: Duration = Duration::from_millis(2);
/// Number of bytes of the server's output that an error message may have.
const OUTPUT: u64 = 2_000;
/// Name of the directory for temporary files of the server, beside its log.
pub const TEMPORARY: &str = "temporary";

/// A running server. It is killed when this value is dropped.
pub struct ServerProcess {
    child: Child,
    output: File,
    /// True if its syncs of whole file systems reach the disk.
    syncs_whole_disk: bool,
}

/// Lets orphaned descendants of the server become children of this process, so that they can be killed.
pub fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Returns a command that a shell executes; with `filter`, its syncs of whole file systems go to Plimsoll.
#[allow(unsafe_code)]
fn shell(
    line: &str,
    profile: &ServerProfile,
    values: &Placeholders,
    output: &File,
    temporary: Option<&Path>,
    filter: Option<Filter>,
) -> std::io::Result<Command> {
    let mut command = Command::new("sh");
    command.args(["-c", &values.fill(line)]).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    if let Some(directory) = temporary {
        command.env("TMPDIR", directory);
    }
    command.envs(profile.env.iter().map(|(name, value)| (name, values.fill(value))));
    // Ctrl-C on the terminal must reach only Plimsoll, which ends the server.
    command.process_group(0);
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec, the closure only makes system calls.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if let Some(filter) = &filter {
                filter.install();
            }
            // The signal comes only if the parent ends from now on.
            match rustix::process::getppid() == Some(parent) {
                true => Ok(()),
                false => Err(rustix::io::Errno::SRCH.into()),
            }
        });
    }
    Ok(command)
}

impl ServerProcess {
    /// Starts a server. Its output goes to the file `log`, and its syncs of whole file systems to `mounted`, if its
    /// data are on a mounted disk.
    ///
    /// # Errors
    /// [`DurabilityError::System`] if the shell cannot be started.
    pub fn start(
        profile: &ServerProfile,
        values: &Placeholders,
        log: &Path,
        mounted: Option<&Mounted>,
    ) -> Result<ServerProcess, DurabilityError> {
        let output = File::options().create(true).truncate(true).read(true).write(true).open(log)?;
        let syncs = mounted.map(WholeSyncs::new).transpose()?;
        let filter = syncs.as_ref().map(WholeSyncs::filter).transpose()?;
        let temporary = log.with_file_name(TEMPORARY);
        let child = shell(&profile.command, profile, values, &output, Some(&temporary), filter)?.spawn()?;
        let mut server = ServerProcess { child, output, syncs_whole_disk: false };
        if let Some(syncs) = syncs {
            server.syncs_whole_disk = syncs.serve(&server.child)?;
        }
        Ok(server)
    }

    /// Returns true if `sync` and `syncfs` of the server reach the disk.
    pub fn syncs_whole_disk(&self) -> bool {
        self.syncs_whole_disk
    }

    /// Returns the exit status if the server ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the last line of the server's output; empty if it wrote nothing.
    pub fn last_output(&mut self) -> String {
        last_line(&mut self.output)
    }

    /// Asks the server to end, and kills it if it does not.
    pub fn stop(mut self) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, Signal::TERM);
        }
        let limit = Limit::new(GRACE);
        while self.ended().is_none() && !limit.is_over() {
            block_for(LOOK);
        }
    }

    /// Kills the server with all its descendants, as a power loss does, and waits until none is left.
    pub fn kill(&mut self) {
        let limit = Limit::new(GRACE);
        while !limit.is_over() {
            let found = descendants();
            for pid in &found {
                let _ = kill_process(*pid, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
            while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
            if found.is_empty() {
                return;
            }
            block_for(LOOK);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn last_line(output: &mut File) -> String {
    let from = output.metadata().map_or(0, |of| of.len()).saturating_sub(OUTPUT);
    let mut bytes = Vec::new();
    let _ = output.seek(SeekFrom::Start(from)).and_then(|_| output.take(OUTPUT).read_to_end(&mut bytes));
    let text = without_colours(&String::from_utf8_lossy(&bytes));
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.map_or_else(|| "it printed nothing".to_string(), |line| line.trim().to_string())
}

/// Removes the sequences of a terminal that select colours (ECMA-48, CSI).
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        out.push_str(&part[end..]);
    }
    out
}

/// Runs the setup command of a profile to its end.
///
/// # Errors
/// [`DurabilityError::Server`] if it fails.
pub fn set_up(profile: &ServerProfile, values: &Placeholders, log: &Path) -> Result<(), DurabilityError> {
    if profile.setup.is_empty() {
        return Ok(());
    }
    let mut output = File::options().create(true).truncate(true).read(true).write(true).open(log)?;
    let temporary = log.with_file_name(TEMPORARY);
    let status = shell(&profile.setup, profile, values, &output, Some(&temporary), None)?.status()?;
    match status.success() {
        true => Ok(()),
        false => Err(DurabilityError::Server(format!("setup failed ({status}): {}", last_line(&mut output)))),
    }
}

/// Checks that the program of a profile is installed.
///
/// # Errors
/// [`DurabilityError::Server`] if its version command fails.
pub fn check_program(profile: &ServerProfile) -> Result<(), DurabilityError> {
    if profile.version.is_empty() {
        return Ok(());
    }
    let output = Command::new("sh").args(["-c", &profile.version]).stdin(Stdio::null()).output()?;
    if output.status.success() && !output.stdout.is_empty() {
        return Ok(());
    }
    let text = [output.stderr, output.stdout].concat();
    let text = String::from_utf8_lossy(&text).trim().replace('\n', " ");
    Err(DurabilityError::Server(format!(
        "the program of {} does not start: '{}' prints '{text}'; install it, and put it on the path",
        profile.title, profile.version
    )))
}

/// Returns the first line that the version command of a profile prints; `None` if there is none.
pub fn version(profile: &ServerProfile) -> Option<String> {
    if profile.version.is_empty() {
        return None;
    }
    let output = Command::new("sh").args(["-c", &profile.version]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_string())
}

/// Returns the processes that descend from this one and still run.
fn descendants() -> Vec<Pid> {
    let running = processes().into_iter().filter(|(.., state)| !matches!(state.as_str(), "Z" | "X"));
    let children: Vec<(i32, i32)> = running.map(|(pid, parent, _)| (parent, pid)).collect();
    let mut found = Vec::new();
    let mut left = vec![std::process::id() as i32];
    while let Some(parent) = left.pop() {
        let next = children.iter().filter(|(of, _)| *of == parent).map(|(_, pid)| *pid);
        let next: Vec<i32> = next.filter(|pid| !found.contains(pid)).collect();
        found.extend(&next);
        left.extend(next);
    }
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// Returns the id, the parent and the state of each process.
fn processes() -> Vec<(i32, i32, String)> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may contain spaces. After it: the state and the parent.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse().ok()));
        if let (Some(state), Some(parent)) = (state, parent) {
            out.push((pid, parent, state.to_string()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ServerProfile;

    /// Regression test: PostgreSQL did not start again, because the lock file of a database named a process that had
    /// been killed and was still a zombie.
    #[test]
    fn a_killed_server_leaves_no_process_and_no_zombie() {
        adopt_orphans();
        let command = "sleep 1000 & (sleep 1000; true) & echo started; exec sleep 1000".to_string();
        let profile = ServerProfile { command, ..ServerProfile::default() };
        let log = std::env::temp_dir().join(format!("plimsoll-zombies-{}", std::process::id()));
        let mut server = ServerProcess::start(&profile, &Placeholders::default(), &log, None).unwrap();
        while server.last_output() != "started" {
            block_for(LOOK);
        }
        assert!(descendants().len() > 1);
        server.kill();
        let own = std::process::id() as i32;
        let left: Vec<_> = processes().into_iter().filter(|(_, parent, _)| *parent == own).collect();
        assert!(left.is_empty(), "{left:?}");
        std::fs::remove_file(log).unwrap();
    }
}
