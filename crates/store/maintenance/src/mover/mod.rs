//! Moves of bodies: blobs between tiers, and small bodies into pack files.
//!
//! INTENT: a transaction records the destination before its first byte is written. COPIED: the bytes are at the
//! destination, and their checksums are those in the catalog. VERIFIED: the destination was read back. SWITCHED: one
//! transaction, which needs the intent and an unchanged row, makes the destination the first place of the blob, and
//! puts the source on the list of bytes to delete, at the end of the rollback window. REAPED: the source is deleted.
//! Bytes that the destination has already need no intent and no copy. Repeating a step changes nothing. A move changes
//! no row of an object, and packing only the place of the body in it, so entity tags and times stay.

mod blob_move;
pub mod budget;
pub mod candidate;
pub mod condition;
mod describe;
pub mod kept;
pub mod limits;
pub mod pack;
pub mod pack_reader;
#[cfg(test)]
mod pack_tests;
pub mod pass;
mod planned_move;
pub mod rewrite;
mod rollback;
pub mod rules;
pub mod scan;
pub mod survey;
mod switch;
#[cfg(test)]
mod tests;
pub mod transition;
mod verify;

pub use self::blob_move::{execute, give_up_unfinished};
pub use self::planned_move::{Move, MoveError, Outcome};
pub use self::rollback::{reversible, roll_back};
