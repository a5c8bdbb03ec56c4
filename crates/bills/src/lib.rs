//! What a workload or a bill costs, and where it would cost less. Uses `cost`, `judge` and `audit`; `report` and
//! `plimsoll` use it.
//!
//! - [`advise`]: candidates for a workload, measured and priced.
//! - [`explain`]: bills of providers, line by line, beside the price books.

pub mod advise;
pub mod explain;
