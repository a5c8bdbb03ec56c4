//! Runs the command of another tool in its own process group, and kills the group when the command ends or the run
//! stops.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use plimsoll_engine::driver::Control;

/// Interval between two checks for a stop of the run.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Number of checks between SIGTERM and SIGKILL, that is, 2 s.
const GRACE: u32 = 20;
/// Number of bytes to keep from the end of standard error; up to twice as many are kept.
const MAX_KEPT: usize = 64 << 10;

/// Quotes a string as one word of a shell command.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Exit status and last message of a command.
pub struct ToolExit {
    /// Exit status of the shell that ran the command.
    pub status: ExitStatus,
    /// Last line of standard error that is not blank; empty if there is none.
    pub last_line: String,
}

/// Runs a shell command with additional environment variables until it ends. If the run stops, sends the command
/// SIGTERM and 2 s later SIGKILL.
///
/// # Errors
/// Fails if the shell cannot be started.
pub fn run(line: &str, variables: &[(&str, String)], control: &Control) -> std::io::Result<ToolExit> {
    let mut child = Command::new("sh")
        .args(["-c", line])
        .envs(variables.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C on the terminal must reach only Plimsoll, which ends the command and then cleans up.
        .process_group(0)
        .spawn()?;
    let group = Pid::from_child(&child);
    let mut stderr = child.stderr.take();
    let (read, reads) = channel();
    std::thread::spawn(move || read.send(stderr.as_mut().map_or_else(Vec::new, tail)));
    let (ended, ends) = channel();
    let waiting = std::thread::spawn(move || {
        let status = child.wait();
        let _ = ended.send(());
        status
    });
    let mut checks = 0;
    while ends.recv_timeout(CHECK_EVERY) == Err(RecvTimeoutError::Timeout) {
        if control.stopped_at().is_some() {
            let signal = if checks < GRACE { Signal::TERM } else { Signal::KILL };
            if checks % GRACE == 0 {
                let _ = kill_process_group(group, signal);
            }
            checks += 1;
        }
    }
    let panicked = |_| std::io::Error::other("a thread panicked");
    let status = waiting.join().map_err(panicked)??;
    // Background processes of the command may keep its standard error open.
    let _ = kill_process_group(group, Signal::KILL);
    // A process that left the group may still keep it open, so the wait is limited.
    let kept = reads.recv_timeout(10 * CHECK_EVERY).unwrap_or_default();
    let text = String::from_utf8_lossy(&kept);
    let last_line = text.lines().rfind(|l| !l.trim().is_empty()).unwrap_or_default().to_string();
    Ok(ToolExit { status, last_line })
}

/// Reads a stream to its end and returns its last bytes.
fn tail(stream: &mut impl Read) -> Vec<u8> {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(n) = stream.read(&mut piece)
        && n > 0
    {
        kept.extend_from_slice(&piece[..n]);
        if kept.len() > 2 * MAX_KEPT {
            kept.drain(..kept.len() - MAX_KEPT);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_standard_error_is_returned() {
        let ended = run("echo one >&2; echo; echo two >&2; exit 3", &[], &Control::default()).unwrap();
        assert_eq!((ended.status.code(), ended.last_line.as_str()), (Some(3), "two"));
    }

    /// Regression: a tool that hung survived Ctrl-C.
    #[test]
    fn a_stop_of_the_run_ends_the_tool() {
        let control = Control::default();
        control.stop();
        let ended = run("sleep 600 & sleep 600", &[], &control).unwrap();
        assert!(!ended.status.success());
    }
}
