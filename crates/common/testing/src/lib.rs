//! Assertions that the tests of several crates share, and the claims of documents that they check.

pub mod chi_square;
pub mod defaults;
