//! The places of the bytes of one object, and its future according to the rules.

mod forecast;
mod removed;

use std::ops::Bound;

use jiff::Timestamp;
use plimsoll_server::error::ApiError;
use serde::{Serialize, Serializer};

pub use self::forecast::Next;
pub use self::removed::{Removed, last_removed};
use crate::mover::rules::Rules;
use plimsoll_bodies::blob::text;
use plimsoll_bodies::location::{BlobHead, Garbage, Location, State};
use plimsoll_bodies::name::BlobName;
use plimsoll_catalog::ambient::now_ms;
use plimsoll_catalog::{Catalog, CatalogError, Row, intact};
use plimsoll_objects::error::for_client;
use plimsoll_objects::live::Live;
use plimsoll_objects::placement::ReadPlace;
use plimsoll_objects::row::{Body, Head, Piece, Properties};
use plimsoll_objects::version::{hidden, no_key, no_version};
use plimsoll_objects::{Bucket, Store, keys};

/// Places of the bytes of an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Whereabouts {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Id of the version.
    pub version: String,
    /// Size in bytes.
    pub size: u64,
    /// Entity tag without quotes.
    pub etag: String,
    /// Algorithm and value of the checksum, as responses have it; `None` if there is none.
    pub checksum: Option<String>,
    /// Time of the last modification.
    #[serde(serialize_with = "as_text")]
    pub modified: Timestamp,
    /// Storage class that clients see.
    pub storage_class: String,
    /// Pieces of the body in their order.
    pub pieces: Vec<PiecePlace>,
    /// Next action of the rules.
    pub next: Next,
}

/// Place of a piece of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PiecePlace {
    /// Size of the piece in bytes.
    pub size: u64,
    /// Name of the blob; `None` if the piece is in the catalog.
    pub blob: Option<String>,
    /// The bytes of the piece in a pack file; `None` if the blob has only this piece.
    pub slice: Option<SlicePlace>,
    /// Copies of the blob. Reads use the first one that answers.
    pub copies: Vec<Copy>,
}

/// Bytes in a pack file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlicePlace {
    /// Offset in the pack file in bytes.
    pub offset: u64,
    /// CRC-32C of the bytes, in hexadecimal digits.
    pub crc32c: String,
    /// Size of the pack file in bytes.
    pub pack_file_size: u64,
}

/// A copy of a blob in a tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// Name of the tier.
    pub tier: String,
    /// Name of the object in the tier, without the prefix of the tier.
    pub object: String,
    /// Time at which the copy was begun; `None` for an adopted object.
    #[serde(serialize_with = "as_text_or_null")]
    pub written: Option<Timestamp>,
    /// Time at which the copy is deleted, at the earliest, because the blob was moved; `None` if it stays, or the time
    /// is unknown.
    #[serde(serialize_with = "as_text_or_null")]
    pub deleted_after: Option<Timestamp>,
}

fn as_text<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

fn as_text_or_null<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_none(),
    }
}

/// An object in the catalog.
struct Found {
    catalog_key: Vec<u8>,
    row: Row,
    head: Head,
}

/// Describes an object, or one of its versions.
///
/// # Errors
/// `NoSuchKey` or `NoSuchVersion`, or the error of the catalog.
pub fn find<C: Catalog>(
    store: &Store<C>,
    rules: &Rules,
    bucket: &Bucket,
    key: &str,
    version: Option<&str>,
) -> Result<Whereabouts, ApiError> {
    let found = plimsoll_catalog::blocking::block_on(store.find_row(bucket, key, version))?;
    let (catalog_key, row, head) =
        found.ok_or_else(|| if version.is_some() { no_version() } else { no_key() })?;
    if head.marker {
        return Err(hidden(&head, version.is_some()));
    }
    let found = Found { catalog_key, row, head };
    describe(store, rules, bucket, key, &found).map_err(for_client)
}

fn describe<C: Catalog>(
    store: &Store<C>,
    rules: &Rules,
    bucket: &Bucket,
    key: &str,
    found: &Found,
) -> Result<Whereabouts, CatalogError> {
    let Found { catalog_key, row, head } = found;
    let properties = intact(Properties::decode(&store.catalog.properties(catalog_key, row)?))?;
    let pieces = match &head.body {
        Body::Inline => vec![PiecePlace { size: head.size, blob: None, slice: None, copies: Vec::new() }],
        Body::Blob(name) => vec![of_blob(store, name, head.size)?],
        Body::Slice(slice) => {
            let live = store.catalog.get(&keys::pack_file(&slice.pack_file))?;
            let pack_file_size = live.and_then(|row| Live::decode(&row.head)).map_or(0, |live| live.size);
            let crc32c = format!("{:08x}", slice.crc);
            let place = SlicePlace { offset: slice.offset, crc32c, pack_file_size };
            let blob = of_blob(store, &slice.pack_file, slice.size)?;
            vec![PiecePlace { slice: Some(place), ..blob }]
        }
        Body::Pieces => {
            let place = |piece: &Piece| match piece {
                Piece::Inline(size) => {
                    Ok(PiecePlace { size: *size, blob: None, slice: None, copies: Vec::new() })
                }
                Piece::Blob(name, size) => of_blob(store, name, *size),
            };
            properties.pieces.iter().map(place).collect::<Result<_, CatalogError>>()?
        }
    };
    let next = forecast::next(store, rules, bucket, key, found)?;
    let class = store.class_of(&head.body, &properties.pieces)?;
    let info = head.clone().info(properties, true);
    Ok(Whereabouts {
        bucket: bucket.name.to_string(),
        key: key.to_string(),
        version: head.version(),
        size: head.size,
        etag: head.etag(),
        checksum: info.checksum.map(|checksum| format!("{} {}", checksum.algorithm.name(), checksum.value)),
        modified: head.modified(),
        storage_class: class.as_deref().unwrap_or("STANDARD").to_string(),
        pieces,
        next,
    })
}

