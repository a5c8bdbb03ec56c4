//! Plimsoll measures object stores with a known measurement error.
//!
//! A run passes through these crates in order:
//!
//! 1. `plimsoll-workload` parses the description of the run and determines the operations and their intended times.
//! 2. `plimsoll-engine` executes them against a store.
//! 3. `plimsoll-recorder` counts operations, bytes and latencies.
//! 4. `plimsoll-judge` stores and judges the results, and renders them.
//!
//! [`session`] carries out these steps for the [`cli`] and for programs that use the library. Other modules:
//!
//! - [`screen`] shows a run on the whole terminal.
//! - [`fleet`] runs an experiment on several nodes with existing engines.
//! - [`twin`] makes the model of a measured store, which `plimsoll serve --like` imitates.
//! - [`calibrate`], [`canary`], [`clients`], [`meter`], [`probe`] and [`sync`] implement the commands of the same name.

pub mod calibrate;
pub mod canary;
pub mod cli;
pub mod clients;
#[cfg(target_os = "linux")]
pub mod durability;
pub mod fitness;
pub mod fleet;
pub mod live_page;
pub mod meter;
pub mod probe;
pub mod screen;
pub mod session;
pub mod sync;
pub mod twin;
