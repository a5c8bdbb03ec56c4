//! Synchronizes a directory with a store repeatedly, by Plimsoll and other tools in turn.
//!
//! Each loop starts with an empty target, because a second synchronization of the same data transfers nothing. The
//! time of a loop is the time that a user waits: listing both sides, then transferring the missing files.
//! Contenders take turns, and their order rotates from loop to loop, so that a machine that slows down favours none
//! of them.

pub mod contender;
pub mod files;
pub mod scratch;
pub mod tool;
