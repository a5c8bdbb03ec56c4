//! From sums to figures: pure functions from what the recorder counted to what `result.json` says.
//!
//! [`window`] makes one window's figures, [`latency`] its percentiles, [`limits`] decides whether the client was the limit; [`merge`]
//! makes one window of several, [`ramp`] finds plateau and knee.
//! Nothing here touches a clock, a file or a store.

pub mod comparison;
pub mod confidence;
pub mod consistency;
pub mod estimates;
pub mod latency;
pub mod limits;
pub mod merge;
pub mod objective;
pub mod ramp;
pub mod result;
pub mod series;
pub mod shards;
pub mod side;
pub mod uploads;
pub mod window;
