//! Plimsoll measures object stores with a known measurement error.
//!
//! The modules in the order in which a run passes through them:
//!
//! [`experiment`] (what to measure) -> [`workload`] and [`schedule`] (which operations, when) -> [`driver`] (lets them
//! loose on a [`store`]) -> [`recorder`] (counts) -> [`summary`] (figures) -> [`report`] (shows). [`s3`] is the wire
//! that the S3 store and the embedded [`server`] share; [`provider`] is what is known of each kind of store; [`machine`], [`clock`], [`rng`] and [`units`] stand below
//! everything; [`cli`] stands above. [`cost`] prices what was measured or is planned, [`advise`] says which store fits. [`import`] puts the logs of other tools through the same recorder.
#![deny(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod advise;
pub mod cost;
pub mod driver;
pub mod experiment;
pub mod import;
pub mod recorder;
pub mod report;
pub mod run_dir;
pub mod schedule;
pub mod summary;
pub mod workload;

pub mod net;
pub mod provider;
pub mod published;
pub mod s3;
pub mod server;
pub mod store;

pub mod clock;
pub mod machine;
pub mod metrics;
pub mod rng;
pub mod text;
pub mod units;

pub mod cli;
