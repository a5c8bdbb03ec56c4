//! The run directory: the files that a run writes and every report reads.
//!
//! [`directory`] creates and finishes it, [`environment`] and [`json`] read and write `environment.json` and
//! `result.json`, [`intervals`] and [`operations`] append to the Arrow logs, [`read`] and [`seconds`] read them,
//! [`sums`] lists the checksums of the files, [`run`] represents a complete run in memory. Presentation is in `report`.

/// Maximum length of a text file of a run in bytes; results of sweeps with thousands of combinations are shorter.
pub const MAX_TEXT: u64 = 64 << 20;

/// Name of the HTML report of a run, which follows from the other files.
pub const REPORT: &str = "report.html";

pub mod comparable;
pub mod directory;
pub mod environment;
pub mod intervals;
pub mod json;
pub mod merge;
pub mod operations;
pub mod read;
pub mod run;
pub mod seconds;
pub mod size_log;
mod stream;
pub mod sums;
pub mod write;
