//! Test support for stores and the code that uses them: the conformance suite, and wrappers that inject faults.
//!
//! Measurements never use this module. It is public because integration tests link the library.

pub mod conformance;
#[cfg(test)]
pub mod faulty;
#[cfg(test)]
pub mod throttled;
