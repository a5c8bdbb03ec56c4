//! Plimsoll measures object stores with a known measurement error.
//!
//! A run passes through these modules in order:
//!
//! 1. [`experiment`] parses the description of the run.
//! 2. [`workload`] and [`schedule`] determine the operations and their intended times.
//! 3. [`driver`] executes them against a [`store`].
//! 4. [`recorder`] counts operations, bytes and latencies, and [`run_dir`] stores them.
//! 5. [`summary`] computes the results, and [`report`] renders them.
//!
//! [`session`] carries out these steps for the [`cli`] and for programs that use the library. Other modules:
//!
//! - [`s3`]: the wire format that the S3 store and the embedded [`server`] share, on top of [`net`].
//! - [`provider`]: profiles of the kinds of stores.
//! - [`cost`] computes bills, [`advise`] recommends a store, and [`published`] contains benchmark results
//!   that others have published.
//! - [`import`] feeds the logs of other tools into the same recorder.
//! - [`screen`] shows a run on the whole terminal.
//! - [`fleet`] runs an experiment on several nodes with existing engines.
//! - [`calibrate`], [`consistency`], [`probe`] and [`sync`] implement the commands of the same name.
//! - [`machine`], [`clock`], [`rng`], [`text`], [`units`] and [`metrics`] are the foundation of the others.
#![deny(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod advise;
pub mod calibrate;
pub mod consistency;
pub mod cost;
pub mod driver;
pub mod experiment;
pub mod fit;
pub mod fleet;
pub mod history;
pub mod import;
pub mod logs;
pub mod probe;
pub mod recorder;
pub mod report;
pub mod run_dir;
pub mod schedule;
pub mod screen;
pub mod session;
pub mod summary;
pub mod sync;
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
