//! Writes of objects: bodies into the catalog or into blobs, and new rows with their versions.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use plimsoll_server::body::{BodyReader, Digests};
use plimsoll_server::conditions::{Existing, WriteConditions};
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::reserve::Reservation;
use plimsoll_server::service::{NewObject, ObjectChange, ObjectInfo};

use super::error::TransactionError;
use super::garbage::discard_blob;
use super::placement::Placement;
use super::removal::Removal;
use super::row::{Body, Head, Piece, Properties};
use super::version::ObjectAddress;
use super::{Store, keys};
use plimsoll_bodies::blob::text;
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::{BlobHead, Location, State};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::name::new_name;
use plimsoll_bodies::trailer::{Description, Kind};
use plimsoll_catalog::ambient::{shared_now_ms, wall_now};
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{
    Catalog, CatalogError, Expected, KnownReads, Transaction, Value, intact, unless_in_doubt,
};

/// A stored body.
pub struct StoredBody {
    /// Inline bytes; empty if the body is a blob.
    pub inline: Bytes,
    /// Blob of the body; `None` if the body is inline.
    pub blob: Option<NewBlob>,
    /// Size in bytes.
    pub size: u64,
    /// Digests of the body, which are those that its request declares.
    pub digests: Digests,
    /// Time at which the body was complete.
    pub at: Timestamp,
}

/// Describes the object of a blob, given the name of the blob, the size of the body, its digests and its time.
pub type Describe<'a> = &'a dyn Fn(BlobName, u64, &Digests, Timestamp) -> Description;

/// A complete blob that no row refers to yet.
#[derive(Debug, Clone)]
pub struct NewBlob {
    /// Name of the blob.
    pub name: keys::BlobName,
    /// Value of its row in the catalog: the state, and the checksums as properties.
    pub value: Value,
}

impl NewBlob {
    fn new(name: BlobName, locations: Vec<Location>, crcs: &[u32]) -> NewBlob {
        let crcs: Vec<u8> = crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect();
        let head = BlobHead::complete(locations);
        NewBlob { name, value: Value { head: head.encode(), properties: crcs.into(), body: Bytes::new() } }
    }

    /// Records in a transaction that the blob is complete. Returns false if it was given up meanwhile.
    pub fn record(&self, t: &mut dyn Transaction) -> Result<bool, CatalogError> {
        // The session may have ended meanwhile. Another process has then given the blob up, and its bytes may be gone.
        let is_ours = writer_of(t, &self.name)?.is_some();
        if is_ours {
            t.put(keys::blob(&self.name), self.value.clone());
        }
        Ok(is_ours)
    }
}

impl StoredBody {
    /// Creates the body that a reader has read to its end into the catalog.
    fn inline(inline: Bytes, body: &mut BodyReader<'_>) -> Result<StoredBody, ApiError> {
        // The digests are verified before anything is written.
        let (size, digests) = (inline.len() as u64, body.finish()?);
        Ok(StoredBody { inline, blob: None, size, digests, at: wall_now() })
    }

    /// Returns the place of the body of an object.
    pub fn place(&self) -> Body {
        self.blob.as_ref().map_or(Body::Inline, |blob| Body::Blob(blob.name))
    }

    /// Returns the body as the piece of another one.
    pub fn piece(&self) -> Piece {
        self.blob.as_ref().map_or(Piece::Inline(self.size), |blob| Piece::Blob(blob.name, self.size))
    }
}

/// Returns the head of a new object. Its generation is the time.
fn new_head(body: Body, size: u64, digests: &Digests, at: Timestamp) -> Head {
    let checksum = digests.checksum.as_ref().map(|(algorithm, value)| {
        let bytes = plimsoll_s3::checksum::from_base64(value).unwrap_or_default();
        (*algorithm, bytes, true)
    });
    Head {
        marker: false,
        null: false,
        body,
        generation: at.as_nanosecond() as u64,
        size,
        modified_ms: at.as_millisecond(),
        md5: digests.md5,
        parts: 0,
        checksum,
    }
}

/// Returns the error for a body that a tier has not taken.
fn blob_error(error: &BlobError) -> ApiError {
    if error.is_full() {
        return ApiError::new(ErrorCode::InsufficientStorage);
    }
    plimsoll_catalog::log::warn(&error.to_string());
    match error {
        BlobError::Write { tier, .. } => {
            let text = format!("The storage tier {tier} does not take new objects. Try again.");
            ApiError::with(ErrorCode::ServiceUnavailable, text)
        }
        _ => ApiError::new(ErrorCode::InternalError),
    }
}

/// Time that a write waits for the answer of its tier, if there is another one.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// Failed write of a blob.
struct FailedWrite {
    error: ApiError,
    /// The body, if it is complete and in memory, so that it can be written to other tiers.
    body: Option<KeptBody>,
    /// Number of the tier that has not taken it.
    tier: Option<u16>,
}

