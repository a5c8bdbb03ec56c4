//! Consistency under load: clients read, write, delete and list shared keys, and every history of a key is checked.
//!
//! [`clients`] sends the requests and records a [`history`] for each key. [`linearizable`] decides whether a history
//! has a valid order, [`blame`] finds the guarantees ([`guarantee`]) that explain one that has none, [`shortest`]
//! reduces it to the operations that prove it, [`lag`] measures how late writes become visible, and [`findings`] sums
//! the results up.
//! S3 guarantees linearizable operations on single keys since December 2020 (Amazon S3 User Guide, "Amazon S3 data
//! consistency model").
//!
//! Uses `engine`; `fleet`, `calibration` and `plimsoll` use it.

pub mod blame;
pub mod clients;
pub mod findings;
pub mod guarantee;
pub mod history;
pub mod lag;
pub mod linearizable;
pub mod run;
pub mod shortest;
