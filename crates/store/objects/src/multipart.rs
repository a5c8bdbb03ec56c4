//! Multipart uploads and their parts.

use std::ops::Bound;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::Algorithm;
use plimsoll_server::body::{BodyReader, Digests};
use plimsoll_server::conditions::WriteConditions;
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::service::{
    Completion, NewObject, ObjectInfo, ObjectPart, PartInfo, UploadInfo, UploadName,
};

use super::discard::discard_piece;
use super::error::for_client;
use super::garbage::after_reads;
use super::keys::UploadId;
use super::row::{Body, Head, Piece, Properties, checksum, checksum_bytes, piece, put_checksum, put_piece};
use super::version::ObjectAddress;
use super::write::{NewBlob, write_object};
use super::{Bucket, Store, keys};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::name::new_name;
use plimsoll_bodies::trailer::{Description, Kind};
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::codec::{Reader, put_bytes, put_number};
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value, intact, unless_in_doubt};

fn no_upload() -> ApiError {
    ApiError::new(ErrorCode::NoSuchUpload)
}

/// Returns the bytes of an upload id; `None` if it is malformed.
fn parse_id(text: &str) -> Option<UploadId> {
    let mut id = [0; 16];
    // Without the second check, the slices below could cut a character, and panic.
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(id)
}

/// Encodes an upload: creation time, checksum and the properties of its object.
fn encode_upload(upload: &UploadInfo) -> Value {
    let mut head = Vec::new();
    put_number(&mut head, upload.initiated.as_millisecond() as u64);
    let checksum =
        upload.checksum.map(|(algorithm, full)| (algorithm, if full { "full" } else { "" }.into()));
    put_checksum(&mut head, checksum.as_ref());
    // It may be missing, so it comes last.
    if let Some(class) = &upload.object.storage_class {
        put_bytes(&mut head, class.as_bytes());
    }
    let properties = Properties {
        headers: upload.object.headers.clone(),
        tags: upload.object.tags.clone(),
        acl: upload.object.acl,
        ..Properties::default()
    };
    Value { head: head.into(), properties: properties.encode(), body: Bytes::new() }
}

fn decode_upload(value: &Value) -> Option<UploadInfo> {
    let mut reader = Reader(&value.head);
    let initiated = jiff::Timestamp::from_millisecond(reader.number()? as i64).ok()?;
    let checksum = checksum(&mut reader)?.map(|(algorithm, kind)| (algorithm, kind == "full"));
    let properties = Properties::decode(&value.properties)?;
    let object = NewObject {
        headers: properties.headers,
        tags: properties.tags,
        acl: properties.acl,
        checksum: None,
        conditions: WriteConditions::default(),
        storage_class: reader.text().map(str::to_string),
    };
    Some(UploadInfo { object, checksum, initiated })
}

/// A stored part: its properties and its body.
struct StoredPart {
    info: PartInfo,
    piece: Piece,
}

impl StoredPart {
    fn encode(&self, inline: Bytes) -> Value {
        let mut head = Vec::new();
        put_number(&mut head, u64::from(self.info.number));
        put_number(&mut head, self.info.size);
        head.extend_from_slice(&self.info.md5);
        put_bytes(&mut head, self.info.crc64.as_bytes());
        put_number(&mut head, self.info.modified.as_millisecond() as u64);
        put_checksum(&mut head, self.info.checksum.as_ref());
        put_piece(&mut head, &self.piece);
        Value { head: head.into(), properties: Bytes::new(), body: inline }
    }

    fn decode(head: &[u8]) -> Option<StoredPart> {
        let mut reader = Reader(head);
        let info = PartInfo {
            number: reader.number()? as u32,
            size: reader.number()?,
            md5: reader.array()?,
            crc64: reader.text()?.to_string(),
            modified: jiff::Timestamp::from_millisecond(reader.number()? as i64).ok()?,
            checksum: checksum(&mut reader)?,
        };
        Some(StoredPart { info, piece: piece(&mut reader)? })
    }

    /// Puts the blob of the part on the list of garbage.
    fn discard(&self, t: &mut dyn Transaction) -> Result<(), CatalogError> {
        discard_piece(t, &self.piece, after_reads())
    }
}

/// Removes an upload and all its parts. Blobs of the parts that `keep` accepts stay.
fn remove_upload(
    t: &mut dyn Transaction,
    upload_key: Vec<u8>,
    id: &UploadId,
    keep: impl Fn(&PartInfo) -> bool,
) -> Result<(), CatalogError> {
    let prefix = keys::parts(id);
    let mut from = prefix.clone();
    while let Some((key, row)) = t.first(&prefix, &from)? {
        let part = intact(StoredPart::decode(&row.head))?;
        // The bytes of a part that is in doubt may belong to an object.
        if !keep(&part.info) && unless_in_doubt(t.get(&key))?.is_some() {
            part.discard(t)?;
        }
        from = [key.as_slice(), &[0]].concat();
        t.delete(key);
    }
    t.delete(upload_key);
    Ok(())
}

