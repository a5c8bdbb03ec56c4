//! Computes results from the counts of a run, and judges them. Every judgement needs only run directories, so it can be
//! repeated without another measurement.
//!
//! - [`summary`]: figures, confidence intervals, comparisons and objectives, as pure functions.
//! - [`run_dir`]: reads and writes run directories.
//! - [`import`]: logs of other tools, through recorder and summary.
//! - [`history`]: runs over time.
//! - [`advise`]: candidates for a workload.
//! - [`report`]: reports for terminals, browsers and programs.
//! - [`verify`]: the figures of a run, computed again from its logs.

pub mod advise;
pub mod audit;
pub mod explain;
pub mod history;
pub mod import;
pub mod report;
pub mod run_dir;
pub mod summary;
pub mod verify;
