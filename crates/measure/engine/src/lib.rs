//! Executes schedules against object stores. It knows neither results nor prices.
//!
//! - [`store`]: the interface to object stores, and its implementations.
//! - [`driver`]: workers that execute the operations of a schedule at their intended times.
//! - [`consistency`]: clients of shared keys, and the check of their histories.

pub mod consistency;
pub mod driver;
pub mod store;