/// The parts of an upload, joined.
struct Joined {
    pieces: Vec<Piece>,
    /// Bodies of the inline pieces.
    inline: Bytes,
}

impl Joined {
    /// Returns true if a piece is a blob.
    fn has_blobs(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Blob(..)))
    }
}

/// Joins the parts that a client lists.
fn join(
    t: &mut dyn Transaction,
    id: &UploadId,
    completion: &Completion,
) -> Result<Result<Joined, ApiError>, CatalogError> {
    let (mut pieces, mut inline) = (Vec::new(), BytesMut::new());
    for wanted in &completion.parts {
        let row = t.get(&keys::part(id, wanted.number))?;
        let part = row.as_ref().and_then(|row| StoredPart::decode(&row.head));
        // The part may have been replaced since the request has compared it with the list of the client.
        let (Some(row), Some(part)) = (row, part.filter(|part| part.info == *wanted)) else {
            return Ok(Err(ApiError::new(ErrorCode::InvalidPart)));
        };
        if let Piece::Inline(_) = part.piece {
            inline.extend_from_slice(&t.value(&row)?.body);
        }
        pieces.push(part.piece);
    }
    Ok(Ok(Joined { pieces, inline: inline.freeze() }))
}

/// Returns the head and the properties of the object of an upload.
fn completed(
    id: &UploadId,
    completion: &Completion,
    upload: UploadInfo,
    pieces: Vec<Piece>,
    at: Timestamp,
) -> (Head, Properties) {
    // Without blobs, the row has the whole body, and a list of pieces is of no use.
    let is_inline = pieces.iter().all(|piece| matches!(piece, Piece::Inline(_)));
    let properties = Properties {
        headers: upload.object.headers,
        tags: upload.object.tags,
        acl: upload.object.acl,
        parts: completion.parts.iter().cloned().map(ObjectPart::from).collect(),
        pieces: if is_inline { Vec::new() } else { pieces },
        upload_id: Some(hex(id)),
    };
    let digests: Vec<u8> = completion.parts.iter().flat_map(|part| part.md5).collect();
    let head = Head {
        marker: false,
        null: false,
        body: if is_inline { Body::Inline } else { Body::Pieces },
        generation: at.as_nanosecond() as u64,
        size: completion.parts.iter().map(|part| part.size).sum(),
        modified_ms: at.as_millisecond(),
        md5: plimsoll_s3::checksum::md5(&digests),
        parts: completion.parts.len() as u32,
        checksum: Some(checksum_bytes(&completion.checksum)),
    };
    (head, properties)
}

impl<C: Catalog> Store<C> {
    pub(super) async fn new_upload(
        &self,
        target: ObjectAddress,
        upload: UploadInfo,
    ) -> Result<String, ApiError> {
        // A class that no tier has is refused before the first part.
        self.placement(upload.object.storage_class.as_deref())?;
        let id = new_name();
        let key = keys::upload(target.bucket.number, &target.key, &id);
        self.transact(1024, move |t| {
            if let Err(error) = target.bucket.check(t)? {
                return Ok(Err(error));
            }
            t.put(key.clone(), encode_upload(&upload));
            Ok(Ok(()))
        })
        .await?;
        Ok(hex(&id))
    }

    /// Describes a blob that is a piece of an object.
    fn describe_piece(&self, target: &ObjectAddress, blob: BlobName) -> Description {
        let (bucket, key) = (target.bucket.name.to_string(), target.key.clone());
        let (head, properties, inline) = Default::default();
        Description {
            catalog: self.catalog_id,
            blob,
            kind: Kind::Piece,
            bucket,
            key,
            head,
            properties,
            inline,
        }
    }

    pub(super) fn find_upload(&self, bucket: &Bucket, name: UploadName<'_>) -> Result<UploadInfo, ApiError> {
        let id = parse_id(name.id).ok_or_else(no_upload)?;
        let key = keys::upload(bucket.number, name.key, &id);
        let row = self.catalog.get(&key).map_err(for_client)?.ok_or_else(no_upload)?;
        let value = self.catalog.value(&key, &row).map_err(for_client)?;
        intact(decode_upload(&value)).map_err(for_client)
    }

