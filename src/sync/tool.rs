//! Runs another tool's command in a separate process group, which ends with the run.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::driver::Control;

/// Interval at which an interruption of the run is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// Looks between SIGTERM and SIGKILL.
const GRACE: u32 = 20;
/// Most bytes of standard error that are kept.
const MOST_KEPT: usize = 64 << 10;

/// End of a command.
pub struct ToolExit {
    /// Its exit status.
    pub status: ExitStatus,
    /// The last line of its standard error; empty if there is none.
    pub last_line: String,
}

/// Runs a shell command to its end; a stop of the run ends it with SIGTERM, then with SIGKILL.
///
/// # Errors
/// When the shell cannot be started.
pub fn run(line: &str, endpoint: &str, control: &Control) -> std::io::Result<ToolExit> {
    let mut child = Command::new("sh")
        .args(["-c", line])
        .env("AWS_ENDPOINT_URL_S3", endpoint)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // A Ctrl-C on the terminal is for the run, which ends the command and then cleans up.
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
    let mut looks = 0;
    while ends.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if control.stopped_at().is_some() {
            let signal = if looks < GRACE { Signal::TERM } else { Signal::KILL };
            if looks % GRACE == 0 {
                let _ = kill_process_group(group, signal);
            }
            looks += 1;
        }
    }
    let panicked = |_| std::io::Error::other("a thread panicked");
    let status = waiting.join().map_err(panicked)??;
    // What the command left running in the background may hold its standard error open.
    let _ = kill_process_group(group, Signal::KILL);
    // A process that left the group may hold it open even so.
    let kept = reads.recv_timeout(10 * LOOK).unwrap_or_default();
    let text = String::from_utf8_lossy(&kept);
    let last_line = text.lines().rfind(|l| !l.trim().is_empty()).unwrap_or_default().to_string();
    Ok(ToolExit { status, last_line })
}

/// The last bytes of a stream.
fn tail(stream: &mut impl Read) -> Vec<u8> {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(n) = stream.read(&mut piece)
        && n > 0
    {
        kept.extend_from_slice(&piece[..n]);
        if kept.len() > 2 * MOST_KEPT {
            kept.drain(..kept.len() - MOST_KEPT);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_tool_is_kept() {
        let ended = run("echo one >&2; echo; echo two >&2; exit 3", "", &Control::default()).unwrap();
        assert_eq!((ended.status.code(), ended.last_line.as_str()), (Some(3), "two"));
    }

    /// A tool that hangs outlived Ctrl-C.
    #[test]
    fn a_stop_of_the_run_ends_the_tool() {
        let control = Control::default();
        control.stop();
        let ended = run("sleep 600 & sleep 600", "", &control).unwrap();
        assert!(!ended.status.success());
    }
}
