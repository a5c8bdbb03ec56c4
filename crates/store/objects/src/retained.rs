//! Versions that have left their buckets: replaced, deleted or expired. They and their bodies are kept for a time, so
//! that they can be brought back.

use bytes::Bytes;

use super::discard::discard_row;
use super::garbage::after_reads;
use super::removal::{Leaving, Removal};
use super::row::{Body, Head};
use super::version::{ObjectAddress, value_of_version};
use super::{keys, live};
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::{CatalogError, Transaction, Value};

/// Head of the row of a version that has left its bucket. The row has the properties and the body of the version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retained {
    /// Reason why the version has left its bucket.
    pub removal: Removal,
    /// True if it was the current version of its key.
    pub was_current: bool,
    /// Head of the version.
    pub head: Head,
}

impl Retained {
    /// Encodes the head.
    pub fn encode(&self) -> Bytes {
        // The position is stored, so the order of `ALL` must not change.
        let removal = Removal::ALL.iter().position(|removal| *removal == self.removal).unwrap_or(0) as u8;
        let mut out = vec![removal, u8::from(self.was_current)];
        out.extend_from_slice(&self.head.encode());
        out.into()
    }

    /// Decodes a head; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Retained> {
        let [removal, was_current, head @ ..] = bytes else { return None };
        let removal = *Removal::ALL.get(usize::from(*removal))?;
        Some(Retained { removal, was_current: *was_current != 0, head: Head::decode(head)? })
    }
}

impl ObjectAddress {
    /// Keeps a version that leaves the bucket, or discards its body if the store keeps nothing. On a full disk nothing
    /// is kept, because deletes must free space there.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn take_out(&self, t: &mut dyn Transaction, leaving: &Leaving<'_>) -> Result<(), CatalogError> {
        let Leaving { head, row, removal, is_current } = *leaving;
        // A delete marker has no bytes, so there is nothing to bring back.
        if head.marker || !self.bucket.keeps_removed || t.is_full() {
            return discard_row(t, head, row, after_reads());
        }
        let retained = Retained { removal, was_current: is_current, head: head.clone() };
        let value = Value { head: retained.encode(), ..value_of_version(t, row)? };
        // Else the pack file could be deleted while the version is kept.
        if let Body::Slice(slice) = &head.body {
            live::retain(t, slice)?;
        }
        // By the shared clock: a wrong clock of this machine must not shorten the time (docs/decisions/0039).
        t.put(keys::retained(shared_now_ms(), self.bucket.number, &self.key, head.generation), value);
        Ok(())
    }
}

/// Removes a version that is not kept any longer. Its bytes are garbage from `at_ms` on, in Unix milliseconds.
///
/// # Errors
/// If the catalog cannot be read.
pub fn let_go(t: &mut dyn Transaction, key: &[u8], at_ms: u64) -> Result<(), CatalogError> {
    let Some(row) = t.get(key)? else { return Ok(()) };
    let retained = plimsoll_catalog::intact(Retained::decode(&row.head))?;
    match &retained.head.body {
        // Kept bodies are counted apart from live ones, so `discard_row` would lower the wrong count.
        Body::Slice(slice) => live::let_go(t, slice, at_ms)?,
        _ => discard_row(t, &retained.head, &row, at_ms)?,
    }
    t.delete(key.to_vec());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_a_round_trip() {
        let head = Head {
            marker: false,
            null: true,
            body: Body::Blob([3; 16]),
            generation: 7,
            size: 5,
            modified_ms: 9,
            md5: [1; 16],
            parts: 0,
            checksum: None,
        };
        for removal in Removal::ALL {
            let retained = Retained { removal, was_current: removal == Removal::Deleted, head: head.clone() };
            assert_eq!(Retained::decode(&retained.encode()), Some(retained));
        }
        assert_eq!((Retained::decode(&[]), Retained::decode(&[9, 0, 1])), (None, None));
    }
}
