//! Bodies of objects that do not fit into the catalog.

pub mod blob;
pub mod location;
