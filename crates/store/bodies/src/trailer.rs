//! Trailers of blobs: the object that a blob belongs to, behind its body.
//!
//! ```text
//! blob    = body, trailer
//! trailer = content, length of the content, CRC-32C of the content, size of the body, "PLIMTRL1"
//! content = id of the catalog, name of the blob, kind, bucket, key, head, properties and inline pieces of the object's
//!           row, checksums of the chunks of the body
//! ```
//!
//! Numbers have fixed lengths, least significant byte first: the length and the checksum four bytes, the size eight.
//! Reads of objects never see a trailer. With it, a catalog can be built again from the tiers alone.

use bytes::{BufMut, Bytes, BytesMut};

use super::chunks::CHUNK;
use crate::name::BlobName;
use crate::name::CatalogId;
use plimsoll_catalog::codec::{Reader, put_bytes};
use plimsoll_catalog::embedded::record::crc32c;

/// Last bytes of a trailer.
const MAGIC: &[u8; 8] = b"PLIMTRL1";
/// Length of the part of a trailer behind its content in bytes.
pub const FOOTER: usize = 24;
/// Maximum length of a content in bytes: properties, and the checksums of a body of 5 TiB.
const MOST: usize = 256 << 20;

/// Role of a blob in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The body of the object.
    Object,
    /// A piece of the body.
    Piece,
    /// No bytes of the body, but the list of its pieces.
    Manifest,
    /// A pack file, which describes its objects itself.
    PackFile,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Object, Kind::Piece, Kind::Manifest, Kind::PackFile];
}

/// The object that a blob belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Catalog that has the object.
    pub catalog: CatalogId,
    /// Name of the blob. Its copies in other tiers have other paths.
    pub blob: BlobName,
    /// Role of the blob in the object.
    pub kind: Kind,
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Head of the object's row; of a piece, empty.
    pub head: Bytes,
    /// Properties of the object's row; of a piece, empty.
    pub properties: Bytes,
    /// Of a manifest, the pieces of the body that are in the catalog.
    pub inline: Bytes,
}

/// A trailer that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailer {
    /// The object that the blob belongs to.
    pub description: Description,
    /// Size of the body in bytes.
    pub size: u64,
    /// CRC-32C of each chunk of the body.
    pub crcs: Vec<u32>,
}

/// Result of reading the end of a blob.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// An intact trailer.
    Trailer(Box<Trailer>),
    /// The trailer has this many bytes, which is more than were read.
    Longer(u64),
    /// There is no intact trailer.
    None,
}

impl Description {
    /// Describes a pack file.
    pub fn of_pack_file(catalog: CatalogId, blob: BlobName) -> Description {
        let (bucket, key, head, properties, inline) = Default::default();
        Description { catalog, blob, kind: Kind::PackFile, bucket, key, head, properties, inline }
    }

