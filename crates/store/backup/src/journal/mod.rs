//! The journal: each group of the log is stored as one object before it is acknowledged, so the machine may be lost.
//!
//! ```text
//! journal/EPOCH/NUMBER         entry: one group of the log, created only if it does not exist
//! ```
//!
//! Entries are like the pieces of a backup, in the same place: each start ends the epoch before with an entry without
//! bytes, the fence. A group is acknowledged when its entry and all entries before it exist. An entry is deleted when a
//! piece of the backup has its group.
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
