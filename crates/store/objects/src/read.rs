//! Reads of objects.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::response::ResponseBody;
use plimsoll_server::service::ObjectInfo;

use super::body::{BodyError, BodySource, InlineBody, Part, find_blob};
use super::error::for_client;
use super::error::report;
use super::placement::blob_of;
use super::row::{Body, Head, Piece, Properties, parse_version_id};
use super::version::{ObjectAddress, head_of};
use super::version::{hidden, no_key, no_version};
use super::{Bucket, Store, keys};
use plimsoll_bodies::blob::text;
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::intact;
use plimsoll_catalog::{Catalog, CatalogError, Row};

/// Largest body in bytes that is read together with the properties, before it is known whether the request needs it.
const READ_AHEAD: u32 = 16 * 1024;

/// The row of an object.
struct Found {
    /// Name of the bucket.
    bucket: Arc<str>,
    catalog_key: Vec<u8>,
    row: Row,
}

/// A found object.
pub struct Object {
    /// Properties of the object.
    pub info: ObjectInfo,
    found: Found,
    body: Body,
    pieces: Vec<Piece>,
    /// Inline body, if it was read already.
    inline: Option<Bytes>,
}

impl AsRef<ObjectInfo> for Object {
    fn as_ref(&self) -> &ObjectInfo {
        &self.info
    }
}

/// Returns the error for a body that cannot be read: 500 if its bytes are damaged or missing, 503 if their tier does
/// not answer.
fn unreadable(error: &BodyError) -> ApiError {
    match error {
        BodyError::Catalog(error) => report(error),
        BodyError::Blob { tier, error } if error.is_unavailable() => ApiError::with(
            ErrorCode::ServiceUnavailable,
            format!("The storage tier {tier} of this object does not answer. Try again."),
        ),
        BodyError::Unknown(_) | BodyError::Blob { .. } => {
            plimsoll_catalog::log::warn(&error.to_string());
            ApiError::with(ErrorCode::InternalError, "The stored data of this object is damaged.")
        }
    }
}

/// Returns the Unix time in seconds.
pub fn now_s() -> u32 {
    u32::try_from(wall_now().as_second()).unwrap_or(0)
}

/// Returns the parts of a range of a body of `size` bytes.
fn parts(
    body: &Body,
    size: u64,
    mut pieces: Vec<Piece>,
    inline: &InlineBody,
    range: &Range<u64>,
) -> VecDeque<Part> {
    match body {
        Body::Slice(slice) => return VecDeque::from([Part::Slice(*slice, range.clone())]),
        Body::Blob(name) => pieces = vec![Piece::Blob(*name, size)],
        Body::Inline => pieces = vec![Piece::Inline(size)],
        Body::Pieces => {}
    }
    let mut parts = VecDeque::new();
    // The row has all inline pieces one after the other, without the blobs between them.
    let (mut at, mut inline_at) = (0, 0);
    for piece in pieces {
        let (from, to) = (range.start.max(at), range.end.min(at + piece.size()));
        if from < to {
            let within = from - at..to - at;
            parts.push_back(match piece {
                Piece::Inline(_) => {
                    let start = inline_at + within.start;
                    inline.part(start..start + (to - from))
                }
                Piece::Blob(name, size) => Part::Blob(name, size, within),
            });
        }
        at += piece.size();
        if let Piece::Inline(size) = piece {
            inline_at += size;
        }
    }
    parts
}

impl<C: Catalog> Store<C> {
    /// Returns a stream of a whole body.
    pub fn stream(&self, head: &Head, inline: Bytes, pieces: Vec<Piece>) -> BodySource<C> {
        let inline = InlineBody::Bytes(inline);
        let parts = parts(&head.body, head.size, pieces, &inline, &(0..head.size));
        BodySource::new(parts, Arc::clone(&self.catalog), self.blobs.clone(), None)
    }

