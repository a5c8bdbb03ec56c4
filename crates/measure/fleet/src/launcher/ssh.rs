//! Hosts in a file, reached with ssh. Plimsoll must be installed on each of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Carrier, LaunchError, Launcher, node_arguments};

/// Hosts that ssh can reach without a password.
pub struct Ssh {
    program: PathBuf,
    hosts: Vec<String>,
}

/// Returns the hosts in the text of a file: one per line, without empty lines and comments. A host is what ssh accepts:
/// a name, an address, an alias of its configuration, or `user@host`.
fn parse(text: &str) -> Result<Vec<String>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let hosts: Vec<String> = lines.filter(|line| !line.is_empty()).map(str::to_string).collect();
    // A host that begins with a hyphen would be an option of ssh.
    let fit = |b: u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'@' | b':' | b'[' | b']' | b'%')
    };
    match hosts.iter().find(|host| host.starts_with('-') || !host.bytes().all(fit)) {
        Some(wrong) => {
            Err(format!("'{wrong}' is not a host; write one host per line, such as user@10.0.0.7"))
        }
        None if hosts.is_empty() => Err("the file names no host; write one host per line".into()),
        None => Ok(hosts),
    }
}

impl Ssh {
    /// Reads the hosts file; `nodes` limits the fleet to the first hosts.
    ///
    /// # Errors
    /// [`LaunchError::Hosts`] if the file cannot be read, names no host, or fewer hosts than nodes.
    pub fn read(path: &str, nodes: Option<u64>, program: &Path) -> Result<Ssh, LaunchError> {
        let problem = |reason: String| LaunchError::Hosts { path: path.into(), reason };
        let text = std::fs::read_to_string(path)
            .map_err(|e| problem(format!("{e}; name a file with one host per line")))?;
        let mut hosts = parse(&text).map_err(problem)?;
        if let Some(nodes) = nodes {
            if nodes > hosts.len() as u64 {
                return Err(problem(format!(
                    "the file names {} hosts, fewer than --nodes {nodes}",
                    hosts.len()
                )));
            }
            hosts.truncate(nodes as usize);
        }
        Ok(Ssh { program: program.into(), hosts })
    }
}

impl Launcher for Ssh {
    fn nodes(&self) -> &[String] {
        &self.hosts
    }

    fn carriers(&self) -> Vec<Carrier> {
        let of = self.hosts.len() as u64;
        let carrier = |(node, host): (usize, &String)| {
            let mut command = Command::new("ssh");
            // Without a terminal and a password prompt; ssh notices a dead host after 30 s.
            command.args([
                "-T",
                "-o",
                "BatchMode=yes",
                "-o",
                "ServerAliveInterval=10",
                "-o",
                "ServerAliveCountMax=3",
            ]);
            command.arg(host).arg("--").arg(&self.program).args(node_arguments(node as u64, of));
            Carrier { command, nodes: vec![node as u64] }
        };
        self.hosts.iter().enumerate().map(carrier).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_and_options_are_refused() {
        assert_eq!(parse("a # first\n\n user@10.0.0.7 \n").unwrap(), ["a", "user@10.0.0.7"]);
        for wrong in ["", "# none", "-oProxyCommand=x", "a b", "a;b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