    pub(super) async fn new_part(
        &self,
        target: ObjectAddress,
        upload_id: &str,
        number: u32,
        checksum: Option<Algorithm>,
        body: &mut BodyReader<'_>,
    ) -> Result<PartInfo, ApiError> {
        let id = parse_id(upload_id).ok_or_else(no_upload)?;
        let describe = |blob: BlobName, _: u64, _: &Digests, _: Timestamp| self.describe_piece(&target, blob);
        // Without classes, all uploads have the same places. The transaction below looks the upload up in any case.
        let placement = match self.class_names.is_empty() {
            true => self.placement(None)?,
            false => {
                let upload =
                    self.find_upload(&target.bucket, UploadName { key: &target.key, id: upload_id })?;
                self.placement_of_upload(&upload)
            }
        };
        let stored = self.store_body(&placement, body, &describe).await?;
        let blob = stored.blob.clone();
        let result = async {
            let digests = &stored.digests;
            let info = PartInfo {
                number,
                size: stored.size,
                md5: digests.md5,
                crc64: digests.crc64.clone(),
                modified: jiff::Timestamp::from_millisecond(wall_now().as_millisecond()).unwrap_or_default(),
                checksum: digests.checksum.clone().filter(|(a, _)| checksum.is_none_or(|c| c == *a)),
            };
            let part = StoredPart { info: info.clone(), piece: stored.piece() };
            let value = part.encode(stored.inline);
            let upload_key = keys::upload(target.bucket.number, &target.key, &id);
            let new_blob = stored.blob;
            self.try_transact(value.body.len() + 256, move |t| {
                // The upload may have ended while the body was received. Nothing would ever remove the part.
                if t.get(&upload_key)?.is_none() {
                    return Ok(Err(no_upload()));
                }
                if let Some(blob) = &new_blob
                    && !blob.record(t)?
                {
                    return Ok(Err(ApiError::new(ErrorCode::InternalError)));
                }
                let key = keys::part(&id, number);
                // A part in doubt is replaced and releases nothing, as in `remove_upload`.
                if let Some(row) = unless_in_doubt(t.get(&key))? {
                    intact(StoredPart::decode(&row.head))?.discard(t)?;
                }
                t.put(key, value.clone());
                Ok(Ok(()))
            })
            .await?;
            Ok(info)
        };
        let result = result.await;
        if let (Err(error), Some(blob)) = (&result, blob) {
            self.abandon_after(error, &blob.name).await;
        }
        Ok(result?)
    }

    pub(super) fn all_parts(&self, bucket: &Bucket, name: UploadName<'_>) -> Result<Vec<PartInfo>, ApiError> {
        // Keys of parts have only the id. This check keeps the uploads of other buckets and keys apart.
        self.find_upload(bucket, name)?;
        let id = parse_id(name.id).ok_or_else(no_upload)?;
        let prefix = keys::parts(&id);
        let mut scan = self.catalog.scan();
        scan.seek(Bound::Included(&prefix)).map_err(for_client)?;
        let mut parts = Vec::new();
        while let Some((key, row)) = scan.next().map_err(for_client)? {
            if !key.starts_with(&prefix) {
                break;
            }
            parts.push(intact(StoredPart::decode(&row.head)).map_err(for_client)?.info);
        }
        Ok(parts)
    }

    pub(super) async fn complete(
        &self,
        target: ObjectAddress,
        upload_id: &str,
        completion: Completion,
    ) -> Result<ObjectInfo, ApiError> {
        let id = parse_id(upload_id).ok_or_else(no_upload)?;
        let with_version = target.bucket.is_versioned();
        // One time for the manifest and the row, as in `store_blob`.
        let at = wall_now();
        // Before the transaction: when the object exists, its manifest must be complete in the tiers.
        let manifest = self.store_manifest(&target, &id, &completion, at).await?;
        let name = manifest.as_ref().map(|manifest| manifest.name);
        let completed = self.try_transact(4096, move |t| {
            let upload_key = keys::upload(target.bucket.number, &target.key, &id);
            let Some(row) = t.get(&upload_key)? else { return Ok(Err(no_upload())) };
            let upload = intact(decode_upload(&t.value(&row)?))?;
            let mut joined = match join(t, &id, &completion)? {
                Ok(joined) => joined,
                Err(error) => return Ok(Err(error)),
            };
            match &manifest {
                Some(manifest) if joined.has_blobs() => {
                    // As a piece of the object, the manifest moves and is deleted with it (docs/decisions/0040).
                    joined.pieces.push(Piece::Blob(manifest.name, 0));
                    if !manifest.record(t)? {
                        return Ok(Err(ApiError::new(ErrorCode::InternalError)));
                    }
                }
                None if !joined.has_blobs() => {}
                // A part was replaced meanwhile.
                _ => return Ok(Err(ApiError::new(ErrorCode::OperationAborted))),
            }
            let (head, properties) = completed(&id, &completion, upload, joined.pieces, at);
            let value = Value { head: Bytes::new(), properties: properties.encode(), body: joined.inline };
            let head = match write_object(t, &target, head, value, &completion.conditions)? {
                Ok(head) => head,
                Err(error) => return Ok(Err(error)),
            };
            // The blobs of the listed parts are pieces of the object now.
            remove_upload(t, upload_key, &id, |part| completion.parts.contains(part))?;
            Ok(Ok((head, properties)))
        });
        let completed = completed.await;
        if let (Err(error), Some(name)) = (&completed, name) {
            self.abandon_after(error, &name).await;
        }
        let (head, properties) = completed?;
        Ok(head.info(properties, with_version))
    }

