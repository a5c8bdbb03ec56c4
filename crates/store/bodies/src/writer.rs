//! Writes of blobs: one body as a stream to one place or several, in one request or in parts.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::path::Path;
use object_store::{
    Attributes, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, TagSet,
};

use super::chunks::{CHUNK, ChunkCrcs, Pieces};
use super::error::BlobError;
use super::trailer::Description;
use crate::tier::Tier;
use plimsoll_catalog::ambient::in_time;

/// Number of bytes written to a file at a time. Large pieces are slower, because the page cache then needs large blocks
/// of free memory.
const PIECE: usize = 32 * 1024;

/// Properties of a backend's object, for objects that others read.
#[derive(Debug, Clone, Default)]
pub struct Appearance {
    /// Headers and user metadata.
    pub attributes: Attributes,
    /// Tags of the object.
    pub tags: TagSet,
    /// Sizes of the parts in which the object is uploaded; empty for the usual ones.
    pub parts: Vec<usize>,
}

/// One of the places of a blob that is being written.
pub struct BlobCopy {
    tier: Tier,
    path: Path,
    attributes: Attributes,
    tags: TagSet,
    /// Upload in parts; `None` until the first part is complete.
    upload: Option<Box<dyn MultipartUpload>>,
    in_flight: Option<tokio::task::JoinHandle<object_store::Result<()>>>,
}

impl BlobCopy {
    /// Selects a path in a tier, before anything is written there.
    pub fn new(tier: Tier, path: Path, appearance: &Appearance) -> BlobCopy {
        let mut attributes = tier.attributes();
        for (name, value) in &appearance.attributes {
            attributes.insert(name.clone(), value.clone());
        }
        BlobCopy { tier, path, attributes, tags: appearance.tags.clone(), upload: None, in_flight: None }
    }

    /// Returns the result of a request that has sent bytes, and records whether the tier has taken them.
    fn checked<T>(&self, result: object_store::Result<T>) -> Result<T, BlobError> {
        let answer = result.map_err(|error| self.failed(error))?;
        self.tier.writes.recover();
        Ok(answer)
    }

    /// Records that the tier has not taken the bytes of a request.
    fn failed(&self, error: object_store::Error) -> BlobError {
        let error = BlobError::Write { tier: self.tier.name.clone(), error };
        if !error.is_full() {
            self.tier.writes.fail();
        }
        error
    }
}

/// A blob that is being written to one place or to several.
pub struct BlobWriter {
    targets: Vec<BlobCopy>,
    /// Length of a part in bytes.
    part: usize,
    /// Lengths of the next parts, which come first.
    chosen: VecDeque<usize>,
    pieces: Pieces,
    crcs: ChunkCrcs,
    size: u64,
    /// Time in which a tier must take a blob of one request; `None` if its client decides.
    patience: Option<Duration>,
}

/// Returns the error for a tier that has not answered in time.
fn silent(time: Duration) -> object_store::Error {
    let source = format!("no answer in {} s", time.as_secs()).into();
    object_store::Error::Generic { store: "tier", source }
}

/// Returns the size of a written blob in bytes and its checksums, of which each chunk has one.
fn checked(size: u64, crcs: Vec<u32>) -> (u64, Vec<u32>) {
    let (chunks, count) = (size.div_ceil(CHUNK as u64), crcs.len() as u64);
    assert_eq!(count, chunks, "a blob of {size} bytes has {count} checksums for {chunks} chunks");
    (size, crcs)
}

impl BlobWriter {
    /// Starts to write a blob to these places, in parts of these lengths, and then of `part` bytes.
    pub fn new(targets: Vec<BlobCopy>, chosen: Vec<usize>, part: usize) -> BlobWriter {
        let (pieces, crcs, chosen) = (Pieces::default(), ChunkCrcs::default(), chosen.into());
        BlobWriter { targets, part, chosen, pieces, crcs, size: 0, patience: None }
    }

    /// Returns the length of the next part in bytes.
    fn part(&self) -> usize {
        self.chosen.front().copied().unwrap_or(self.part)
    }

