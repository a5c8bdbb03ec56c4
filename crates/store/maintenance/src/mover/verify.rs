//! The second reading of a copy, before anything refers to it.

use std::sync::Arc;

use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::Location;
use plimsoll_catalog::Catalog;
use plimsoll_catalog::guard::{self, Guard};
use plimsoll_objects::Store;

/// Reads the blob at a location and compares its bytes with the checksums.
///
/// # Errors
/// If the tier fails or the bytes differ.
pub async fn verify_blob<C: Catalog>(
    store: &Store<C>,
    location: &Location,
    size: u64,
    crcs: &Arc<[u32]>,
) -> Result<(), BlobError> {
    if !guard::is_made(Guard::Verification) {
        return Ok(());
    }
    // A blob without bytes has no checksums. For it, `open` is a HEAD request, which finds out if it exists.
    let mut reader = store.blobs.open(location, size, Arc::clone(crcs), 0..size).await?;
    // The reader compares the checksum of each piece before returning the piece, so reading is the comparison.
    while reader.next().await?.is_some() {}
    Ok(())
}
