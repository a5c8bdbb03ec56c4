//! Command-line tools that transfer whole directories: s5cmd and rclone.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Turn;
use super::batch::{Address, BatchOperation, DATASET, OperationBatch, Timed};
use crate::sync::tool::{quoted, run};
use plimsoll_base::clock::now_ns;
use plimsoll_base::machine::children_cpu_s;
use plimsoll_session::RunError;

/// A command-line tool.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Name of its program.
    pub name: &'static str,
    /// Version that the program printed.
    pub version: String,
    command: CommandOf,
}

/// Values from which the command of a tool is made, quoted for a shell.
struct Place<'a> {
    address: &'a Address,
    /// Bucket and prefix of the objects.
    remote: String,
    local: &'a Path,
    batch: &'a OperationBatch,
}

impl Place<'_> {
    /// Returns the source and the target, if the remote side has this scheme.
    fn sides(&self, scheme: &str, every: &str) -> (String, String) {
        let local = format!("{}/", self.local.display());
        match self.batch.operation {
            BatchOperation::Put => (quoted(&local), quoted(&format!("{scheme}{}", self.remote))),
            BatchOperation::Get => (quoted(&format!("{scheme}{}{every}", self.remote)), quoted(&local)),
        }
    }
}

fn s5cmd(place: &Place<'_>) -> String {
    let (source, target) = place.sides("s3://", "*");
    let (endpoint, workers) = (quoted(&place.address.endpoint), place.batch.concurrency);
    format!("s5cmd --endpoint-url {endpoint} --numworkers {workers} cp {source} {target}")
}

fn rclone(place: &Place<'_>) -> String {
    let (source, target) = place.sides(":s3:", "");
    let (endpoint, region) = (quoted(&place.address.endpoint), quoted(&place.address.region));
    let (transfers, style) = (place.batch.concurrency, place.address.has_path_style);
    // Without a comparison of times, every object is transferred again. The AWS SDK inside of rclone refuses the
    // variable with the authorities, which rclone takes as an option.
    format!(
        "ca=$AWS_CA_BUNDLE; unset AWS_CA_BUNDLE; rclone copy ${{ca:+--ca-cert \"$ca\"}} --config /dev/null --s3-provider Other --s3-env-auth --s3-endpoint {endpoint} --s3-region {region} \
         --s3-force-path-style={style} --s3-no-check-bucket --ignore-times --transfers {transfers} {source} {target}"
    )
}

/// Makes the command of a tool.
type CommandOf = fn(&Place<'_>) -> String;

/// All tools: name, argument that prints the version, and command.
const ALL: [(&str, &str, CommandOf); 2] = [("s5cmd", "version", s5cmd), ("rclone", "version", rclone)];

impl Tool {
    /// Returns the tool with this name if it is known and installed.
    pub fn find(name: &str) -> Option<Tool> {
        let (name, argument, command) = ALL.into_iter().find(|(known, ..)| *known == name)?;
        let asked = Command::new(name).arg(argument).stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&asked.stdout);
        let words = text.lines().next().unwrap_or_default().trim_start_matches(name);
        let version = words.trim().trim_start_matches('v').split('-').next().unwrap_or_default();
        asked.status.success().then(|| Tool { name, version: version.to_string(), command })
    }

    /// Executes a batch: the whole program, from its start to its end.
    ///
    /// # Errors
    /// [`RunError::Store`] if the program fails, or if it does not transfer every object.
    pub fn execute(&self, batch: &OperationBatch, turn: &Turn<'_>) -> Result<Timed, RunError> {
        let local = turn.files.join(if batch.operation == BatchOperation::Put { "source" } else { "target" });
        let failed = |e: std::io::Error| RunError::input(format!("{}: {e}", local.display()));
        if batch.operation == BatchOperation::Get {
            let _ = std::fs::remove_dir_all(&local);
            std::fs::create_dir_all(&local).map_err(failed)?;
        }
        let remote = format!("{}/{}{DATASET}/", turn.address.bucket, turn.space.root());
        let line = (self.command)(&Place { address: turn.address, remote, local: &local, batch });
        let (began_ns, cpu_s) = (now_ns(), children_cpu_s());
        let ended = run(&line, &turn.address.variables(), turn.control)
            .map_err(|e| RunError::input(format!("{}: {e}", self.name)))?;
        let timed = Timed {
            wall_ns: now_ns() - began_ns,
            cpu_ns: ((children_cpu_s() - cpu_s) * 1e9) as u64,
            latencies_ns: Vec::new(),
        };
        if !ended.status.success() {
            let (name, status, line) = (self.name, ended.status, ended.last_line);
            return Err(RunError::store(format!("{name}, {}: {status}: {line}", batch.operation.name())));
        }
        if batch.operation == BatchOperation::Get {
            let found = crate::sync::files::scan(&local).map_err(failed)?;
            let whole = found.iter().filter(|(_, size)| *size == batch.bytes).count() as u64;
            if whole != batch.objects {
                let message = format!("{}: read {whole} of {} objects", self.name, batch.objects);
                return Err(RunError::store(message));
            }
        }
        Ok(timed)
    }
}
