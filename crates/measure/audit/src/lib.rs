//! Evidence of run directories: of others, and of earlier times. Uses `judge`; `bills`, `report` and `plimsoll` use it.
//!
//! - [`audit`]: a run against the rules of fair measurement.
//! - [`history`]: runs over time, and the changes between them.
//! - [`import`]: logs of other tools, through recorder and summary.
//! - [`verify`]: the figures of a run, computed again from its logs.

pub mod audit;
pub mod history;
pub mod import;
pub mod verify;