impl From<ApiError> for FailedWrite {
    fn from(error: ApiError) -> FailedWrite {
        FailedWrite { error, body: None, tier: None }
    }
}

/// A verified body in memory.
struct KeptBody {
    pieces: Vec<Bytes>,
    /// Memory of the pieces and of a writer.
    _memory: Reservation,
    digests: Digests,
    at: Timestamp,
}

/// Reads a version of an object as a condition sees it: a delete marker does not exist.
fn with_existing<T>(head: Option<&Head>, f: impl FnOnce(Option<Existing<'_>>) -> T) -> T {
    let head = head.filter(|head| !head.marker);
    let etag = head.map(Head::etag).unwrap_or_default();
    f(head.map(|head| Existing { etag: &etag, modified_s: head.modified().as_second() }))
}

/// Returns the number of the session that writes a blob; `None` if the blob is not pending.
pub fn writer_of(t: &mut dyn Transaction, name: &keys::BlobName) -> Result<Option<u64>, CatalogError> {
    // A blob in doubt is not pending: a lost record may have made it part of an object.
    let row = unless_in_doubt(t.get(&keys::blob(name)))?;
    let head = row.and_then(|row| BlobHead::decode(&row.head));
    Ok(head.filter(|head| head.state == State::Pending).map(|head| head.version))
}

/// Writes an object in a transaction: checks the conditions, and replaces or retires the current version. The version
/// of `head` is set here, and its generation is raised above those of earlier versions. Returns the head.
pub fn write_object(
    t: &mut dyn Transaction,
    target: &ObjectAddress,
    mut head: Head,
    value: Value,
    conditions: &WriteConditions,
) -> Result<Result<Head, ApiError>, CatalogError> {
    // The bucket may have been deleted since the request began. Nobody could find an object in it.
    if let Err(error) = target.bucket.check(t)? {
        return Ok(Err(error));
    }
    let replaced = target.replaced(t, *conditions != WriteConditions::default())?;
    let current = replaced.current.as_ref();
    // In the transaction: of two writes with `If-None-Match: *`, only one may find nothing.
    let checked = with_existing(current.map(|(_, head)| head), |existing| conditions.check(existing));
    if let Err(error) = checked {
        return Ok(Err(error));
    }
    head.generation = target.next_generation(t, current, head.generation)?;
    head.null = target.make_room(t, &replaced, Removal::Replaced)?;
    let value = Value { head: head.encode(), ..value };
    t.put(keys::current(target.bucket.number, &target.key), value);
    Ok(Ok(head))
}

impl<C: Catalog> Store<C> {
    /// Reads a body to its end, verifies it, and stores it: in the catalog if it is small, else as a blob.
    pub(super) async fn store_body(
        &self,
        placement: &Placement,
        body: &mut BodyReader<'_>,
        describe: Describe<'_>,
    ) -> Result<StoredBody, ApiError> {
        if body.length().is_some_and(|length| length <= placement.inline) {
            let inline = body.collect(&self.memory).await?;
            return StoredBody::inline(inline, body);
        }
        // The length may be unknown. A body that ends within the limit stays in the catalog nevertheless.
        let mut first = BytesMut::new();
        while first.len() as u64 <= placement.inline {
            match body.next().await? {
                Some(piece) => first.extend_from_slice(&piece),
                None => return StoredBody::inline(first.freeze(), body),
            }
        }
        let (name, locations) = self.begin_blob(&placement.usable(self.blobs.tiers())).await?;
        // Without a fallback, no other tier could take a body that was kept.
        let keeps = placement.fallback.is_some();
        let failed = match self.store_blob(name, &locations, first.freeze(), body, describe, keeps).await {
            Ok((size, crcs, digests, at)) => {
                let blob = Some(NewBlob::new(name, locations, &crcs));
                return Ok(StoredBody { inline: Bytes::new(), blob, size, digests, at });
            }
            Err(failed) => failed,
        };
        // The request that has failed may still arrive at its tier. The second attempt has another name, and these
        // bytes are deleted twice (`SecondDelete`).
        self.abandon(&name).await;
        match (failed.body, failed.tier.and_then(|tier| placement.after_failure(tier))) {
            (Some(kept), Some(tiers)) => self.store_kept(&tiers, kept, describe).await,
            _ => Err(failed.error),
        }
    }

    /// Writes a body to tiers that replace one that has failed.
    async fn store_kept(
        &self,
        tiers: &[u16],
        kept: KeptBody,
        describe: Describe<'_>,
    ) -> Result<StoredBody, ApiError> {
        // `_memory` stays reserved until the end of this function.
        let KeptBody { pieces, _memory, digests, at } = kept;
        let (name, locations) = self.begin_blob(tiers).await?;
        let written = async {
            let mut writer = self.blobs.create(&locations)?;
            for piece in pieces {
                writer.write(piece).await?;
            }
            let object = describe(name, writer.size(), &digests, at);
            writer.finish_within(Some(WRITE_PATIENCE), Some(&object)).await
        };
        match written.await {
            Ok((size, crcs)) => {
                let blob = Some(NewBlob::new(name, locations, &crcs));
                Ok(StoredBody { inline: Bytes::new(), blob, size, digests, at })
            }
            Err(error) => {
                self.abandon(&name).await;
                Err(blob_error(&error))
            }
        }
    }

    /// Records a new blob before its first byte is written. Returns its name and its places.
    async fn begin_blob(&self, tiers: &[u16]) -> Result<(BlobName, Vec<Location>), ApiError> {
        let name = new_name();
        let mut names = std::iter::once(name).chain(std::iter::repeat_with(new_name));
        let locate = |(tier, name)| Location::new(tier, name);
        let locations: Vec<_> = tiers.iter().copied().zip(&mut names).map(locate).collect();
        // The session protects the blob: others give it up only when this session has ended (docs/decisions/0026).
        let pending = BlobHead::pending(self.session(), locations.clone());
        let intent = head_only(pending.encode());
        // It reads nothing, so a database needs no exclusive lock of the catalog for it (docs/decisions/0052).
        let reads = KnownReads { keys: Vec::new(), is_complete: true };
        self.transact(Expected { bytes: 64, reads }, move |t| {
            t.put(keys::blob(&name), intent.clone());
            Ok(Ok(()))
        })
        .await?;
        Ok((name, locations))
    }

    /// Writes a blob without a body, which only describes an object.
    pub(super) async fn store_description(
        &self,
        placement: &Placement,
        describe: impl FnOnce(BlobName) -> Description,
    ) -> Result<NewBlob, ApiError> {
        let (name, locations) = self.begin_blob(&placement.usable(self.blobs.tiers())).await?;
        let written = async { self.blobs.create(&locations)?.finish(Some(&describe(name))).await };
        match written.await {
            Ok((_, crcs)) => Ok(NewBlob::new(name, locations, &crcs)),
            Err(error) => {
                self.abandon(&name).await;
                Err(blob_error(&error))
            }
        }
    }

    async fn store_blob(
        &self,
        name: BlobName,
        locations: &[Location],
        first: Bytes,
        body: &mut BodyReader<'_>,
        describe: Describe<'_>,
        keeps: bool,
    ) -> Result<(u64, Vec<u32>, Digests, Timestamp), FailedWrite> {
        let mut writer = self.blobs.create(locations).map_err(|e| blob_error(&e))?;
        // Before the body is read: uploads beyond the limit get status 503, and do not use up the memory.
        let memory = self.memory.reserve(writer.memory())?;
        let mut kept = keeps.then(Vec::new);
        let mut next: Result<_, ApiError> = Ok(Some(first));
        loop {
            match next {
                Ok(Some(piece)) => {
                    // A body of several requests is not kept: without this limit, all of it would be in memory.
                    kept = kept.filter(|_| writer.is_one_request(piece.len()));
                    kept.iter_mut().for_each(|pieces: &mut Vec<Bytes>| pieces.push(piece.clone()));
                    if let Err(error) = writer.write(piece).await {
                        // The deletion of the blob does not find the parts of an unfinished upload, which a remote tier
                        // keeps and bills.
                        writer.abort().await;
                        return Err(blob_error(&error).into());
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    writer.abort().await;
                    return Err(error.into());
                }
            }
            next = body.next().await;
        }
        // Verified before the blob is complete, because its trailer has the digests, and `recover` relies on them.
        let digests = match body.finish() {
            Ok(digests) => digests,
            Err(error) => {
                writer.abort().await;
                return Err(error.into());
            }
        };
        // Row and trailer get the same time, from which the generation comes. `recover` orders versions by it.
        let at = wall_now();
        let object = describe(name, writer.size(), &digests, at);
        // A body that cannot go to another tier waits for as long as the client of its tier does.
        let patience = kept.as_ref().map(|_| WRITE_PATIENCE);
        match writer.finish_within(patience, Some(&object)).await {
            Ok((size, crcs)) => Ok((size, crcs, digests, at)),
            Err(error) => {
                let body = kept.filter(|_| error.is_unavailable());
                let body = body.map(|pieces| KeptBody { pieces, _memory: memory, digests, at });
                let tier = match &error {
                    BlobError::Write { tier, .. } => self.blobs.tiers().number(tier),
                    _ => None,
                };
                Err(FailedWrite { error: blob_error(&error), body, tier })
            }
        }
    }

    /// Gives up a blob after a failed transaction. If the transaction may be durable nevertheless, the blob stays: the
    /// next start deletes it if no row refers to it. A database knows whether the transaction is durable.
    pub(super) async fn abandon_after(&self, error: &TransactionError, name: &keys::BlobName) {
        if error.is_undone() || self.catalog.is_shared() {
            self.abandon(name).await;
        }
    }

    /// Gives up a blob that is not complete. If this fails, the blob is given up when the session of this process ends.
    pub async fn abandon(&self, name: &keys::BlobName) {
        let name = *name;
        // No state of the catalog has ever referred to these bytes, so they need not be kept.
        let at_ms = shared_now_ms().saturating_sub(self.retain_ms);
        let discarded = self.transact(0, move |t| {
            // On a full disk, too: without the entries for the deletion, the bytes would stay until the session ends.
            t.use_reserve();
            // A transaction with an unknown outcome may have made the blob part of an object. Then it is not pending.
            if writer_of(t, &name)?.is_some() {
                discard_blob(t, &name, at_ms)?;
            }
            Ok(Ok(()))
        });
        let discarded = discarded.await;
        if let Err(error) = discarded {
            plimsoll_catalog::log::warn(&format!("blob {}: {error}", text(&name)));
        }
    }

    pub(super) async fn put_object(
        &self,
        target: ObjectAddress,
        new: NewObject,
        body: &mut BodyReader<'_>,
    ) -> Result<ObjectInfo, ApiError> {
        let NewObject { headers, tags, acl, conditions, storage_class, .. } = new;
        let placement = self.placement(storage_class.as_deref())?;
        let properties = Properties { headers, tags, acl, ..Properties::default() };
        let encoded = properties.encode();
        let describe = |name: BlobName, size: u64, digests: &Digests, at: Timestamp| Description {
            catalog: self.catalog_id,
            blob: name,
            kind: Kind::Object,
            bucket: target.bucket.name.to_string(),
            key: target.key.clone(),
            head: new_head(Body::Blob(name), size, digests, at).encode(),
            properties: encoded.clone(),
            inline: Bytes::new(),
        };
        let stored = self.store_body(&placement, body, &describe).await?;
        let blob = stored.blob.as_ref().map(|blob| blob.name);
        let result = self.finish_put(target, properties, encoded, conditions, stored).await;
        if let (Err(error), Some(name)) = (&result, blob) {
            self.abandon_after(error, &name).await;
        }
        Ok(result?)
    }

    async fn finish_put(
        &self,
        target: ObjectAddress,
        properties: Properties,
        encoded: Bytes,
        conditions: WriteConditions,
        stored: StoredBody,
    ) -> Result<ObjectInfo, TransactionError> {
        let head = new_head(stored.place(), stored.size, &stored.digests, stored.at);
        let value = Value { head: Bytes::new(), properties: encoded, body: stored.inline };
        let mut expected = self.expected(value.body.len() + 512, &target, true);
        let blob = stored.blob;
        // `NewBlob::record` reads this row, too.
        expected.reads.keys.extend(blob.as_ref().map(|blob| keys::blob(&blob.name)));
        let with_version = target.bucket.is_versioned();
        let head = self
            .try_transact(expected, move |t| {
                // In the transaction that writes the object: its row must never refer to a blob that is not complete.
                if let Some(blob) = &blob
                    && !blob.record(t)?
                {
                    return Ok(Err(ApiError::new(ErrorCode::InternalError)));
                }
                write_object(t, &target, head.clone(), value.clone(), &conditions)
            })
            .await?;
        Ok(head.info(properties, with_version))
    }

    pub(super) async fn change(
        &self,
        target: ObjectAddress,
        version: Option<String>,
        change: ObjectChange,
    ) -> Result<Option<String>, ApiError> {
        let with_version = target.bucket.is_versioned();
        self.transact(self.expected(2048, &target, version.is_none()), move |t| {
            if let Err(error) = target.bucket.check(t)? {
                return Ok(Err(error));
            }
            let (key, row, head) = match super::version::find(t, &target, version.as_deref())? {
                Ok(found) => found,
                Err(error) => return Ok(Err(error)),
            };
            // A damaged value is an error here: if it was written again, it would look intact.
            let mut value = t.value(&row)?;
            let mut properties = intact(Properties::decode(&value.properties))?;
            match change.clone() {
                ObjectChange::Tags(tags) => properties.tags = tags,
                ObjectChange::Acl(acl) => properties.acl = acl,
            }
            value.properties = properties.encode();
            t.put(key, value);
            Ok(Ok(with_version.then(|| head.version())))
        })
        .await
    }
}
