//! The foundation of all Plimsoll crates. It contains no knowledge of S3, prices or runs.
//!
//! - [`clock`] and [`rng`]: the only sources of time and randomness.
//! - [`files`]: files that others made, read with limits.
//! - [`units`] and [`text`]: numbers with units, and text that is safe to print; [`redaction`] removes secrets.
//! - [`net`]: HTTP connections with exact timestamps.
//! - [`machine`] and [`metrics`]: facts about this machine, and figures for monitoring systems.
//! - [`pages`]: a small HTTP server for the pages of a process.
//! - [`provider`]: facts about providers of object storage, as data.
//! - [`version`]: number, commit and target of the programs.

pub mod clock;
pub mod files;
pub mod machine;
pub mod median;
pub mod metrics;
pub mod net;
pub mod pages;
pub mod provider;
pub mod redaction;
pub mod rng;
pub mod text;
pub mod units;
pub mod version;
