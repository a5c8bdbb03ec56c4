//! The row of a blob in the catalog: its state, and the places of its bytes.

use bytes::Bytes;

use crate::object::codec::{Reader, put_number};

/// Name of a blob, and of the backends' objects: a UUID, version 7 (RFC 9562).
pub type BlobName = [u8; 16];

/// Place of the bytes of a blob: a tier, and a name that never had and never gets other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Number of the tier.
    pub tier: u16,
    /// Name of the backend's object.
    pub name: BlobName,
}

impl Location {
    /// Length of an encoded location in bytes.
    pub const SIZE: usize = 18;

    /// Returns the bytes of the location.
    pub fn encode(&self) -> [u8; Location::SIZE] {
        let mut out = [0; Location::SIZE];
        out[..2].copy_from_slice(&self.tier.to_be_bytes());
        out[2..].copy_from_slice(&self.name);
        out
    }

    /// Returns the location with these bytes; `None` if their number is wrong.
    pub fn decode(bytes: &[u8]) -> Option<Location> {
        let (tier, name) = bytes.split_at_checked(2)?;
        Some(Location { tier: u16::from_be_bytes(tier.try_into().ok()?), name: name.try_into().ok()? })
    }
}

/// State of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The blob is being written, and no object refers to it.
    Pending,
    /// The blob is complete.
    Complete,
    /// No object refers to the blob any more, and its bytes are to be deleted.
    Discarded,
}

impl State {
    const ALL: [State; 3] = [State::Pending, State::Complete, State::Discarded];
}

/// Reason why bytes are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No object refers to the blob any more, or a move was rolled back.
    Discarded,
    /// The blob was moved. Until the bytes are deleted, the move can be rolled back.
    Moved,
    /// The write was not finished. It may still arrive, so the bytes are deleted a second time.
    Unfinished,
}

impl Reason {
    const ALL: [Reason; 3] = [Reason::Discarded, Reason::Moved, Reason::Unfinished];
}

/// Head of an entry of the list of bytes to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbage {
    /// Blob that had the bytes.
    pub blob: BlobName,
    /// Reason of the deletion.
    pub reason: Reason,
}

impl Garbage {
    /// Encodes the entry.
    pub fn encode(&self) -> Bytes {
        let reason = Reason::ALL.iter().position(|reason| *reason == self.reason).unwrap_or(0) as u8;
        [self.blob.as_slice(), &[reason]].concat().into()
    }

    /// Decodes an entry; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Garbage> {
        let (reason, blob) = bytes.split_last()?;
        Some(Garbage { blob: blob.try_into().ok()?, reason: *Reason::ALL.get(usize::from(*reason))? })
    }
}

/// Head of the row of a blob. The properties of the row are the checksums of its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobHead {
    /// State of the blob.
    pub state: State,
    /// Number of changes of the locations.
    pub version: u64,
    /// Places of the bytes; reads use the first one that works.
    pub locations: Vec<Location>,
}

impl BlobHead {
    /// Creates the head of a blob that is being written to these places.
    pub fn pending(locations: Vec<Location>) -> BlobHead {
        BlobHead { state: State::Pending, version: 0, locations }
    }

    /// Encodes the head.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![State::ALL.iter().position(|state| *state == self.state).unwrap_or(0) as u8];
        put_number(&mut out, self.version);
        self.locations.iter().for_each(|location| out.extend_from_slice(&location.encode()));
        out.into()
    }

    /// Decodes a head; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<BlobHead> {
        let mut reader = Reader(bytes);
        let state = *State::ALL.get(usize::from(reader.byte()?))?;
        let version = reader.number()?;
        let locations = reader.0.chunks(Location::SIZE).map(Location::decode).collect::<Option<Vec<_>>>()?;
        (!locations.is_empty()).then_some(BlobHead { state, version, locations })
    }

    /// Returns the head after a change of the locations.
    #[must_use]
    pub fn with_locations(&self, locations: Vec<Location>) -> BlobHead {
        BlobHead { state: self.state, version: self.version + 1, locations }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_a_round_trip() {
        for reason in Reason::ALL {
            let entry = Garbage { blob: [3; 16], reason };
            assert_eq!(Garbage::decode(&entry.encode()), Some(entry));
        }
        assert_eq!((Garbage::decode(&[3; 17]), Garbage::decode(&[1; 3])), (None, None));
    }

    #[test]
    fn a_head_survives_a_round_trip() {
        let places = [(0, [7; 16]), (300, [9; 16])].map(|(tier, name)| Location { tier, name });
        let mut head = BlobHead::pending(places.to_vec());
        assert_eq!(BlobHead::decode(&head.encode()), Some(head.clone()));
        head.state = State::Complete;
        let moved = head.with_locations(vec![places[1]]);
        assert_eq!((moved.version, moved.state), (1, State::Complete));
        assert_eq!(BlobHead::decode(&moved.encode()), Some(moved.clone()));
        let bytes = moved.encode();
        for length in 0..bytes.len() {
            assert_eq!(BlobHead::decode(&bytes[..length]), None, "{length} bytes");
        }
    }
}
