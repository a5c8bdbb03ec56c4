//! Plimsoll measures object stores with a known measurement error.
pub mod clock;
pub mod rng;
pub mod units;
pub mod s3;
pub mod store;
pub mod server;
