//! Bodies of objects that do not fit into the catalog: blobs and pack files, and the tiers that have them.
//!
//! `tier` opens the stores of bodies and counts their requests, `pricing` has their prices. Uses `catalog`, `cost` and
//! the client of S3; `objects`, `backup`, `maintenance` and `gateway` use it.

pub mod blob;
pub mod cache;
pub(crate) mod chunks;
pub mod error;
pub mod location;
pub mod name;
pub mod pack_file;
pub mod pricing;
pub mod read_memory;
pub mod reader;
pub mod slices;
pub mod tier;
pub mod trailer;
pub mod writer;
