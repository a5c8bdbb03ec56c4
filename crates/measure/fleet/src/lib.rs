//! A fleet: one experiment on several nodes, each of which executes one shard.
//!
//! A [`launcher`] starts `plimsoll fleet node` on every node: with ssh, in a Slurm allocation, on a Ray cluster or in
//! the pods of a Kubernetes Job. All of them connect standard input and output of the nodes with the [`coordinator`],
//! so the engines need no port, no daemon and no shared file system. Both sides exchange [`message`]s, one JSON
//! object per line. A [`node`] executes the same code as `plimsoll run --shard`; the coordinator tells it when to
//! start, because only the coordinator knows when all nodes have prepared their objects and how far their clocks
//! differ. Uses `session`; only `plimsoll` uses it.

pub mod budget;
pub mod clocks;
pub mod collect;
pub mod consistency;
pub mod coordinator;
pub mod launcher;
pub mod live;
pub mod message;
pub mod node;
pub mod preflight;
pub mod ramps;
