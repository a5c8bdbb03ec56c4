//! The run directory: the files that a run writes and every report reads.
//!
//! [`directory`] creates and finishes it, [`environment`] and [`json`] read and write `environment.json` and
//! `result.json`, [`intervals`] and [`operations`] append to the Arrow logs, [`read`] and [`seconds`] read them,
//! [`run`] represents a complete run in memory. Presentation is in `report`.

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
mod stream;
pub mod write;
