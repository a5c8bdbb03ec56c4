//! Work on stored objects that no client waits for. Uses `objects` and `backup`; `gateway` and `simulation` use it.
//!
//! - `background`: the loops, expiry, and the deletion of bytes that no row needs.
//! - `mover`: moves between tiers, pack files.
//! - `plan`: what moves would do and cost, for a store, or for a listing of a bucket.
//! - `scrub`: verification of everything that is stored.
//! - `sweep`, `reattach`: objects of tiers that no row knows.
//! - `adoption`: buckets that exist already.
//! - `whereabouts`: where an object is, and what will happen to it.

pub mod adoption;
pub mod background;
pub mod mover;
pub mod plan;
pub mod reattach;
pub mod scrub;
pub mod sweep;
pub mod whereabouts;
