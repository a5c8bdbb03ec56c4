//! The program `plimsoll-gateway`: a durable S3 object store over a directory or several tiers.
//!
//! The settings, the commands, the console, metrics and alerts, and the moves of a catalog between engines. Uses all
//! rooms of the store; only the program and `package` use it.

pub mod alerts;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod metrics;
pub mod migrate;
pub mod overview;
