//! Computes results from the counts of a run, and judges them. Every judgement needs only run directories, so it can be
//! repeated without another measurement. Uses `recorder`; `audit`, `bills`, `report` and `plimsoll` use it.
//!
//! - [`summary`]: figures, confidence intervals, comparisons and objectives, as pure functions.
//! - [`run_dir`]: reads and writes run directories.

pub mod run_dir;
pub mod summary;
