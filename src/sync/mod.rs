//! Synchronizes a directory and a store, again and again, by Plimsoll and by other tools in turn.
//!
//! Each loop starts with an empty target, because a second synchronization of the same data moves nothing. A loop's time is the time that a
//! user waits: listing both sides, then transferring the missing files. Contenders take turns, and their order shifts from loop to
//! loop, so that a machine that slows down favours none.

pub mod contender;
pub mod files;
pub mod scratch;
mod tool;