    /// Writes a blob that describes the object of an upload, so that its pieces can be found without the catalog;
    /// `None` if no piece is a blob.
    async fn store_manifest(
        &self,
        target: &ObjectAddress,
        id: &UploadId,
        completion: &Completion,
        at: Timestamp,
    ) -> Result<Option<NewBlob>, ApiError> {
        let (id, planned) = (*id, completion.clone());
        let upload_key = keys::upload(target.bucket.number, &target.key, &id);
        // A transaction, because the parts must be those of one moment.
        let found = self.transact(0, move |t| {
            let Some(row) = t.get(&upload_key)? else { return Ok(Err(no_upload())) };
            let upload = intact(decode_upload(&t.value(&row)?))?;
            Ok(join(t, &id, &planned)?.map(|joined| (upload, joined)))
        });
        let (upload, joined) = found.await?;
        if !joined.has_blobs() {
            return Ok(None);
        }
        let placement = self.placement_of_upload(&upload);
        let described = self.store_description(&placement, |blob| {
            let mut pieces = joined.pieces;
            pieces.push(Piece::Blob(blob, 0));
            let (head, properties) = completed(&id, completion, upload, pieces, at);
            Description {
                catalog: self.catalog_id,
                blob,
                kind: Kind::Manifest,
                bucket: target.bucket.name.to_string(),
                key: target.key.clone(),
                head: head.encode(),
                properties: properties.encode(),
                inline: joined.inline,
            }
        });
        described.await.map(Some)
    }

    /// Removes an upload and its parts.
    pub async fn end_upload(&self, bucket: &Arc<Bucket>, key: &str, id: UploadId) -> Result<(), ApiError> {
        let upload_key = keys::upload(bucket.number, key, &id);
        self.transact(0, move |t| {
            // On a full disk, the end of an upload frees space.
            t.use_reserve();
            // An upload in doubt can be ended, too. Its parts in doubt release nothing.
            if t.last_known(&upload_key)?.is_none() {
                return Ok(Err(no_upload()));
            }
            remove_upload(t, upload_key.clone(), &id, |_| false)?;
            Ok(Ok(()))
        })
        .await
    }

    pub(super) async fn abort(&self, bucket: &Arc<Bucket>, name: UploadName<'_>) -> Result<(), ApiError> {
        let id = parse_id(name.id).ok_or_else(no_upload)?;
        self.end_upload(bucket, name.key, id).await
    }

    /// Returns the ids and keys of all uploads in a bucket.
    pub(super) fn upload_ids(&self, bucket: &Bucket) -> Result<Vec<(UploadId, String)>, ApiError> {
        let mut all = Vec::new();
        self.visit_uploads(bucket, "", &mut |key, id, _| {
            all.push((id, key.to_string()));
            true
        })?;
        Ok(all)
    }

    /// Calls `visit` with the key, id and properties of the uploads with this prefix until it returns false.
    pub fn visit_uploads(
        &self,
        bucket: &Bucket,
        prefix: &str,
        visit: &mut dyn FnMut(&str, UploadId, &UploadInfo) -> bool,
    ) -> Result<(), ApiError> {
        let start = keys::uploads(bucket.number, prefix);
        let mut scan = self.catalog.scan();
        scan.seek(Bound::Included(&start)).map_err(for_client)?;
        while let Some((catalog_key, row)) = scan.next().map_err(for_client)? {
            if !catalog_key.starts_with(&start) {
                break;
            }
            let (key, id) = intact(keys::parse_upload(&catalog_key)).map_err(for_client)?;
            let value = self.catalog.value(&catalog_key, &row).map_err(for_client)?;
            let upload = intact(decode_upload(&value)).map_err(for_client)?;
            if !visit(&key, id, &upload) {
                break;
            }
        }
        Ok(())
    }
}
