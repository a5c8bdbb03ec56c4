//! A run as it happens. Uses `session`; only `plimsoll` uses it.
//!
//! - [`screen`]: on the whole terminal.
//! - [`live_page`]: in a browser.

pub mod live_page;
pub mod screen;
