//! The phases of a gateway that follows another one: it follows, leads, and follows again. Between two phases, the
//! process starts itself again, so that nothing of the phase before is left.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::settings::Arguments;
use crate::cli::Exit;

/// Argument with the phase.
const FLAG: &str = "--phase=";

/// A phase of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// True if it leads.
    pub leads: bool,
    /// True if it leaves other gateways the time of a lease before it leads.
    pub yields: bool,
    /// Address on which the process has listened before; `None` in its first phase.
    pub address: Option<String>,
}

impl Phase {
    /// Returns the phase in the arguments; the first one without it.
    ///
    /// # Errors
    /// Exit code 2 if it is malformed.
    pub fn of(arguments: &Arguments) -> Result<Phase, Exit> {
        let Some(text) = &arguments.phase else {
            return Ok(Phase { leads: false, yields: false, address: None });
        };
        let wrong = || Exit::input(format!("{FLAG}{text}: this argument is not for users"));
        let (name, address) = text.split_once(',').ok_or_else(wrong)?;
        let (leads, yields) = match name {
            "follow" => (false, false),
            "yield" => (false, true),
            "lead" => (true, false),
            _ => return Err(wrong()),
        };
        Ok(Phase { leads, yields, address: Some(address.into()) })
    }

    /// Returns the phase of a process that follows.
    pub fn follow(address: SocketAddr, yields: bool) -> Phase {
        Phase { leads: false, yields, address: Some(address.to_string()) }
    }

    /// Returns the phase of a process that leads.
    pub fn lead(address: SocketAddr) -> Phase {
        Phase { leads: true, yields: false, address: Some(address.to_string()) }
    }

    fn argument(&self) -> String {
        let name = match (self.leads, self.yields) {
            (true, _) => "lead",
            (false, true) => "yield",
            (false, false) => "follow",
        };
        format!("{FLAG}{name},{}", self.address.as_deref().unwrap_or_default())
    }
}

/// Returns the words of a command line with a phase, behind the name of the command.
fn with_phase(words: impl Iterator<Item = OsString>, phase: &Phase) -> Vec<OsString> {
    let mut kept: Vec<OsString> = words.filter(|word| !word.to_string_lossy().starts_with(FLAG)).collect();
    // Not at the end, where it could be an operand.
    let at = kept.iter().position(|word| word == "run").map_or(0, |at| at + 1);
    kept.insert(at, phase.argument().into());
    kept
}

/// Replaces the program of this process by itself in another phase. Returns only if this is not possible.
pub fn restart(phase: Phase) -> Exit {
    restart_with(phase, |words| words)
}

/// Does the same with other words, behind the name of the program.
pub fn restart_with(phase: Phase, change: impl FnOnce(Vec<OsString>) -> Vec<OsString>) -> Exit {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let words = change(with_phase(words, &phase));
    // The file of this program may have been replaced.
    let error = Command::new("/proc/self/exe").arg0(name).args(words).exec();
    Exit::store(format!("this program cannot be started again: {error}"))
}

/// Gives this process the name of its program again: a process that has started itself is called `exe`.
pub fn name_process() {
    let name = std::env::args_os().next().unwrap_or_default();
    if let Some(name) = Path::new(&name).file_name() {
        // It only matters to tools that look for the name.
        let _ = std::fs::write("/proc/self/comm", name.as_encoded_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_replaces_another_one_before_the_operands() {
        let words = ["run", "--phase=lead,127.0.0.1:1", "--follow", "URL", "--", "gateway.toml"];
        let phase = Phase::follow("127.0.0.1:9000".parse().unwrap(), true);
        let found = with_phase(words.into_iter().map(Into::into), &phase);
        let expected = ["run", "--phase=yield,127.0.0.1:9000", "--follow", "URL", "--", "gateway.toml"];
        assert_eq!(found, expected);
    }
}
