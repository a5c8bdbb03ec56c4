//! Support for tests of stores and of code that uses them: the conformance suite, and wrappers that misbehave on purpose.
//!
//! Nothing that measures uses this module. Integration tests link the library, so it is public.

pub mod conformance;
#[cfg(test)]
pub mod faulty;
#[cfg(test)]
pub mod throttled;
