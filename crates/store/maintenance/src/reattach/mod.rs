//! Finds objects in the tiers that the catalog does not know, and attaches them: after a catalog was lost, or restored
//! from a backup.
//!
//! Every blob has a trailer that describes its object, and pack files describe their objects themselves. A version that
//! the catalog has, or whose bytes it has had, stays as it is in the catalog.

pub mod attach;
pub mod attached;
pub mod inventory;
#[cfg(test)]
mod tests;

use plimsoll_server::error::ApiError;

use plimsoll_bodies::error::BlobError;
use plimsoll_catalog::CatalogError;

/// Reason why objects cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum ReattachError {
    /// A tier has failed.
    #[error("tier {tier}: {error}")]
    Tier {
        /// Name of the tier.
        tier: String,
        /// Reason of the tier.
        error: BlobError,
    },
    /// The catalog has failed.
    #[error("{0}")]
    Catalog(ApiError),
    /// The catalog cannot be read.
    #[error("{0}")]
    Read(#[from] CatalogError),
}
