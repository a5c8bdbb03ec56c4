//! Ownership of tiers: a catalog has an id and a position, and each tier has a record with both.
//!
//! The leader advances the position while objects change, first in the catalog and then in the tiers. So a tier with
//! the id of another catalog is foreign, and a tier with a later position has seen a newer state of the catalog: the
//! catalog was restored, or has lost its end. Then nothing may be moved or deleted, because the tier has bytes that the
//! catalog does not know.

pub mod buckets;
pub mod claim;
pub mod keeper;
pub mod record;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use plimsoll_base::net::encode::hex;

use crate::keys;
use plimsoll_bodies::name::{CatalogId, new_name};
use plimsoll_catalog::codec::{Reader, put_number};
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{Catalog, CatalogError, Transaction, intact, unless_in_doubt};

/// Id of a catalog, and the position that it has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Id of the catalog.
    pub id: CatalogId,
    /// Number of times that the leader has announced changes.
    pub position: u64,
    /// Unix time in milliseconds of the last announcement by a clock that was right; 0 if it is unknown.
    pub at_ms: u64,
}

impl Identity {
    /// Returns an identity with this id, at an unknown position; `None` for another text.
    pub fn of_text(id: &str) -> Option<Identity> {
        let digits = (id.len() == 32).then(|| u128::from_str_radix(id, 16).ok()).flatten()?;
        Some(Identity { id: digits.to_be_bytes(), position: 0, at_ms: 0 })
    }

    /// Returns the id as text.
    pub fn text(&self) -> String {
        hex(&self.id)
    }

    fn encode(self) -> Bytes {
        let mut out = self.id.to_vec();
        put_number(&mut out, self.position);
        put_number(&mut out, self.at_ms);
        out.into()
    }

    /// Decodes the row of the identity; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Identity> {
        let mut reader = Reader(bytes);
        let (id, position) = (reader.array()?, reader.number()?);
        // Rows of earlier versions have no time.
        let at_ms = if reader.0.is_empty() { 0 } else { reader.number()? };
        Some(Identity { id, position, at_ms })
    }
}

/// Returns the identity of a catalog in a transaction; `None` before it has one.
///
/// # Errors
/// If the catalog cannot be read.
pub fn of_transaction(t: &mut dyn Transaction) -> Result<Option<Identity>, CatalogError> {
    // After a lost record, the position is too low, and the tiers contradict it (`Claim::Newer`).
    t.last_known(keys::IDENTITY)?.map(|row| intact(Identity::decode(&row.head))).transpose()
}

/// Writes the identity of a catalog.
pub fn put(t: &mut dyn Transaction, identity: Identity) {
    // Nothing is deleted before the position is announced, also on a full disk.
    t.use_reserve();
    t.put(keys::IDENTITY.to_vec(), head_only(identity.encode()));
}

/// Returns the identity of a catalog; `None` before it has one, or if its record is lost.
///
/// # Errors
/// If the catalog cannot be read.
pub fn read(catalog: &impl Catalog) -> Result<Option<Identity>, CatalogError> {
    let row = unless_in_doubt(catalog.get(keys::IDENTITY))?;
    row.map(|row| intact(Identity::decode(&row.head))).transpose()
}

/// Returns the identity of a catalog, which gets one if it has none.
///
/// # Errors
/// If the catalog fails, or its identity may be lost.
pub async fn identify<C: Catalog>(catalog: &C) -> Result<Identity, CatalogError> {
    if let Some(identity) = read(catalog)? {
        return Ok(identity);
    }
    let found = Arc::new(Mutex::new(Identity { id: new_name(), position: 0, at_ms: 0 }));
    let of_work = Arc::clone(&found);
    let work = Box::new(move |t: &mut dyn Transaction| {
        let mut found = of_work.lock().unwrap_or_else(PoisonError::into_inner);
        match of_transaction(t)? {
            // Another process may have given the catalog its id since.
            Some(known) => *found = known,
            None => {
                // A new id in place of a lost one would make all tiers foreign.
                t.check_absent(keys::IDENTITY)?;
                put(t, *found);
            }
        }
        Ok(true)
    });
    catalog.commit(work, 64).await?;
    let found = *found.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_catalog::blocking::block_on;
    use plimsoll_catalog::memory::MemoryCatalog;

    /// Regression test: of two gateways that began at the same time, one read the catalog before the other advanced it,
    /// and the tiers after that, and refused to start with a catalog that was older than its tiers.
    #[test]
    fn a_position_that_the_catalog_has_reached_meanwhile_is_not_a_later_state() {
        let catalog = MemoryCatalog::default();
        let identity = block_on(identify(&catalog)).unwrap();
        let (tier, written) = ("hot".to_string(), String::new());
        let older = claim::ClaimError::Older { tier, position: 0, seen: 1, written };
        assert!(!older.is_outdated(&catalog));
        let advance = move |t: &mut dyn Transaction| {
            put(t, Identity { position: 1, ..identity });
            Ok(true)
        };
        block_on(catalog.commit(Box::new(advance), 64)).unwrap();
        assert!(older.is_outdated(&catalog));
    }

    #[test]
    fn a_catalog_keeps_its_id() {
        let catalog = MemoryCatalog::default();
        assert_eq!(read(&catalog).unwrap(), None);
        let identity = block_on(identify(&catalog)).unwrap();
        assert_eq!(block_on(identify(&catalog)).unwrap(), identity);
        assert_eq!(read(&catalog).unwrap(), Some(identity));
        assert_ne!(block_on(identify(&MemoryCatalog::default())).unwrap().id, identity.id);
        assert_eq!(Identity::decode(&[1; 16]), None);
    }
}
