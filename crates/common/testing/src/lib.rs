//! Assertions that the tests of several crates share, the claims of documents that they check, and directories and a
//! database for tests.

#![allow(clippy::print_stderr)]

pub mod chi_square;
pub mod defaults;
pub mod directory;
pub mod postgres;
