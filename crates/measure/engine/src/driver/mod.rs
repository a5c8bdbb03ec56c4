//! Executes a schedule against stores. It manages workers, connection slots, deadlines and drains; module
//! `recorder` counts the results.
//!
//! The [`coordinator`] sends the segments of a [`job`] to the workers; [`control`] can stop them early. A
//! [`worker`] is an OS thread with its own runtime, connections and recorder. In each worker, the dispatcher
//! ([`dispatch`]) releases operations when they are due, and one task per connection slot executes them
//! ([`operation`]). On the hot path the workers share only the counter that numbers the operations of a
//! closed loop.

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
mod nap;
pub mod never_started;
pub mod operation;
mod overlaps;
mod read_back;
pub mod request;
pub mod retry;
pub mod segment;
pub mod slots;
pub mod worker;
pub mod writers;

pub use control::{Control, RampId};
pub use coordinator::run;
pub use error::DriverError;
pub use job::{Job, Shard, Site, workers_for};
