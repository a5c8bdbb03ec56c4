//! Discards what a row refers to, when the row is replaced or deleted.

use super::garbage::discard_blob;
use super::live;
use super::row::{Body, Head, Piece, Properties};
use plimsoll_catalog::{CatalogError, Row, Transaction, intact};

/// Puts the blobs of a row on the list of garbage, and releases its pack file. The bytes are garbage from `at_ms` on,
/// in Unix milliseconds.
pub fn discard_row(t: &mut dyn Transaction, head: &Head, row: &Row, at_ms: u64) -> Result<(), CatalogError> {
    match &head.body {
        Body::Inline => Ok(()),
        Body::Blob(name) => discard_blob(t, name, at_ms),
        Body::Slice(slice) => live::release(t, slice, at_ms),
        Body::Pieces => {
            let value = match t.value(row) {
                // An object with damaged properties can be replaced. Its blobs stay, and so do their rows.
                Err(CatalogError::Damaged { .. }) => return Ok(()),
                value => value?,
            };
            let properties = intact(Properties::decode(&value.properties))?;
            properties.pieces.iter().try_for_each(|piece| discard_piece(t, piece, at_ms))
        }
    }
}

/// Puts the blob of a piece on the list of garbage, which it is from `at_ms` on, in Unix milliseconds.
pub fn discard_piece(t: &mut dyn Transaction, piece: &Piece, at_ms: u64) -> Result<(), CatalogError> {
    match piece {
        Piece::Inline(_) => Ok(()),
        Piece::Blob(name, _) => discard_blob(t, name, at_ms),
    }
}
