//! Servers with known times: what they show about the instrument, and how to make one from runs.
//!
//! - [`calibrate`]: compares the times that the client measures with the times in the log of a server.
//! - [`twin`]: makes the model of a measured store, which `plimsoll serve --like` imitates.
//!
//! Uses `session` and `emulator`; `plimsoll` uses it.

pub mod calibrate;
pub mod twin;
