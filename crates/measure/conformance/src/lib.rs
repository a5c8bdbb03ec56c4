//! Properties of a store beside its speed. Uses `session`; only `plimsoll` uses it.
//!
//! - [`probe`]: the features of a store, and the permissions of the credentials.
//! - [`fitness`]: the requirements of applications.
//! - [`durability`]: what a server has after its power has failed.

#[cfg(target_os = "linux")]
pub mod durability;
pub mod fitness;
pub mod probe;