/// Calls `visit` with the keys and sizes of the current objects of a bucket that are read from a tier, or from the
/// catalog, until it returns false.
///
/// # Errors
/// If the catalog cannot be read.
pub fn list<C: Catalog>(
    store: &Store<C>,
    bucket: &Bucket,
    prefix: &str,
    tier: Option<u16>,
    visit: &mut dyn FnMut(&str, u64) -> bool,
) -> Result<(), CatalogError> {
    /// Number of rows that are read at a time. A scan keeps old files of the index.
    const PAGE: usize = 1000;
    let prefix = keys::objects(bucket.number, prefix);
    let mut from = Bound::Included(prefix.clone());
    loop {
        let mut page = Vec::new();
        {
            // The scan ends before `visit` is called, which may wait for the receiver of the output.
            let mut scan = store.catalog.scan();
            scan.seek(from.as_ref().map(Vec::as_slice))?;
            while page.len() < PAGE
                && let Some(found) = scan.next()?.filter(|(key, _)| key.starts_with(&prefix))
            {
                page.push(found);
            }
        }
        let Some((last, _)) = page.last() else { return Ok(()) };
        from = Bound::Excluded(last.clone());
        for (catalog_key, row) in page {
            let Some((key, true)) = keys::parse_object(&catalog_key) else { continue };
            let Some(head) = Head::decode(&row.head).filter(|head| !head.marker) else { continue };
            let is_here = match store.read_place(&catalog_key, &row, &head.body)? {
                ReadPlace::Catalog => tier.is_none(),
                ReadPlace::Tier(place) => tier == Some(place.tier),
                ReadPlace::Unknown => false,
            };
            if is_here && !visit(&key, head.size) {
                return Ok(());
            }
        }
    }
}

fn at(ms: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()
}

fn of_blob<C: Catalog>(store: &Store<C>, name: &BlobName, size: u64) -> Result<PiecePlace, CatalogError> {
    let head = store.catalog.get(&keys::blob(name))?.and_then(|row| BlobHead::decode(&row.head));
    // A pending or discarded blob has bytes that no object may use.
    let locations = head.filter(|head| head.state == State::Complete).map(|head| head.locations);
    let locations = locations.unwrap_or_default();
    let mut copies = Vec::new();
    for location in &locations {
        let deleted_after = match locations.first() {
            // The first place is in use: an entry for it does not count (`forget` in background/deletion.rs).
            Some(first) if first != location => deleted_after(store, first, location)?,
            _ => None,
        };
        copies.push(Copy {
            tier: store.tier_name(location.tier),
            object: location.path().to_string(),
            written: location.written_ms().and_then(at),
            deleted_after,
        });
    }
    Ok(PiecePlace { size, blob: Some(text(name)), slice: None, copies })
}

/// Returns the time after which a source is deleted: that of its entry in the list of garbage, which was made after the
/// copy was begun.
fn deleted_after<C: Catalog>(
    store: &Store<C>,
    copy: &Location,
    source: &Location,
) -> Result<Option<Timestamp>, CatalogError> {
    /// Maximum number of entries that are read.
    const MOST: usize = 1_000_000;
    /// Milliseconds by which the clocks of gateways may differ, with a margin.
    const MARGIN_MS: u64 = 60_000;
    let Some(from_ms) = copy.written_ms() else { return Ok(None) };
    let from = [keys::GARBAGE, &from_ms.saturating_sub(MARGIN_MS).to_be_bytes()].concat();
    let mut scan = store.catalog.scan();
    scan.seek(Bound::Included(&from))?;
    for _ in 0..MOST {
        let Some((key, row)) = scan.next()?.filter(|(key, _)| key.starts_with(keys::GARBAGE)) else { break };
        let Some((garbage_ms, location)) = keys::parse_garbage(&key) else { continue };
        if location == *source {
            let window_ms = Garbage::decode(&row.head).map_or(0, |garbage| garbage.window_ms);
            // Both times must have passed, as in `due` in background/deletion.rs.
            return Ok(at(garbage_ms.saturating_add(store.retain_ms).max(window_ms)));
        }
    }
    Ok(None)
}

/// Returns the time since the object was written in milliseconds, by the clock of this machine.
fn age_ms(head: &Head) -> u64 {
    now_ms().saturating_sub(u64::try_from(head.modified_ms).unwrap_or(0))
}
