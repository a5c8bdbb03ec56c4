//! Other programs as clients. Uses `session`; `plimsoll` uses it.
//!
//! - [`clients`]: operations of other clients beside those of this one.
//! - [`meter`]: the requests of a program and their cost.
//! - [`sync`]: copies of directories with other tools.

pub mod clients;
pub mod meter;
pub mod sync;
