//! Backup of a catalog in a directory: the log, shipped to an object store while it grows.
//!
//! The log is the truth, and compaction keeps it small. So a backup is a copy of its segments: every few seconds, the
//! new bytes become an object of their own, a piece. The state of any time is the segments that were in use then, up to
//! the last group of that time; groups have the time in their last record. Nothing is copied twice.
//!
//! ```text
//! plimsoll-backup.json         format and id of the catalog
//! log/EPOCH/NUMBER             piece, created only if it does not exist
//! index/EPOCH-NUMBER           headers of the pieces up to this one
//! blobs/TIER/PATH              body of a tier that is a directory
//! ```
//!
//! Each start begins an epoch. It ends the epoch before with a piece that has no bytes, the fence: the process that
//! wrote in that epoch cannot create a piece of this number any more. The header of each piece has the digest of the
//! header before, so that no piece can be replaced or left out without a trace.
//!
//! `journal` decides in the same place who leads, so that a standby can follow and lead, and may have each group before
//! it is acknowledged; `age` encrypts all objects but `plimsoll-backup.json`. Uses `objects`; `maintenance` and
//! `gateway` use it.

pub mod age;
pub mod bodies;
pub mod error;
pub mod header;
pub mod history;
pub mod journal;
pub mod last;
pub mod marker;
pub mod once;
pub mod place;
pub mod plan;
pub mod prune;
pub mod prune_all;
pub mod restore;
pub mod rows;
pub mod running;
pub mod service;
pub mod ship;
#[cfg(test)]
mod tests;
pub mod verify;
