//! The journal: with `durability = "tier"`, each group of the log is stored as one object before it is acknowledged, so
//! the machine may be lost. With `durability = "local"`, entries have no groups, and only keep the lease.
//!
//! ```text
//! journal/EPOCH/NUMBER         entry: one group of the log or none, created only if it does not exist
//! ```
//!
//! Entries are like the pieces of a backup, in the same place: each start ends the epoch before with an entry without
//! bytes, the fence. A group with an entry is acknowledged when this entry and all entries before it exist. An entry is
//! deleted when a piece of the backup has its group, except the last ones of an epoch in use.
//!
//! The journal is also the lease of its writer. It leads for a time after it began to send an entry that was created
//! behind all others; without groups it creates empty entries. Another process waits for this time since it has seen
//! the last entry, and then creates the fence. So clocks must only run equally fast.

pub mod directory;
pub mod end;
pub mod entry;
pub mod follow;
pub mod price;
pub mod request;
pub mod sender;
pub mod start;
pub mod take_over;
#[cfg(test)]
mod tests;
mod writers;
