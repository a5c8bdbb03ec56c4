//! Writes small bodies into pack files.
//!
//! The steps are those of a move: the pack file is recorded before its first byte is written, it is read back, and then
//! transactions change the rows of the objects, each only if its body is still the one that was written. A pack file
//! stays open, and is not deleted, until the last of these transactions.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::candidate::Candidate;
use super::pack_reader::Sources;
use super::planned_move::MoveError;
use super::verify::verify_blob;
use plimsoll_bodies::blob::BlobWriter;
use plimsoll_bodies::location::{BlobHead, Location};
use plimsoll_bodies::name::BlobName;
use plimsoll_bodies::name::new_name;
use plimsoll_bodies::pack_file::{Header, START, Slice};
use plimsoll_bodies::trailer::Description;
use plimsoll_catalog::ambient::shared_now_ms;
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{Catalog, CatalogError, Transaction, Value, unless_in_doubt};
use plimsoll_objects::body::BodyError;
use plimsoll_objects::discard::discard_row;
use plimsoll_objects::garbage::{after_reads, discard_blob};
use plimsoll_objects::live::{self, Live};
use plimsoll_objects::row::{Body, Head, Properties};
use plimsoll_objects::write::NewBlob;
use plimsoll_objects::{Store, keys};

/// A pack file to write.
#[derive(Debug, PartialEq)]
pub struct PackJob {
    /// Number of the tier that receives the pack file.
    pub tier: u16,
    /// Objects in the order of their keys.
    pub candidates: Vec<Candidate>,
    /// Size of their bodies in bytes.
    pub bytes: u64,
    /// Size of the pack file in bytes.
    pub size: u64,
    /// True if the pack file is to be written although it is not full.
    pub is_due: bool,
}

impl PackJob {
    /// Creates a job without objects.
    pub fn new(tier: u16) -> PackJob {
        PackJob { tier, candidates: Vec::new(), bytes: 0, size: START.len() as u64, is_due: false }
    }
}

/// Objects whose bodies are now in a pack file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packed {
    /// Number of objects.
    pub objects: u64,
    /// Size of their bodies in bytes.
    pub bytes: u64,
}

/// Number of rows that a transaction changes.
const ROWS: usize = 256;
/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// Writes a pack file, and makes the objects refer to it.
///
/// # Errors
/// If the catalog or a tier fails. The objects that do not refer to the pack file yet stay as they are.
pub async fn pack<C: Catalog>(store: &Store<C>, job: &PackJob) -> Result<Packed, MoveError> {
    let name = new_name();
    let location = Location::new(job.tier, name);
    let epoch = store.epoch();
    let intent = head_only(BlobHead::pending(store.session(), vec![location.clone()]).encode());
    // Durable before the first byte: after a crash, the row shows that the bytes belong to a session that has ended.
    store
        .transact_in(epoch, 64, move |t| {
            t.put(keys::blob(&name), intent.clone());
            Ok(Ok(()))
        })
        .await
        .map_err(MoveError::Catalog)?;
    let written = match write(store, job, &name, &location).await {
        Ok(Some(written)) => written,
        nothing => {
            // This session goes on, and `discard_unfinished` gives up only the blobs of sessions that have ended.
            store.abandon(&name).await;
            return nothing.map(|_| Packed::default());
        }
    };
    let packed = switch(store, job, epoch, name, &location, written).await;
    if packed.is_err() {
        // Rows may refer to the pack file already, so it is closed and not given up.
        let closed = store.transact_in(epoch, 64, move |t| Ok(Ok(close(t, &name)?))).await;
        match closed {
            // `abandon` leaves a pack file alone that is recorded as complete.
            Ok(()) => store.abandon(&name).await,
            Err(error) => {
                plimsoll_catalog::log::warn(&format!(
                    "a pack file stays open until the next start, or until another gateway leads: {error}"
                ));
            }
        }
    }
    packed
}

/// A pack file that was written and verified.
struct Written {
    size: u64,
    crcs: Arc<[u32]>,
    /// Bodies in the pack file: the index of the candidate, and the slice.
    slices: Vec<(usize, Slice)>,
}

/// Writes the bodies and reads them back. Returns `None` if no candidate has its body any more.
async fn write<C: Catalog>(
    store: &Store<C>,
    job: &PackJob,
    name: &BlobName,
    location: &Location,
) -> Result<Option<Written>, MoveError> {
    let mut writer = store.blobs.create(std::slice::from_ref(location))?;
    let slices = match write_bodies(store, job, name, &mut writer).await {
        Ok(slices) if !slices.is_empty() => slices,
        nothing => {
            writer.abort().await;
            return nothing.map(|_| None);
        }
    };
    let (size, crcs) = writer.finish(Some(&Description::of_pack_file(store.catalog_id, *name))).await?;
    let crcs: Arc<[u32]> = crcs.into();
    // Before any row refers to the pack file: afterwards, it has the only copies of bodies that were in the catalog.
    verify_blob(store, location, size, &crcs).await?;
    Ok(Some(Written { size, crcs, slices }))
}

