//! Pure functions that compute the figures of `result.json` from the recorder's counts.
//!
//! [`window`] computes the figures of one window, [`percentiles`] its percentiles, and [`limits`] decides whether
//! the client was the bottleneck. [`merge`] merges several windows into one. [`ramp`] finds plateau and knee.
//! [`verdict`] words comparisons.
//! Nothing here reads a clock, a file or a store.

pub mod addresses;
pub mod arrangement;
pub mod background;
pub mod caches;
pub mod comparison;
pub mod confidence;
pub mod consistency;
pub mod contention;
pub mod disturbances;
pub mod estimates;
pub mod failures;
pub mod figure_selector;
pub mod groups;
pub mod holm;
pub mod latencies;
pub mod limits;
pub mod merge;
pub mod objective;
pub mod objective_result;
pub mod objectives;
pub mod paired;
pub mod percentiles;
pub mod power;
pub mod primary_figure;
pub mod ramp;
pub mod ranking;
pub mod result;
pub mod saturation;
pub mod sequential;
pub mod series;
pub mod shards;
pub mod size_classes;
pub mod size_range;
pub mod student;
pub mod sweeps;
pub mod unit;
pub mod uploads;
pub mod verdict;
pub mod window;
pub mod working_set;
