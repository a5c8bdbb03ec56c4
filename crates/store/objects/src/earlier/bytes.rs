//! Writes objects as they were.

use plimsoll_server::body::BodyReader;
use plimsoll_server::conditions::WriteConditions;
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::service::NewObject;

use crate::row::{Head, Properties};
use crate::version::ObjectAddress;
use crate::write::write_object;
use crate::{Store, keys};
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::{Catalog, Value, intact};

/// Writes an object whose body is in its row.
pub(super) async fn write<C: Catalog>(
    store: &Store<C>,
    target: ObjectAddress,
    head: Head,
    value: Value,
) -> Result<(), ApiError> {
    let bytes = value.body.len() + value.properties.len() + 512;
    let written = store.transact(bytes, move |t| {
        let now = wall_now();
        let (generation, modified_ms) = (now.as_nanosecond() as u64, now.as_millisecond());
        // With its old time, a lifecycle rule could remove the object again at once.
        let head = Head { generation, modified_ms, ..head.clone() };
        write_object(t, &target, head, value.clone(), &WriteConditions::default())
    });
    written.await.map(|_| ())
}

/// Copies a version, which becomes the current one, with the same parts and checksums. Returns false if it has gone.
pub(super) async fn copy<C: Catalog>(
    store: &Store<C>,
    target: ObjectAddress,
    row_key: Vec<u8>,
    head: &Head,
) -> Result<bool, ApiError> {
    let from = Version { store, address: target.clone(), row_key, head };
    copy_from(from, store, target).await
}

/// A version of a store.
pub(super) struct Version<'a, C> {
    /// Store that has it.
    pub store: &'a Store<C>,
    /// Its object there.
    pub address: ObjectAddress,
    /// Its catalog key there.
    pub row_key: Vec<u8>,
    /// Head of its row.
    pub head: &'a Head,
}

/// Copies a version of a store into another store, or the same one. Returns false if it has gone.
pub(super) async fn copy_from<C: Catalog, D: Catalog>(
    from: Version<'_, D>,
    store: &Store<C>,
    target: ObjectAddress,
) -> Result<bool, ApiError> {
    let Version { store: source, address, row_key, head } = from;
    let found = match source.find_object(&address, Some(&head.version())).await {
        Err(error) if error.code == ErrorCode::NoSuchVersion => return Ok(false),
        found => found?,
    };
    let failed = super::super::error::for_client;
    let Some(row) = source.catalog.get(&row_key).map_err(failed)? else { return Ok(false) };
    let properties = source.catalog.properties(&row_key, &row).map_err(failed)?;
    let old = intact(Properties::decode(&properties)).map_err(failed)?;
    let info = &found.info;
    let new = NewObject {
        headers: info.headers.clone(),
        tags: info.tags.clone(),
        acl: info.acl,
        checksum: info.checksum.as_ref().map(|checksum| checksum.algorithm),
        conditions: WriteConditions::default(),
        storage_class: None,
    };
    let (size, checksum) = (info.size, new.checksum);
    let content = source.read_object(found, 0..size).await?;
    let mut body = BodyReader::of_object(content);
    body.want(checksum);
    let written = store.put_object(target.clone(), new, &mut body).await?;
    if head.parts == 0 {
        return Ok(true);
    }
    // The digest of an object with parts is that of its parts.
    let (before, etag, written_as) = (head.clone(), written.etag().to_string(), written.version);
    let current = keys::current(target.bucket.number, &target.key);
    let described = store.transact(1024, move |t| {
        let Some(row) = t.get(&current)? else { return Ok(Ok(())) };
        let now = intact(Head::decode(&row.head))?;
        // A client may have written the object since, and its digests must stay.
        let is_version = written_as.as_ref().is_none_or(|version| *version == now.version());
        // Without versions, the digest of the bytes tells.
        if !is_version || etag != now.etag() {
            return Ok(Ok(()));
        }
        let value = t.value(&row)?;
        let mut properties = intact(Properties::decode(&value.properties))?;
        (properties.parts, properties.upload_id) = (old.parts.clone(), old.upload_id.clone());
        let Head { md5, parts, checksum, .. } = before.clone();
        let head = Head { md5, parts, checksum, ..now }.encode();
        t.put(current.clone(), Value { head, properties: properties.encode(), ..value });
        Ok(Ok(()))
    });
    described.await.map(|()| true)
}
