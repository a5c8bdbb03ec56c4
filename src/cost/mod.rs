//! Prices and bills. A price [`book`] says what a provider asked when, with its source; at a date and in a region it becomes a
//! [`tariff::Tariff`]; a [`usage::Usage`] goes through one into a [`bill::Bill`]. All of it is pure: whatever is read or printed is
//! read and printed elsewhere.
//!
//! Amounts are whole picodollars ([`money::Usd`]), quantities whole bytes and requests: a bill is as exact as its prices. What has no
//! price is an error, never nothing.

pub mod bill;
pub mod bills;
pub mod blend;
pub mod book;
pub mod breakeven;
pub mod claims;
pub mod egress;
pub mod money;
pub mod of_run;
pub mod of_store;
pub mod tariff;
pub mod tiering;
pub mod usage;
pub mod workload;
