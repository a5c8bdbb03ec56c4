//! Costs of workloads and bills, and where they would be less. Uses `cost`, `judge` and `audit`; `report`, `clients`
//! and `plimsoll` use it.
//!
//! - [`advise`]: candidates for a workload, measured and priced.
//! - [`explain`]: bills of providers, line by line, beside the price books.

pub mod advise;
pub mod explain;
