//! Enables one set of features of the dependencies that `plimsoll` and `plimsoll-gateway` share. It contains no code.
//!
//! Cargo builds a dependency twice if two builds enable different features of it, and then everything that uses it.
