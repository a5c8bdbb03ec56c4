//! Reads blobs and verifies their checksums.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::{GetOptions, GetResultPayload, ObjectStore};

use super::chunks::ChunkCrcs;
use super::chunks::{CHUNK, PART};
use super::error::BlobError;
use crate::body::location::Location;
use crate::catalog::embedded::record::crc32c;

/// Origin of the bytes.
enum Source {
    File(Arc<std::fs::File>),
    Stream(Received),
}

/// Bytes of a response.
struct Received {
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    /// Bytes that are not verified yet.
    rest: Bytes,
    /// Verified pieces that were not handed out yet, with the offset of the first one.
    ready: VecDeque<Bytes>,
    ready_at: u64,
}

impl Received {
    fn new(stream: BoxStream<'static, object_store::Result<Bytes>>) -> Received {
        Received { stream, rest: Bytes::new(), ready: VecDeque::new(), ready_at: 0 }
    }

    /// Receives the next `len` bytes, which begin at an offset. Returns their checksum.
    async fn receive(&mut self, at: u64, len: usize) -> Result<u32, BlobError> {
        let (mut crc, mut missing) = (ChunkCrcs::default(), len);
        self.ready_at = at;
        while missing > 0 {
            if self.rest.is_empty() {
                let piece = self.stream.next().await.ok_or(std::io::ErrorKind::UnexpectedEof);
                self.rest = piece.map_err(std::io::Error::from)?.map_err(BlobError::from)?;
            }
            let piece = self.rest.split_to(missing.min(self.rest.len()));
            crc.update(&piece);
            missing -= piece.len();
            self.ready.push_back(piece);
        }
        Ok(crc.finish().first().copied().unwrap_or(0))
    }

    /// Returns the next verified bytes in a range; `None` if there are none.
    fn hand_out(&mut self, range: &Range<u64>) -> Option<Bytes> {
        while let Some(piece) = self.ready.pop_front() {
            let (at, len) = (self.ready_at, piece.len() as u64);
            self.ready_at += len;
            let from = range.start.saturating_sub(at).min(len) as usize;
            let to = range.end.saturating_sub(at).min(len) as usize;
            if from < to {
                return Some(piece.slice(from..to));
            }
        }
        None
    }
}

/// A verified stream of a byte range of a blob.
pub struct BlobReader {
    name: String,
    source: Source,
    crcs: Arc<[u32]>,
    /// False for an adopted object whose checksums are not known yet.
    is_verified: bool,
    /// Offset of the next byte to read; a multiple of [`CHUNK`].
    at: u64,
    /// End of the last chunk to read.
    end: u64,
    range: Range<u64>,
}

impl BlobReader {
    /// Starts to read a byte range of the bytes at a place of a store, which have these checksums.
    ///
    /// # Errors
    /// If the bytes do not exist or the store fails.
    pub async fn open(
        store: &dyn ObjectStore,
        location: &Location,
        size: u64,
        crcs: Arc<[u32]>,
        range: Range<u64>,
    ) -> Result<BlobReader, BlobError> {
        let chunk = CHUNK as u64;
        let whole = range.start / chunk * chunk..range.end.div_ceil(chunk).saturating_mul(chunk).min(size);
        let options = GetOptions { range: Some(whole.clone().into()), ..GetOptions::default() };
        let result = store.get_opts(&location.path(), options).await?;
        if result.meta.size != size {
            return Err(BlobError::Damaged {
                name: location.to_string(),
                offset: result.meta.size.min(size),
            });
        }
        let source = match result.payload {
            GetResultPayload::File(file, _) => Source::File(Arc::new(file)),
            GetResultPayload::Stream(stream) => Source::Stream(Received::new(stream)),
        };
        Ok(BlobReader {
            name: location.to_string(),
            source,
            is_verified: !(crcs.is_empty() && location.is_adopted()),
            crcs,
            at: whole.start,
            end: whole.end,
            range,
        })
    }

    /// Returns the next bytes; `None` at the end.
    ///
    /// # Errors
    /// If the bytes are damaged or the backend fails.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let file = match &mut self.source {
            Source::File(file) => Arc::clone(file),
            Source::Stream(received) => loop {
                if let Some(bytes) = received.hand_out(&self.range) {
                    return Ok(Some(bytes));
                }
                if self.at >= self.end {
                    return Ok(None);
                }
                let (at, len) = (self.at, (CHUNK as u64).min(self.end - self.at));
                let crc = received.receive(at, len as usize).await?;
                if self.is_verified && self.crcs.get((at / CHUNK as u64) as usize) != Some(&crc) {
                    return Err(BlobError::Damaged { name: self.name.clone(), offset: at });
                }
                self.at += len;
            },
        };
        if self.at >= self.end {
            return Ok(None);
        }
        let (at, len) = (self.at, (PART as u64).min(self.end - self.at) as usize);
        let read = move || {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, at).map(|()| Bytes::from(bytes))
        };
        let bytes = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)??;
        let chunks = bytes.chunks(CHUNK).enumerate();
        for (index, chunk) in chunks.filter(|_| self.is_verified) {
            let number = (at / CHUNK as u64) as usize + index;
            if self.crcs.get(number) != Some(&crc32c(chunk)) {
                let offset = at + (index * CHUNK) as u64;
                return Err(BlobError::Damaged { name: self.name.clone(), offset });
            }
        }
        self.at += len as u64;
        let from = self.range.start.saturating_sub(at).min(len as u64) as usize;
        let to = self.range.end.saturating_sub(at).min(len as u64) as usize;
        Ok(Some(bytes.slice(from..to)))
    }
}