    /// Returns the trailer of a body with this size and these checksums.
    pub fn trailer(&self, size: u64, crcs: &[u32]) -> Bytes {
        let mut out = BytesMut::with_capacity(256 + self.properties.len() + 4 * crcs.len());
        let mut content = Vec::new();
        content.extend_from_slice(&self.catalog);
        content.extend_from_slice(&self.blob);
        content.push(Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u8);
        let fields = [&self.head, &self.properties, &self.inline].map(|bytes| &bytes[..]);
        for bytes in [self.bucket.as_bytes(), self.key.as_bytes()].into_iter().chain(fields) {
            put_bytes(&mut content, bytes);
        }
        crcs.iter().for_each(|crc| content.extend_from_slice(&crc.to_le_bytes()));
        out.extend_from_slice(&content);
        out.put_u32_le(content.len() as u32);
        out.put_u32_le(crc32c(&content));
        out.put_u64_le(size);
        out.extend_from_slice(MAGIC);
        out.freeze()
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Description> {
        let (catalog, blob) = (reader.array()?, reader.array()?);
        let kind = *Kind::ALL.get(usize::from(reader.byte()?))?;
        let (bucket, key) = (reader.text()?.to_string(), reader.text()?.to_string());
        let mut bytes = || reader.bytes().map(Bytes::copy_from_slice);
        let (head, properties, inline) = (bytes()?, bytes()?, bytes()?);
        Some(Description { catalog, blob, kind, bucket, key, head, properties, inline })
    }
}

/// Returns the length of a trailer in bytes. `lengths` has those of the bucket, the key, the head, the properties and
/// the inline pieces.
pub fn length(lengths: [usize; 5], size: u64) -> u64 {
    let fields: u64 =
        lengths.into_iter().map(|length| super::pack_file::digits(length) + length as u64).sum();
    33 + fields + 4 * size.div_ceil(CHUNK as u64) + FOOTER as u64
}

/// Returns the length of the trailer of a pack file of this size in bytes.
pub fn length_of_pack_file(size: u64) -> u64 {
    length([0; 5], size)
}

/// Reads the trailer at the end of `tail`, which are the last bytes of an object of `object_size` bytes.
pub fn parse(tail: &[u8], object_size: u64) -> Parsed {
    let Some((rest, footer)) = tail.split_last_chunk::<FOOTER>() else { return Parsed::None };
    let number = |at: usize| u32::from_le_bytes([footer[at], footer[at + 1], footer[at + 2], footer[at + 3]]);
    let (length, crc) = (number(0) as usize, number(4));
    let size = u64::from(number(8)) | u64::from(number(12)) << 32;
    let whole = (length + FOOTER) as u64;
    if !footer.ends_with(MAGIC) || length > MOST || size.checked_add(whole) != Some(object_size) {
        return Parsed::None;
    }
    let Some(start) = rest.len().checked_sub(length) else { return Parsed::Longer(whole) };
    let content = &rest[start..];
    let mut reader = Reader(content);
    let description = Description::decode(&mut reader).filter(|_| crc32c(content) == crc);
    let Some(description) = description else { return Parsed::None };
    let crcs: Vec<u32> =
        reader.0.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes).collect();
    match crcs.len() as u64 == size.div_ceil(CHUNK as u64) {
        true => Parsed::Trailer(Box::new(Trailer { description, size, crcs })),
        false => Parsed::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_survives_a_round_trip_and_damage_is_noticed() {
        let description = Description {
            catalog: [1; 16],
            blob: [2; 16],
            kind: Kind::Object,
            bucket: "bucket".into(),
            key: "a/b".into(),
            head: Bytes::from_static(b"head"),
            properties: vec![7; 300].into(),
            inline: Bytes::from_static(b"piece"),
        };
        for (kind, size, crcs) in [
            (Kind::Object, 5, vec![7]),
            (Kind::Piece, 3 * CHUNK as u64 + 1, vec![1, 2, 3, 4]),
            (Kind::Manifest, 0, vec![]),
        ] {
            let description = Description { kind, ..description.clone() };
            let bytes = description.trailer(size, &crcs);
            assert_eq!(bytes.len() as u64, length([6, 3, 4, 300, 5], size));
            let object = size + bytes.len() as u64;
            let trailer = Trailer { description, size, crcs };
            let with_body = [b"body".as_slice(), &bytes].concat();
            assert_eq!(parse(&with_body, object), Parsed::Trailer(Box::new(trailer)));
            assert_eq!(parse(&bytes[1..], object), Parsed::Longer(bytes.len() as u64));
            assert_eq!(parse(&bytes[bytes.len() - FOOTER..], object), Parsed::Longer(bytes.len() as u64));
            assert_eq!(parse(&bytes, object + 1), Parsed::None, "another size");
            for at in 0..bytes.len() {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 1;
                assert!(!matches!(parse(&damaged, object), Parsed::Trailer(_)), "damage at {at}");
            }
        }
        assert_eq!((parse(b"", 0), parse(&[0; 100], 100)), (Parsed::None, Parsed::None));
    }
}
