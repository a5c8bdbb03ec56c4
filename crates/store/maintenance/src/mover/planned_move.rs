//! A move as planned, its results and its errors.

use std::sync::Arc;

use plimsoll_server::error::ApiError;

use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::trailer::length_of_pack_file;
use plimsoll_catalog::CatalogError;
use plimsoll_objects::error::unavailable;

/// A blob to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Name of the blob.
    pub blob: BlobName,
    /// Size in bytes.
    pub size: u64,
    /// Version of the blob's row when the move was planned.
    pub version: u64,
    /// Number of the tier that receives the blob.
    pub to: u16,
    /// Milliseconds for which the source stays.
    pub keep_source_ms: u64,
    /// Object that the copy describes; `None` for a pack file.
    pub object: Option<DescribedObject>,
}

/// An object whose blob moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedObject {
    /// Key of the object's row.
    pub catalog_key: Vec<u8>,
    /// Name of the bucket.
    pub bucket: Arc<str>,
    /// Key of the object.
    pub key: Box<str>,
    /// Length of the trailer of the copy in bytes.
    pub trailer: u64,
    /// Time of the object's last modification in Unix milliseconds.
    pub modified_ms: u64,
}

impl Move {
    /// Returns the length of the trailer of the copy in bytes.
    pub fn trailer(&self) -> u64 {
        self.object.as_ref().map_or_else(|| length_of_pack_file(self.size), |object| object.trailer)
    }
}

/// Result of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Reads use the destination.
    Moved,
    /// The blob or its object has changed since the move was planned; what the move has written will be deleted.
    Changed,
    /// The source of a rollback does not exist any more, so reads stay with the copy.
    SourceMissing,
}

/// Reason why a move has failed. The source stays as it is, and what the move has written will be deleted.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The catalog has failed.
    #[error("{0}")]
    Catalog(ApiError),
    /// A tier has failed, or its bytes are damaged.
    #[error("{0}")]
    Blob(#[from] BlobError),
}

impl From<CatalogError> for MoveError {
    fn from(error: CatalogError) -> MoveError {
        MoveError::Catalog(unavailable(&error))
    }
}
