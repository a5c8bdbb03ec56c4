//! A file system in memory that knows which changes a power loss may take.
//!
//! A [`Disk`] has two trees: the tree that programs see, and the durable tree. Between them are the changes that
//! nobody has synced. [`rules`] decide which of them a sync makes durable, and which trees a power loss may leave.
//! [`mount`] attaches a disk to a directory, so that unchanged programs run on it.
//!
//! The disk is memory: it has no controller cache and no firmware, and a sync that it acknowledges is kept.

pub mod change;
pub mod content;
pub mod disk;
pub mod draws;
pub mod faults;
#[cfg(target_os = "linux")]
pub mod mount;
pub mod rules;
pub mod tree;

pub use disk::Disk;
pub use faults::DiskFaults;
pub use rules::Model;
