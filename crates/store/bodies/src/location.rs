//! The row of a blob in the catalog: its state, and the places of its bytes.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use plimsoll_base::net::encode::hex;

use super::name::BlobName;
use plimsoll_catalog::codec::{Reader, put_bytes, put_number};

/// Name of a backend's object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectName {
    /// Name that the gateway has chosen. It never had and never gets other bytes.
    Own(BlobName),
    /// Key of an object that was in the backend before.
    Adopted(Arc<str>),
}

/// Location of the bytes of a blob.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Number of the tier.
    pub tier: u16,
    /// Name of the backend's object.
    pub name: ObjectName,
}

/// Returns the name that the gateway has chosen for the object at a path of a backend; `None` if the object is foreign.
pub fn parse_own(path: &str) -> Option<BlobName> {
    let (directory, text) = path.split_once('/')?;
    let mut name = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in name.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    // A UUID, version 7.
    let is_uuid = name[6] >> 4 == 7 && name[8] >> 6 == 2;
    (is_uuid && Location::new(0, name).path().as_ref() == path && directory.len() == 2).then_some(name)
}

/// Bit of the encoded tier of an adopted object.
const ADOPTED: u16 = 0x8000;

impl Location {
    /// Creates the location of a blob that the gateway has written.
    pub fn new(tier: u16, name: BlobName) -> Location {
        Location { tier, name: ObjectName::Own(name) }
    }

    /// Returns true if the object was in the backend before.
    pub fn is_adopted(&self) -> bool {
        matches!(self.name, ObjectName::Adopted(_))
    }

    /// Returns the path of the backend's object. Names that the gateway has chosen are in a
    /// directory with the name of their last byte.
    pub fn path(&self) -> Path {
        match &self.name {
            ObjectName::Own(name) => Path::from(format!("{}/{}", hex(&name[15..]), hex(name))),
            // The client encodes the key in requests; `Path::from` would encode it here, too.
            ObjectName::Adopted(key) => Path::parse(&**key).unwrap_or_else(|_| Path::from(&**key)),
        }
    }

    /// Returns the time at which the bytes were written, in Unix milliseconds; `None` if it is unknown.
    pub fn written_ms(&self) -> Option<u64> {
        let ObjectName::Own(name) = &self.name else { return None };
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(&name[..6]);
        Some(u64::from_be_bytes(bytes))
    }

    /// Returns the bytes of the location.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(18);
        match &self.name {
            ObjectName::Own(name) => {
                out.extend_from_slice(&self.tier.to_be_bytes());
                out.extend_from_slice(name);
            }
            ObjectName::Adopted(key) => {
                out.extend_from_slice(&(self.tier | ADOPTED).to_be_bytes());
                put_bytes(&mut out, key.as_bytes());
            }
        }
        out
    }

    /// Reads a location.
    fn read(reader: &mut Reader<'_>) -> Option<Location> {
        let tier = u16::from_be_bytes(reader.array()?);
        let name = match tier & ADOPTED {
            0 => ObjectName::Own(reader.array()?),
            _ => ObjectName::Adopted(reader.text()?.into()),
        };
        Some(Location { tier: tier & !ADOPTED, name })
    }

    /// Returns the location with these bytes; `None` if they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Location> {
        let mut reader = Reader(bytes);
        Location::read(&mut reader).filter(|_| reader.0.is_empty())
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            ObjectName::Own(name) => f.write_str(&hex(name)),
            ObjectName::Adopted(key) => f.write_str(key),
        }
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

/// Head of an entry of the deletion list: a blob whose bytes at one location are to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbage {
    /// Blob that had the bytes.
    pub blob: BlobName,
    /// Reason of the deletion.
    pub reason: Reason,
    /// Value of [`BlobHead::switched`] when the entry was made. An entry for a location of a blob that was moved since
    /// is outdated: the later move has made another one.
    pub switched: u64,
    /// Time in Unix milliseconds until which a move can be rolled back; 0 if there is none.
    pub window_ms: u64,
}

impl Garbage {
    /// Encodes the entry.
    pub fn encode(&self) -> Bytes {
        let reason = Reason::ALL.iter().position(|reason| *reason == self.reason).unwrap_or(0) as u8;
        let mut out = self.blob.to_vec();
        out.push(reason);
        put_number(&mut out, self.switched);
        put_number(&mut out, self.window_ms);
        out.into()
    }

    /// Decodes an entry; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Garbage> {
        let mut reader = Reader(bytes);
        let (blob, reason) = (reader.array()?, *Reason::ALL.get(usize::from(reader.byte()?))?);
        let switched = reader.number()?;
        // Older entries have no such number.
        let window_ms = if reader.0.is_empty() { 0 } else { reader.number()? };
        reader.0.is_empty().then_some(Garbage { blob, reason, switched, window_ms })
    }
}

