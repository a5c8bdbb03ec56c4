//! Rows of objects: the head, which listings need, and the properties.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::{Algorithm, base64, from_base64};
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::config::tags::Tags;
use plimsoll_server::response::http_date;
use plimsoll_server::service::{ListEntry, ObjectInfo, ObjectPart, StoredChecksum};

use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::pack_file::Slice;
use plimsoll_catalog::codec::{Reader, put_bytes, put_number};

/// Flag of a delete marker.
const MARKER: u8 = 1;
/// Flag of the version `null`.
const NULL: u8 = 2;
/// Flag of an object whose properties list the pieces of its body.
const PIECES: u8 = 4;
/// Flag of an object with a checksum that covers the whole object.
const FULL_OBJECT: u8 = 8;
/// Flag of an object whose body is a blob.
const BLOB: u8 = 16;
/// Flag of an object whose body is in a pack file.
const SLICE: u8 = 32;

/// Place of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The body is in the row.
    Inline,
    /// The body is a whole blob.
    Blob(BlobName),
    /// The body is in a pack file.
    Slice(Slice),
    /// The properties list the pieces of the body.
    Pieces,
}

impl Body {
    fn flag(&self) -> u8 {
        match self {
            Body::Inline => 0,
            Body::Blob(_) => BLOB,
            Body::Slice(_) => SLICE,
            Body::Pieces => PIECES,
        }
    }
}

/// Summary of a version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// True for a delete marker.
    pub marker: bool,
    /// True for the version `null`.
    pub null: bool,
    /// Place of the body.
    pub body: Body,
    /// Generation, by which the versions of the key are ordered: greater than those of all versions that existed when
    /// this one was written as the current one.
    pub generation: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification in Unix milliseconds.
    pub modified_ms: i64,
    /// MD5 of the body, or of the MD5s of its parts.
    pub md5: [u8; 16],
    /// Number of parts; 0 for an object that was not uploaded in parts.
    pub parts: u32,
    /// Algorithm of the checksum, its bytes, and true if it covers the whole object; `None` if there is none.
    pub checksum: Option<(Algorithm, Vec<u8>, bool)>,
}

fn algorithm_number(algorithm: Algorithm) -> u8 {
    // The position is stored, so the order of `ALL` must not change.
    1 + Algorithm::ALL.iter().position(|a| *a == algorithm).unwrap_or(0) as u8
}

/// Splits the checksum of an object into its bytes and its type.
pub fn checksum_bytes(checksum: &StoredChecksum) -> (Algorithm, Vec<u8>, bool) {
    // The number of parts behind the dash of a composite checksum is in the head already.
    let value = checksum.value.split('-').next().unwrap_or("");
    (checksum.algorithm, from_base64(value).unwrap_or_default(), checksum.full_object)
}

