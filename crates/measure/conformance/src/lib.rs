//! Properties of a store beside its speed. Uses `session`; only `plimsoll` uses it.
//!
//! - [`probe`]: the features of a store, and the permissions of the credentials.
//! - [`fitness`]: the requirements of applications.

pub mod fitness;
pub mod probe;
