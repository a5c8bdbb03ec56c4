//! Reasons why a blob cannot be written or read.

use std::time::Duration;

use plimsoll_catalog::disk::ballast;

/// Reason why a blob cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The backend failed.
    #[error("{0}")]
    Store(#[from] object_store::Error),
    /// A tier has not taken the bytes of a new blob.
    #[error("tier {tier}: {error}")]
    Write {
        /// Name of the tier.
        tier: String,
        /// Error of its backend.
        error: object_store::Error,
    },
    /// The bytes are not those that were written.
    #[error("blob {name} is damaged at offset {offset}")]
    Damaged {
        /// Name of the blob.
        name: String,
        /// Offset in bytes.
        offset: u64,
    },
    /// The tier has lost the record of its owner, so that it is not the place in which the bytes are.
    #[error("tier {0} has no record of its owner: its disk is not mounted, or somebody has replaced it")]
    NoRecord(String),
    /// The settings do not have the tier with this number.
    #[error("tier number {0} is not in the settings")]
    NoTier(u16),
    /// The backend has not answered in the time that a read waits if another place has the bytes.
    #[error("no answer in {} ms", .0.as_millis())]
    Silent(Duration),
    /// A file of the backend cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl BlobError {
    /// Returns true if nothing is known about the bytes, because the tier does not answer or is not in the settings.
    pub fn is_unavailable(&self) -> bool {
        match self {
            BlobError::Store(error) => !matches!(error, object_store::Error::NotFound { .. }),
            BlobError::Write { .. }
            | BlobError::NoRecord(_)
            | BlobError::NoTier(_)
            | BlobError::Io(_)
            | BlobError::Silent(_) => true,
            BlobError::Damaged { .. } => false,
        }
    }

    /// Returns true if the backend may still answer.
    pub fn is_silence(&self) -> bool {
        matches!(self, BlobError::Silent(_))
    }

    /// Returns true if the bytes do not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, BlobError::Store(object_store::Error::NotFound { .. }))
    }

    /// Returns true if the backend has no space left.
    pub fn is_full(&self) -> bool {
        let mut source: Option<&dyn std::error::Error> = match self {
            BlobError::Store(error) | BlobError::Write { error, .. } => Some(error),
            BlobError::Io(error) => Some(error),
            BlobError::Damaged { .. }
            | BlobError::NoRecord(_)
            | BlobError::NoTier(_)
            | BlobError::Silent(_) => None,
        };
        while let Some(error) = source {
            if error.downcast_ref().is_some_and(ballast::is_full) {
                return true;
            }
            source = error.source();
        }
        false
    }
}