impl Head {
    /// Encodes the head.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        let full = self.checksum.as_ref().is_some_and(|(_, _, full)| *full);
        let flags = [(self.marker, MARKER), (self.null, NULL), (full, FULL_OBJECT)];
        let flags = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum::<u8>();
        out.push(flags | self.body.flag());
        out.extend_from_slice(&self.generation.to_le_bytes());
        put_number(&mut out, self.modified_ms as u64);
        if self.marker {
            return out.into();
        }
        put_number(&mut out, self.size);
        out.extend_from_slice(&self.md5);
        put_number(&mut out, u64::from(self.parts));
        match &self.checksum {
            None => out.push(0),
            Some((algorithm, value, _)) => {
                out.push(algorithm_number(*algorithm));
                out.extend_from_slice(value);
            }
        }
        match &self.body {
            Body::Inline | Body::Pieces => {}
            Body::Blob(name) => out.extend_from_slice(name),
            Body::Slice(slice) => {
                out.extend_from_slice(&slice.pack_file);
                put_number(&mut out, slice.offset);
                out.extend_from_slice(&slice.crc.to_le_bytes());
            }
        }
        out.into()
    }

    /// Decodes a head; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let mut reader = Reader(bytes);
        let flags = reader.byte()?;
        let generation = u64::from_le_bytes(reader.array()?);
        let modified_ms = reader.number()? as i64;
        let marker = flags & MARKER != 0;
        let mut head = Head {
            marker,
            null: flags & NULL != 0,
            body: if flags & PIECES == 0 { Body::Inline } else { Body::Pieces },
            generation,
            size: 0,
            modified_ms,
            md5: [0; 16],
            parts: 0,
            checksum: None,
        };
        if marker {
            return Some(head);
        }
        head.size = reader.number()?;
        head.md5 = reader.array()?;
        head.parts = reader.number()? as u32;
        head.checksum = match reader.byte()? {
            0 => None,
            number => {
                let algorithm = *Algorithm::ALL.get(usize::from(number) - 1)?;
                let value = reader.take(algorithm.size())?.to_vec();
                Some((algorithm, value, flags & FULL_OBJECT != 0))
            }
        };
        if flags & BLOB != 0 {
            head.body = Body::Blob(reader.array()?);
        }
        if flags & SLICE != 0 {
            let (pack_file, offset) = (reader.array()?, reader.number()?);
            let crc = u32::from_le_bytes(reader.array()?);
            head.body = Body::Slice(Slice { pack_file, offset, size: head.size, crc });
        }
        Some(head)
    }

    /// Returns the entity tag without quotes.
    pub fn etag(&self) -> String {
        match self.parts {
            0 => hex(&self.md5),
            parts => format!("{}-{parts}", hex(&self.md5)),
        }
    }

    /// Returns the version id.
    pub fn version(&self) -> String {
        if self.null { "null".into() } else { version_id(self.generation) }
    }

    /// Returns the time of the last modification.
    pub fn modified(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.modified_ms).unwrap_or_default()
    }

    /// Returns the entry of a listing.
    pub fn listed(&self, key: String, latest: bool) -> ListEntry {
        ListEntry {
            key,
            size: self.size,
            etag: if self.marker { String::new() } else { self.etag() },
            modified: self.modified(),
            checksum: self.checksum.as_ref().map(|(algorithm, _, full)| (*algorithm, *full)),
            version: self.version(),
            latest,
            marker: self.marker,
            storage_class: None,
        }
    }

    /// Returns the properties of the object for the protocol. `with_version` is false if the
    /// bucket never had versions.
    pub fn info(&self, properties: Properties, with_version: bool) -> ObjectInfo {
        let modified = self.modified();
        let checksum = self.checksum.as_ref().map(|(algorithm, value, full_object)| {
            let value = base64(value);
            let value = if *full_object { value } else { format!("{value}-{}", self.parts) };
            StoredChecksum { algorithm: *algorithm, value, full_object: *full_object }
        });
        // The texts have only ASCII characters, so the conversion does not fail.
        let header =
            |text: String| HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""));
        ObjectInfo {
            size: self.size,
            etag_header: header(format!("\"{}\"", self.etag())),
            modified,
            modified_header: header(http_date(modified)),
            headers: properties.headers,
            checksum,
            parts: (!properties.parts.is_empty()).then_some(properties.parts),
            version: with_version.then(|| self.version()),
            tags: properties.tags,
            acl: properties.acl,
            upload_id: properties.upload_id,
            storage_class: None,
        }
    }
}

/// Returns the version id of a generation: 16 hexadecimal digits.
pub fn version_id(generation: u64) -> String {
    format!("{generation:016x}")
}

/// Returns the generation of a version id; `None` if it is malformed.
pub fn parse_version_id(text: &str) -> Option<u64> {
    (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// A consecutive part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the inline body of the row.
    Inline(u64),
    /// A whole blob and its size in bytes.
    Blob(BlobName, u64),
}

impl Piece {
    /// Returns the size of the piece in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Piece::Inline(size) | Piece::Blob(_, size) => *size,
        }
    }
}

/// Properties that listings do not need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// Headers to return with the object.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Tags of the object.
    pub tags: Tags,
    /// Access of other clients to the object.
    pub acl: CannedAcl,
    /// Parts of the multipart upload that created the object.
    pub parts: Vec<ObjectPart>,
    /// Pieces of the body, if the head does not have its place.
    pub pieces: Vec<Piece>,
    /// Id of the upload that created the object.
    pub upload_id: Option<String>,
}

