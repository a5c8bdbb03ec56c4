//! Plimsoll measures object stores with a known measurement error.
//!
//! A run passes through these crates in order:
//!
//! 1. `plimsoll-experiment` reads the description of the run, and `plimsoll-workload` determines the operations and
//!    their intended times.
//! 2. `plimsoll-engine` executes them against a store.
//! 3. `plimsoll-recorder` counts operations, bytes and latencies.
//! 4. `plimsoll-judge` stores and judges the results, and `plimsoll-report` renders them.
//!
//! [`session`] carries out these steps for the [`cli`] and for programs that use the library.

pub mod cli;

pub use plimsoll_session as session;