async fn write_bodies<C: Catalog>(
    store: &Store<C>,
    job: &PackJob,
    name: &BlobName,
    writer: &mut BlobWriter,
) -> Result<Vec<(usize, Slice)>, MoveError> {
    let mut buffer = BytesMut::with_capacity(BUFFER + (BUFFER >> 2));
    buffer.extend_from_slice(START);
    let (mut slices, mut flushed) = (Vec::with_capacity(job.candidates.len()), 0);
    let mut sources = Sources::new(&job.candidates);
    for (index, candidate) in job.candidates.iter().enumerate() {
        // A body that has changed or is damaged does not keep the others from being packed.
        let Some((head, properties, body)) = read(store, candidate, &mut sources).await? else { continue };
        let (bucket, key) = (&*candidate.bucket, &*candidate.key);
        // The head still has the old place of the body. `recover` replaces it by the place in this pack file.
        let header = Header { bucket, key, head: &head.encode(), properties: &properties.encode() };
        let start = flushed + buffer.len() as u64;
        let (offset, crc) = header.put(&mut buffer, &body);
        let slice = Slice { pack_file: *name, offset: start + offset, size: body.len() as u64, crc };
        slices.push((index, slice));
        if buffer.len() >= BUFFER {
            flushed += buffer.len() as u64;
            writer.write(buffer.split().freeze()).await?;
        }
    }
    writer.write(buffer.freeze()).await?;
    Ok(slices)
}

/// Reads the row and the body of a candidate; `None` if it has changed or is damaged.
async fn read<C: Catalog>(
    store: &Store<C>,
    candidate: &Candidate,
    sources: &mut Sources,
) -> Result<Option<(Head, Properties, Bytes)>, MoveError> {
    let key = &candidate.catalog_key;
    let value = match store.catalog.get(key) {
        Ok(Some(row)) => store.catalog.value(key, &row),
        Ok(None) => return Ok(None),
        Err(error) => Err(error),
    };
    let value = match value {
        // Other objects of the job are intact, so one damaged or replaced row does not end the job.
        Err(CatalogError::Damaged { .. } | CatalogError::Changed) => return Ok(None),
        value => value?,
    };
    let Some((head, properties)) = unchanged(candidate, &value) else { return Ok(None) };
    // Neighbours share a request. If it fails or this body is damaged, `collect` tries each place of the pack file.
    if let Body::Slice(slice) = &head.body
        && let Some(body) = sources.read(store, slice).await
    {
        return Ok(Some((head, properties, body)));
    }
    let body = match store.collect(&head, value.body, Vec::new()).await {
        Ok(body) => body,
        // Also a body that its tier has lost: it must not end the job for the others at each visit.
        Err(BodyError::Blob { error, .. }) if !error.is_unavailable() => {
            plimsoll_catalog::log::warn(&format!(
                "{}/{} is not packed: {error}",
                candidate.bucket, candidate.key
            ));
            return Ok(None);
        }
        Err(BodyError::Unknown(_)) => return Ok(None),
        Err(BodyError::Catalog(error)) => return Err(error.into()),
        // A tier that does not answer may do so at the next visit, which finds the same objects.
        Err(BodyError::Blob { error, .. }) => return Err(error.into()),
    };
    // The size of a slice is not stored: `Head::decode` takes it from the head, so the two must be equal.
    Ok((body.len() as u64 == head.size).then_some((head, properties, body)))
}

/// Decodes the row of a candidate if its body is still the same.
fn unchanged(candidate: &Candidate, value: &Value) -> Option<(Head, Properties)> {
    let head = Head::decode(&value.head)?;
    let properties = Properties::decode(&value.properties)?;
    // Each write of a client changes the generation, and each packing changes the body. New tags change neither, and
    // the switch keeps the properties that the row then has.
    let is_same = head.generation == candidate.generation && head.body == candidate.body;
    is_same.then_some((head, properties))
}