impl Properties {
    /// Encodes the properties.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        put_number(&mut out, self.headers.len() as u64);
        for (name, value) in &self.headers {
            put_bytes(&mut out, name.as_str().as_bytes());
            put_bytes(&mut out, value.as_bytes());
        }
        put_number(&mut out, self.tags.len() as u64);
        for (key, value) in &self.tags.0 {
            put_bytes(&mut out, key.as_bytes());
            put_bytes(&mut out, value.as_bytes());
        }
        put_number(&mut out, self.parts.len() as u64);
        for part in &self.parts {
            put_number(&mut out, u64::from(part.number));
            put_number(&mut out, part.size);
            put_checksum(&mut out, part.checksum.as_ref());
        }
        put_number(&mut out, self.pieces.len() as u64);
        for piece in &self.pieces {
            put_piece(&mut out, piece);
        }
        put_bytes(&mut out, self.upload_id.as_deref().unwrap_or("").as_bytes());
        // The position is stored, as that of an algorithm.
        out.push(CannedAcl::ALL.iter().position(|acl| *acl == self.acl).unwrap_or(0) as u8);
        out.into()
    }

    /// Decodes properties; `None` if they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Properties> {
        let mut reader = Reader(bytes);
        let mut properties = Properties::default();
        for _ in 0..reader.number()? {
            let name = HeaderName::from_bytes(reader.bytes()?).ok()?;
            properties.headers.push((name, HeaderValue::from_bytes(reader.bytes()?).ok()?));
        }
        for _ in 0..reader.number()? {
            properties.tags.0.push((reader.text()?.to_string(), reader.text()?.to_string()));
        }
        for _ in 0..reader.number()? {
            let (number, size) = (reader.number()? as u32, reader.number()?);
            properties.parts.push(ObjectPart { number, size, checksum: checksum(&mut reader)? });
        }
        for _ in 0..reader.number()? {
            properties.pieces.push(piece(&mut reader)?);
        }
        let id = reader.text()?;
        properties.upload_id = (!id.is_empty()).then(|| id.to_string());
        properties.acl = *CannedAcl::ALL.get(usize::from(reader.byte()?))?;
        Some(properties)
    }
}

/// Appends the checksum of a part.
pub fn put_checksum(out: &mut Vec<u8>, checksum: Option<&(Algorithm, String)>) {
    match checksum {
        None => out.push(0),
        Some((algorithm, value)) => {
            out.push(algorithm_number(*algorithm));
            put_bytes(out, value.as_bytes());
        }
    }
}

/// Reads the checksum of a part.
pub fn checksum(reader: &mut Reader<'_>) -> Option<Option<(Algorithm, String)>> {
    match reader.byte()? {
        0 => Some(None),
        number => {
            let algorithm = *Algorithm::ALL.get(usize::from(number) - 1)?;
            Some(Some((algorithm, reader.text()?.to_string())))
        }
    }
}

/// Appends a piece of a body.
pub fn put_piece(out: &mut Vec<u8>, piece: &Piece) {
    match piece {
        Piece::Inline(size) => {
            out.push(0);
            put_number(out, *size);
        }
        Piece::Blob(name, size) => {
            out.push(1);
            out.extend_from_slice(name);
            put_number(out, *size);
        }
    }
}

/// Reads a piece of a body.
pub fn piece(reader: &mut Reader<'_>) -> Option<Piece> {
    match reader.byte()? {
        0 => reader.number().map(Piece::Inline),
        1 => Some(Piece::Blob(reader.array()?, reader.number()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_properties_survive_a_round_trip() {
        let head = Head {
            marker: false,
            null: false,
            body: Body::Inline,
            generation: 1 << 60,
            size: 5 << 30,
            modified_ms: 1_790_000_000_123,
            md5: [9; 16],
            parts: 3,
            checksum: Some((Algorithm::Crc32c, vec![1, 2, 3, 4], false)),
        };
        let slice = Slice { pack_file: [4; 16], offset: 1 << 30, size: 5 << 30, crc: 7 };
        for body in [Body::Inline, Body::Blob([3; 16]), Body::Slice(slice), Body::Pieces] {
            let head = Head { body, ..head.clone() };
            assert_eq!(Head::decode(&head.encode()), Some(head));
        }
        assert_eq!(parse_version_id(&head.version()), Some(1 << 60));
        assert!(head.etag().ends_with("-3"));
        let marker = Head { marker: true, size: 0, md5: [0; 16], parts: 0, checksum: None, ..head };
        assert_eq!(Head::decode(&marker.encode()), Some(marker));
        let properties = Properties {
            headers: vec![("x-amz-meta-a".parse().unwrap(), HeaderValue::from_static("1"))],
            tags: Tags(vec![("k".into(), "v".into())]),
            acl: CannedAcl::PublicRead,
            parts: vec![ObjectPart { number: 2, size: 7, checksum: Some((Algorithm::Sha1, "x".into())) }],
            pieces: vec![Piece::Blob([3; 16], 5 << 20), Piece::Inline(7)],
            upload_id: Some("id".into()),
        };
        assert_eq!(Properties::decode(&properties.encode()), Some(properties));
        assert_eq!(Properties::decode(&[200]), None);
    }
}
