//! Assertions that the tests of several crates share.

pub mod chi_square;