    /// Appends bytes. At most two parts are in memory.
    ///
    /// # Errors
    /// If the backend fails.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), BlobError> {
        self.size += bytes.len() as u64;
        while !bytes.is_empty() {
            // The last part stays until the end, because the trailer is sent with it.
            if self.pieces.len() == self.part() {
                self.send().await?;
            }
            let (held, part) = (self.pieces.len(), self.part());
            assert!(held < part, "{held} bytes of a blob wait for a request, but a part has {part}");
            let room = part - held;
            let piece = bytes.split_to(room.min(bytes.len()));
            self.crcs.update(&piece);
            self.pieces.push(piece);
        }
        Ok(())
    }

    /// Returns the number of bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns true if the blob with this many more bytes is written with one request to each place.
    pub fn is_one_request(&self, more: usize) -> bool {
        self.size + (more as u64) < self.part as u64
    }

    /// Finishes the blob like [`BlobWriter::finish`]. A tier that does not take a small blob in time has failed.
    ///
    /// # Errors
    /// If the backend fails, or has not answered in time.
    pub async fn finish_within(
        mut self,
        time: Option<Duration>,
        object: Option<&Description>,
    ) -> Result<(u64, Vec<u32>), BlobError> {
        self.patience = time;
        self.finish(object).await
    }

    /// Returns the number of bytes that the writer may hold in memory.
    pub fn memory(&self) -> u64 {
        2 * self.part as u64
    }

    async fn send(&mut self) -> Result<(), BlobError> {
        self.wait().await?;
        self.chosen.pop_front();
        let payload: PutPayload = self.pieces.take(PIECE).collect();
        for target in &mut self.targets {
            if target.upload.is_none() {
                let (attributes, tags) = (target.attributes.clone(), target.tags.clone());
                let options = PutMultipartOptions { attributes, tags, ..PutMultipartOptions::default() };
                let begun = target.tier.store.put_multipart_opts(&target.path, options).await;
                target.upload = Some(begun.map_err(|error| target.failed(error))?);
            }
            let part = target.upload.as_mut().map(|upload| upload.put_part(payload.clone()));
            target.in_flight = part.map(tokio::task::spawn);
        }
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), BlobError> {
        for target in &mut self.targets {
            let Some(task) = target.in_flight.take() else { continue };
            let sent = task.await.map_err(|e| BlobError::Io(std::io::Error::other(e)))?;
            target.checked(sent)?;
        }
        Ok(())
    }

    /// Makes the blob durable in all its places, with a trailer that describes its object, if there is one. Returns the
    /// size of the body in bytes and its checksums.
    ///
    /// # Errors
    /// If the backend fails.
    pub async fn finish(mut self, object: Option<&Description>) -> Result<(u64, Vec<u32>), BlobError> {
        let finished = self.complete(object).await;
        if finished.is_err() && self.targets.iter().any(|target| target.upload.is_some()) {
            // Buckets keep the parts of an upload, and bill them, until it is aborted. Not awaited: the tier may not
            // answer, and the body may go to another one meanwhile.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(self.abort());
            }
        }
        finished
    }

    async fn complete(&mut self, object: Option<&Description>) -> Result<(u64, Vec<u32>), BlobError> {
        let is_part = self.pieces.len() == self.part();
        let (size, crcs) = checked(self.size, std::mem::take(&mut self.crcs).finish());
        if let Some(object) = object {
            self.pieces.push(object.trailer(size, &crcs));
        }
        if !is_part && self.targets.iter().all(|target| target.upload.is_none()) {
            let payload: PutPayload = self.pieces.take(PIECE).collect();
            let patience = self.patience;
            let puts = self.targets.iter().map(|target| async {
                let (attributes, tags) = (target.attributes.clone(), target.tags.clone());
                let options = PutOptions { attributes, tags, ..PutOptions::default() };
                let put = target.tier.store.put_opts(&target.path, payload.clone(), options);
                let answer = match patience {
                    None => put.await,
                    Some(time) => in_time(time, put).await.unwrap_or_else(|| Err(silent(time))),
                };
                target.checked(answer)
            });
            try_join_all(puts).await?;
            return Ok((size, crcs));
        }
        if self.pieces.len() > 0 {
            self.send().await?;
        }
        self.wait().await?;
        for target in &mut self.targets {
            let path = &target.path;
            assert!(target.in_flight.is_none(), "the upload of {path} would end before its last part");
            assert!(target.upload.is_some(), "a blob would be complete without its copy at {path}");
            if let Some(upload) = &mut target.upload {
                let completed = upload.complete().await;
                target.checked(completed)?;
            }
        }
        Ok((size, crcs))
    }

    /// Gives up the blob. Errors are ignored, because the blob is deleted later in any case.
    pub async fn abort(mut self) {
        for target in &mut self.targets {
            if let Some(task) = target.in_flight.take() {
                let _ = task.await;
            }
            if let Some(upload) = &mut target.upload {
                let _ = upload.abort().await;
            }
        }
    }
}
