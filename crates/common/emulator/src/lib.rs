//! Object stores for tests and measurements: in memory, as slow as a store that was measured, and faulty on purpose.
//!
//! - [`memory`]: the service of `plimsoll serve`, which keeps objects in memory.
//! - [`twin`]: the times of a measured store.
//! - [`inject`], [`faults`], [`miss`]: which answers are delayed, damaged and refused, and how.
//!
//! Uses `server`; `plimsoll`, `calibration` and the tests of the clients use it.

pub mod faults;
pub mod inject;
pub mod memory;
pub mod miss;
mod token_bucket;
pub mod twin;
