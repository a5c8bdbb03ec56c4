//! The nodes of a Slurm allocation, one `srun` step on each.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Carrier, LaunchError, Launcher, node_arguments, output};

/// A Slurm allocation: `salloc -N 8 plimsoll fleet run ...`, or the same in a script for `sbatch`.
pub struct Slurm {
    program: PathBuf,
    hosts: Vec<String>,
}

impl Slurm {
    /// Lists the nodes of the allocation in which this process runs; `nodes` limits the fleet to the first ones.
    ///
    /// # Errors
    /// [`LaunchError`] outside an allocation, or if it has fewer nodes.
    pub fn in_allocation(nodes: Option<u64>, program: &Path) -> Result<Slurm, LaunchError> {
        let list = std::env::var("SLURM_JOB_NODELIST").map_err(|_| {
            LaunchError::Nodes(
                "--on slurm: there is no allocation; start the command with salloc -N NODES, or in a script for \
                 sbatch -N NODES"
                    .into(),
            )
        })?;
        let names = output(Command::new("scontrol").args(["show", "hostnames", &list]))?;
        let mut hosts: Vec<String> =
            names.lines().map(|l| l.trim().to_string()).filter(|l| !l.is_empty()).collect();
        if let Some(nodes) = nodes {
            if nodes > hosts.len() as u64 {
                let text = format!("--nodes {nodes}: the allocation has {} nodes", hosts.len());
                return Err(LaunchError::Nodes(text));
            }
            hosts.truncate(nodes as usize);
        }
        Ok(Slurm { program: program.into(), hosts })
    }
}

impl Launcher for Slurm {
    fn nodes(&self) -> &[String] {
        &self.hosts
    }

    fn carriers(&self) -> Vec<Carrier> {
        let of = self.hosts.len() as u64;
        let carrier = |(node, host): (usize, &String)| {
            let mut command = Command::new("srun");
            // Each step has its own streams, so that long lines of different nodes do not mix. The steps overlap with
            // the step in which this command may run.
            command.args(["--nodes=1", "--ntasks=1", "--overlap", "--unbuffered", "--nodelist", host]);
            command.arg(&self.program).args(node_arguments(node as u64, of));
            Carrier { command, nodes: vec![node as u64] }
        };
        self.hosts.iter().enumerate().map(carrier).collect()
    }
}
