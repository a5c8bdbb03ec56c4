//! Executes schedules against object stores. It knows neither results nor prices.
//!
//! - [`store`]: the interface to object stores, and its implementations.
//! - [`driver`]: workers that execute the operations of a schedule at their intended times.
//!
//! Uses `workload` and `recorder`; `consistency`, `session` and what is above them use it.

pub mod driver;
pub mod store;
