//! Runs a schedule against stores: workers, connection slots, deadlines, drains. It counts nothing; the recorder does.
//!
//! [`coordinator`] sends the segments of a [`job`] to the workers, which [`control`] can stop. A worker is an OS thread with its own
//! runtime, connections and recorder ([`worker`]). In a worker, a dispatcher hands out operations when they are due ([`dispatch`]), and
//! one task per connection slot executes them ([`operation`]). The workers share one thing on the hot path: the counter that numbers the
//! operations of a closed loop.

pub mod attempt;
pub mod background;
pub mod clean;
pub mod compound;
pub mod content;
pub mod context;
pub mod control;
pub mod coordinator;
pub mod dispatch;
pub mod error;
pub mod job;
pub mod multipart;
pub mod operation;
pub mod records;
pub mod segment;
pub mod slots;
pub mod worker;

pub use control::{Control, RampId};
pub use coordinator::run;
pub use error::DriverError;
pub use job::{Job, Shard, Site, workers_for};
