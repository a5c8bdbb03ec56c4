//! Bodies of objects that do not fit into the catalog.

pub mod blob;
pub mod cache;
pub(crate) mod chunks;
pub mod error;
pub mod location;
pub mod name;
pub mod pack_file;
pub mod read_memory;
pub mod reader;
pub mod slices;
pub mod trailer;
pub mod writer;