/// Head of the row of a blob. The properties of the row are the checksums of its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobHead {
    /// State of the blob.
    pub state: State,
    /// Number of changes of the locations; of a pending blob, the number of the session that writes it.
    pub version: u64,
    /// Version at the last change of the first place.
    pub switched: u64,
    /// Places of the bytes; reads use the first one that works.
    pub locations: Vec<Location>,
}

impl BlobHead {
    /// Creates the head of a blob that a session is writing to these places.
    pub fn pending(session: u64, locations: Vec<Location>) -> BlobHead {
        BlobHead { state: State::Pending, version: session, switched: 0, locations }
    }

    /// Creates the head of a complete blob at these places.
    pub fn complete(locations: Vec<Location>) -> BlobHead {
        BlobHead { state: State::Complete, version: 0, switched: 0, locations }
    }

    /// Encodes the head.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![State::ALL.iter().position(|state| *state == self.state).unwrap_or(0) as u8];
        put_number(&mut out, self.version);
        put_number(&mut out, self.switched);
        self.locations.iter().for_each(|location| out.extend_from_slice(&location.encode()));
        out.into()
    }

    /// Decodes a head; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<BlobHead> {
        let mut reader = Reader(bytes);
        let state = *State::ALL.get(usize::from(reader.byte()?))?;
        let (version, switched) = (reader.number()?, reader.number()?);
        let mut locations = Vec::new();
        while !reader.0.is_empty() {
            locations.push(Location::read(&mut reader)?);
        }
        (!locations.is_empty()).then_some(BlobHead { state, version, switched, locations })
    }

    /// Returns the head after a change of the locations.
    #[must_use]
    pub fn with_locations(&self, locations: Vec<Location>) -> BlobHead {
        // A head without places cannot be decoded, so the blob would be lost.
        assert!(!locations.is_empty(), "a blob would lose its last place");
        let version = self.version + 1;
        let is_switch = locations.first() != self.locations.first();
        let switched = if is_switch { version } else { self.switched };
        BlobHead { state: self.state, version, switched, locations }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::new_name;

    #[test]
    fn only_names_of_the_gateway_are_parsed() {
        let name = new_name();
        let path = Location::new(0, name).path().to_string();
        assert_eq!(parse_own(&path), Some(name));
        for foreign in [
            path.to_uppercase(),
            path[3..].to_string(),
            format!("a/{path}"),
            format!("{path}0"),
            format!("zz/{}", &path[3..]),
            "00/00000000000000000000000000000000".into(),
            "photos/1.jpg".into(),
            "ab/ÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄ".into(),
        ] {
            assert_eq!(parse_own(&foreign), None, "{foreign}");
        }
    }

    #[test]
    fn an_entry_survives_a_round_trip() {
        for reason in Reason::ALL {
            let entry = Garbage { blob: [3; 16], reason, switched: 300, window_ms: 5 };
            assert_eq!(Garbage::decode(&entry.encode()), Some(entry));
        }
        let older = Garbage { blob: [3; 16], reason: Reason::Moved, switched: 5, window_ms: 0 };
        assert_eq!(Garbage::decode(&older.encode()[..18]), Some(older));
        assert_eq!((Garbage::decode(&[3; 20]), Garbage::decode(&[1; 3])), (None, None));
    }

    #[test]
    fn a_head_survives_a_round_trip() {
        let adopted = Location { tier: 5, name: ObjectName::Adopted("logs/2026/a b.gz".into()) };
        let places = [Location::new(0, [7; 16]), Location::new(300, [9; 16]), adopted];
        for place in &places {
            assert_eq!(Location::decode(&place.encode()).as_ref(), Some(place));
        }
        for key in ["logs/2026/a b.gz", "ü~#", "100%", "a*b\\c\"^`{|}<>"] {
            let adopted = Location { tier: 5, name: ObjectName::Adopted(key.into()) };
            assert_eq!(adopted.path().as_ref(), key);
        }
        let mut head = BlobHead::pending(7, places.to_vec());
        assert_eq!(BlobHead::decode(&head.encode()), Some(head.clone()));
        head = BlobHead::complete(places.to_vec());
        let moved = head.with_locations(vec![places[1].clone()]);
        assert_eq!((moved.version, moved.state), (1, State::Complete));
        assert_eq!(BlobHead::decode(&moved.encode()), Some(moved.clone()));
        let bytes = moved.encode();
        for length in 0..bytes.len() {
            assert_eq!(BlobHead::decode(&bytes[..length]), None, "{length} bytes");
        }
    }
}
