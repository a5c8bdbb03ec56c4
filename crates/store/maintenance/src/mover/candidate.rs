//! A body that waits to be written into a pack file.

use std::sync::Arc;

use plimsoll_objects::row::Body;

/// An object whose body is to be written into a pack file.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Key of the object's row.
    pub catalog_key: Vec<u8>,
    /// Name of the bucket.
    pub bucket: Arc<str>,
    /// Key of the object.
    pub key: Box<str>,
    /// Generation of the object.
    pub generation: u64,
    /// Place of the body.
    pub body: Body,
    /// Size of the body in bytes.
    pub size: u64,
    /// Length of its record in the pack file in bytes.
    pub record: u64,
    /// Length in bytes of the trailer of the blob that has the body.
    pub trailer: u64,
    /// Time of the object's last modification in Unix milliseconds.
    pub modified_ms: u64,
    /// Milliseconds for which a blob with the body stays after the object refers to the pack file.
    pub keep_source_ms: u64,
}