    /// Reads a whole body into memory.
    ///
    /// # Errors
    /// If no place has the bytes.
    pub async fn collect(&self, head: &Head, inline: Bytes, pieces: Vec<Piece>) -> Result<Bytes, BodyError> {
        let size = head.size;
        let mut source = self.stream(head, inline, pieces);
        let mut body = BytesMut::new();
        while let Some(bytes) = source.next().await? {
            // A body that is one piece needs no copy.
            if body.is_empty() && bytes.len() as u64 == size {
                return Ok(bytes);
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body.freeze())
    }

    /// Reads a range of a pack file at the first place that works; `None` if there is none. The bytes are not verified.
    pub async fn read_pack_file(&self, pack_file: &keys::BlobName, range: Range<u64>) -> Option<Bytes> {
        let (head, _) = find_blob(&*self.catalog, pack_file).await.ok()?;
        for location in &head.locations {
            match self.blobs.read_range(location, range.clone()).await {
                Ok(bytes) => return Some(bytes),
                Err(error) => plimsoll_catalog::log::warn(&format!("pack file {}: {error}", text(pack_file))),
            }
        }
        None
    }

    /// Finds the current version of an object, or a given one.
    pub(super) async fn find_object(
        &self,
        target: &ObjectAddress,
        version: Option<&str>,
    ) -> Result<Object, ApiError> {
        let found = self.find_row(&target.bucket, &target.key, version).await?;
        let (catalog_key, row, head) =
            found.ok_or_else(|| if version.is_some() { no_version() } else { no_key() })?;
        if head.marker {
            return Err(hidden(&head, version.is_some()));
        }
        // A larger body is read only when it is wanted: HEAD requests need none.
        let (properties, inline) = if row.place.body <= READ_AHEAD {
            let value = self.catalog.value(&catalog_key, &row).map_err(for_client)?;
            (value.properties, Some(value.body))
        } else {
            (self.catalog.properties(&catalog_key, &row).map_err(for_client)?, None)
        };
        let mut properties = intact(Properties::decode(&properties)).map_err(for_client)?;
        let (body, pieces) = (head.body.clone(), std::mem::take(&mut properties.pieces));
        let mut info = head.info(properties, target.bucket.is_versioned());
        info.storage_class = self.class_of(&body, &pieces).map_err(for_client)?;
        let found = Found { bucket: Arc::clone(&target.bucket.name), catalog_key, row };
        Ok(Object { info, found, body, pieces, inline })
    }

    /// Returns the name of the tier from which an object is read, or `catalog`; `None` if it is unknown.
    pub(super) fn place_of(&self, object: &Object) -> Option<String> {
        let Some(blob) = blob_of(&object.body, &object.pieces) else { return Some("catalog".into()) };
        self.first_location(&blob).ok()?.map(|place| self.tier_name(place.tier))
    }

    /// Finds the row of the current version of an object, or of a given one: its key, the row and its head.
    ///
    /// # Errors
    /// The error of the catalog.
    pub async fn find_row(
        &self,
        bucket: &Bucket,
        key: &str,
        version: Option<&str>,
    ) -> Result<Option<(Vec<u8>, Row, Head)>, ApiError> {
        match version {
            None => self.lookup(keys::current(bucket.number, key)).await,
            Some(version) => self.lookup_version(bucket, key, version).await,
        }
    }

    async fn lookup(&self, key: Vec<u8>) -> Result<Option<(Vec<u8>, Row, Head)>, ApiError> {
        let Some(row) = self.catalog.read(key.clone()).await.map_err(for_client)? else { return Ok(None) };
        let head = head_of(&row).map_err(for_client)?;
        Ok(Some((key, row, head)))
    }

    async fn lookup_version(
        &self,
        bucket: &Bucket,
        key: &str,
        version: &str,
    ) -> Result<Option<(Vec<u8>, Row, Head)>, ApiError> {
        let number = bucket.number;
        // The current row is read first: a write meanwhile makes it another version, which the next read finds.
        if let Some(found) = self.lookup(keys::current(number, key)).await?
            && found.2.version() == version
        {
            return Ok(Some(found));
        }
        if let Some(generation) = parse_version_id(version) {
            let found = self.lookup(keys::version(number, key, generation)).await?;
            return Ok(found.filter(|(_, _, head)| !head.null));
        }
        if version != "null" {
            return Ok(None);
        }
        let prefix = keys::noncurrent(number, key);
        let mut scan = self.catalog.scan();
        scan.seek(std::ops::Bound::Included(&prefix)).map_err(for_client)?;
        while let Some((key, row)) = scan.next().map_err(for_client)? {
            if !key.starts_with(&prefix) {
                break;
            }
            let head = head_of(&row).map_err(for_client)?;
            if head.null {
                return Ok(Some((key, row, head)));
            }
        }
        Ok(None)
    }

    /// Returns a range of a body that has moved since its row was read; `None` if the row is still the same.
    fn moved(&self, object: &Found, range: &Range<u64>) -> Result<Option<BodySource<C>>, ApiError> {
        let Found { bucket, catalog_key, row: old } = object;
        let row = self.catalog.get(catalog_key).map_err(for_client)?.ok_or_else(no_key)?;
        // Compaction changes no head. With the same head, the error is about the body itself.
        if row.head == old.head {
            return Ok(None);
        }
        let (before, head) = (head_of(old).map_err(for_client)?, head_of(&row).map_err(for_client)?);
        // A bucket without versions may give a generation again after a deletion, so the digest is compared, too.
        if (head.generation, head.md5) != (before.generation, before.md5) {
            return Err(for_client(CatalogError::Changed));
        }
        let value = self.catalog.value(catalog_key, &row).map_err(for_client)?;
        let properties = intact(Properties::decode(&value.properties)).map_err(for_client)?;
        let inline = InlineBody::new(&self.blobs.memory, &value.body, catalog_key, &row);
        let parts = parts(&head.body, head.size, properties.pieces, &inline, range);
        let bucket = Some(Arc::clone(bucket));
        Ok(Some(BodySource::new(parts, Arc::clone(&self.catalog), self.blobs.clone(), bucket)))
    }

    /// Returns a byte range of an object.
    pub(super) async fn read_object(
        &self,
        object: Object,
        range: Range<u64>,
    ) -> Result<ResponseBody, ApiError> {
        let size = range.end - range.start;
        if let Some(reads) = &self.reads {
            reads.count(&object.found.catalog_key, now_s());
        }
        let inline = match object.inline {
            Some(inline) => inline,
            None => {
                let Found { catalog_key, row, .. } = &object.found;
                self.catalog.value(catalog_key, row).map_err(for_client)?.body
            }
        };
        let memory = &self.blobs.memory;
        if object.body == Body::Inline
            && let Some(bytes) = memory.hold(&inline, &range)
        {
            return Ok(ResponseBody::new(if bytes.is_empty() { Vec::new() } else { vec![bytes] }));
        }
        let inline = InlineBody::new(memory, &inline, &object.found.catalog_key, &object.found.row);
        let parts = parts(&object.body, object.info.size, object.pieces, &inline, &range);
        let bucket = Some(Arc::clone(&object.found.bucket));
        let mut source = BodySource::new(parts, Arc::clone(&self.catalog), self.blobs.clone(), bucket);
        // Before a tier is asked, and while the answer can still be status 503.
        source.reserve()?;
        // The first bytes are read before the response begins, so that a missing or damaged blob gives an error.
        let first = match source.next().await {
            Ok(first) => first,
            Err(error) => {
                // Packing writes the row of an object again. The bytes that the old row names may be gone.
                let moved = self.moved(&object.found, &range)?;
                source = moved.ok_or_else(|| unreadable(&error))?;
                source.reserve()?;
                source.next().await.map_err(|error| unreadable(&error))?
            }
        };
        let rest = stream::unfold(source, |mut source| async move {
            match source.next().await {
                Ok(None) => None,
                Ok(Some(bytes)) => Some((Ok(bytes), source)),
                Err(error) => {
                    // The status was sent, so the error can only end the connection (`ResponseBody::of_stream`).
                    plimsoll_catalog::log::warn(&error.to_string());
                    Some((Err(error.into()), source))
                }
            }
        });
        let first = stream::iter(first.map(Ok));
        let whole = futures_util::StreamExt::chain(first, rest);
        Ok(ResponseBody::of_stream(Box::pin(whole), size))
    }
}