/// Makes the objects refer to the pack file.
async fn switch<C: Catalog>(
    store: &Store<C>,
    job: &PackJob,
    epoch: u64,
    name: BlobName,
    location: &Location,
    written: Written,
) -> Result<Packed, MoveError> {
    let head = BlobHead::complete(vec![location.clone()]);
    let properties: Vec<u8> = written.crcs.iter().flat_map(|crc| crc.to_le_bytes()).collect();
    let value = Value { head: head.encode(), properties: properties.into(), body: Bytes::new() };
    let bytes = written.slices.iter().map(|(_, slice)| slice.size).sum();
    let records = written.slices.len() as u64;
    // Open until the last chunk. Else the pack file would be garbage after the first transaction, which counts nothing,
    // or when the objects that are switched first are deleted before the others.
    let (size, used_until_ms) = (written.size, Some(0));
    let empty = Live { open: true, size, records, bytes, used_until_ms, ..Live::default() };
    let recorded = store.transact_in(epoch, 4096, move |t| {
        // In one transaction: a complete blob without counts would never be discarded.
        let is_ours = NewBlob { name, value: value.clone() }.record(t)?;
        if is_ours {
            live::store(t, &name, empty, after_reads())?;
        }
        Ok(Ok(is_ours))
    });
    if !recorded.await.map_err(MoveError::Catalog)? {
        return Ok(Packed::default());
    }
    let retain_ms = store.retain_ms;
    let mut packed = Packed::default();
    let last = written.slices.len().saturating_sub(1) / ROWS;
    // One transaction for up to 100,000 rows would delay the writes of clients (decision 0024).
    for (number, chunk) in written.slices.chunks(ROWS).enumerate() {
        let rows: Vec<_> =
            chunk.iter().map(|(index, slice)| (job.candidates[*index].clone(), *slice)).collect();
        let is_last = number == last;
        let switched = store.transact_in(epoch, ROWS * 300, move |t| {
            let switched = switch_rows(t, &name, &rows, retain_ms)?;
            // With the last rows: a crash before a separate transaction would leave the file open (`close_unfinished`).
            if is_last {
                close(t, &name)?;
            }
            Ok(Ok(switched))
        });
        let switched = switched.await.map_err(MoveError::Catalog)?;
        packed.objects += switched.objects;
        packed.bytes += switched.bytes;
    }
    Ok(packed)
}

/// Changes the rows whose bodies are still the same, and counts them.
fn switch_rows(
    t: &mut dyn Transaction,
    pack_file: &BlobName,
    rows: &[(Candidate, Slice)],
    retain_ms: u64,
) -> Result<Packed, CatalogError> {
    let mut packed = Packed::default();
    // Rows must not refer to a pack file that was closed without them, and may be deleted.
    let Some(mut live) = live::load(t, pack_file)?.filter(|live| live.open) else { return Ok(packed) };
    for (candidate, slice) in rows {
        let Some(row) = unless_in_doubt(t.get(&candidate.catalog_key))? else { continue };
        let value = match t.value(&row) {
            // The new row needs the properties, so an object without them keeps its body where it is.
            Err(CatalogError::Damaged { .. }) => continue,
            value => value?,
        };
        // A client may have replaced the object since its body was read. Its new body wins.
        let Some((head, _)) = unchanged(candidate, &value) else { continue };
        match &head.body {
            Body::Blob(name) => {
                // Packing has no rollback, but `keep_source` applies. The deletion adds `retain_ms`, so only the rest
                // is added here. Open reads of the blob need it for some seconds in any case.
                let kept_ms = candidate.keep_source_ms.saturating_sub(retain_ms);
                discard_blob(t, name, after_reads().max(shared_now_ms() + kept_ms))?;
            }
            // A slice leaves its old pack file in the same transaction, so that both counts agree with the rows.
            _ => discard_row(t, &head, &row, after_reads())?,
        }
        let head = Head { body: Body::Slice(*slice), ..head };
        let value = Value { head: head.encode(), body: Bytes::new(), ..value };
        t.put(candidate.catalog_key.clone(), value);
        packed.objects += 1;
        packed.bytes += slice.size;
    }
    // Counted together with the rows: with a lower count, the pack file would be deleted while objects use it.
    live.live += packed.objects;
    live.live_bytes += packed.bytes;
    live::store(t, pack_file, live, after_reads())?;
    Ok(packed)
}

/// Closes a pack file: from now on it is deleted when no object refers to it.
fn close(t: &mut dyn Transaction, pack_file: &BlobName) -> Result<(), CatalogError> {
    match live::load(t, pack_file)? {
        Some(live) if live.open => live::store(t, pack_file, Live { open: false, ..live }, after_reads()),
        // It was closed before, or never recorded. Counts in doubt are left alone, and the pack file stays.
        _ => Ok(()),
    }
}

/// Closes the pack files that earlier processes, or earlier work of this one, left open.
///
/// # Errors
/// If the catalog fails.
pub async fn close_unfinished<C: Catalog>(store: &Store<C>) -> Result<(), MoveError> {
    let epoch = store.epoch();
    // An open pack file is never garbage: without this, its bytes would stay after its last object is gone.
    let open = super::scan::all_pack_files(store)?.into_iter().filter(|(_, live)| live.open);
    for (name, _) in open.collect::<Vec<_>>() {
        let closed = store.transact_in(epoch, 64, move |t| Ok(Ok(close(t, &name)?)));
        closed.await.map_err(MoveError::Catalog)?;
    }
    Ok(())
}
