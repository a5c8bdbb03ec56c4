//! Reads blobs and verifies their checksums.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::{GetOptions, GetResultPayload, ObjectStore};
use plimsoll_server::reserve::{Buffer, Reservation};

use super::chunks::{CHUNK, ChunkCrcs};
use super::error::BlobError;
use super::read_memory::{ReadMemory, SMALL};
use crate::location::Location;
use plimsoll_catalog::embedded::record::crc32c;

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
    memory: ReadMemory,
    /// Offset of the next byte to read from a stream; a multiple of [`CHUNK`].
    at: u64,
    /// End of the last chunk to read.
    end: u64,
    /// Range to read; of a file, what is left of it.
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
        memory: ReadMemory,
    ) -> Result<BlobReader, BlobError> {
        let chunk = CHUNK as u64;
        let whole = range.start / chunk * chunk..range.end.div_ceil(chunk).saturating_mul(chunk).min(size);
        // An empty range is not a valid one.
        let is_empty = whole.is_empty();
        let bytes = (!is_empty).then(|| whole.clone().into());
        let options = GetOptions { range: bytes, head: is_empty, ..GetOptions::default() };
        let result = store.get_opts(&location.path(), options).await?;
        // Behind the body of an own blob is its trailer.
        if result.meta.size < size || location.is_adopted() && result.meta.size != size {
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
            memory,
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
        match &mut self.source {
            Source::File(file) => {
                let file = Arc::clone(file);
                self.next_of_file(file).await
            }
            Source::Stream(_) => self.next_of_stream().await,
        }
    }

    /// Returns an error if the checksum of a chunk is not the recorded one.
    fn check(&self, number: u64, crc: u32) -> Result<(), BlobError> {
        if !self.is_verified || self.crcs.get(number as usize) == Some(&crc) {
            return Ok(());
        }
        Err(BlobError::Damaged { name: self.name.clone(), offset: number * CHUNK as u64 })
    }

    async fn next_of_stream(&mut self) -> Result<Option<Bytes>, BlobError> {
        loop {
            let Source::Stream(received) = &mut self.source else { return Ok(None) };
            if let Some(bytes) = received.hand_out(&self.range) {
                return Ok(Some(bytes));
            }
            if self.at >= self.end {
                return Ok(None);
            }
            let (at, len) = (self.at, (CHUNK as u64).min(self.end - self.at));
            let crc = received.receive(at, len as usize).await?;
            self.check(at / CHUNK as u64, crc)?;
            self.at += len;
        }
    }

    async fn next_of_file(&mut self, file: Arc<std::fs::File>) -> Result<Option<Bytes>, BlobError> {
        let (from, to) = (self.range.start, self.range.end);
        if from >= to {
            return Ok(None);
        }
        let start = from / CHUNK as u64 * CHUNK as u64;
        let most = to.next_multiple_of(CHUNK as u64).min(self.end) - start;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let is_small = to - from <= SMALL as u64;
        let place = if is_small { None } else { self.memory.piece(most) };
        let len = place.as_ref().map_or(most.min(CHUNK), |(len, _)| *len);
        let mut end = to.min(start + len as u64);
        if place.is_none() {
            end = end.min(from + SMALL as u64);
        }
        let chunks = Chunks { file, crcs: self.is_verified.then(|| Arc::clone(&self.crcs)), start, len };
        let within = (from - start) as usize..(end - start) as usize;
        let read = move || match place {
            Some((_, reservation)) => chunks.read_part(within, reservation),
            None => chunks.read_copy(within),
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)??;
        let damaged = |offset| BlobError::Damaged { name: self.name.clone(), offset };
        let piece = read.map_err(damaged)?;
        self.range.start = end;
        Ok(Some(piece))
    }
}

/// Chunks of a file to read at a time.
struct Chunks {
    file: Arc<std::fs::File>,
    /// Checksums of all chunks of the file; `None` if they are not known.
    crcs: Option<Arc<[u32]>>,
    /// Offset of the first chunk.
    start: u64,
    /// Length of the chunks in bytes.
    len: usize,
}

/// Verified bytes, or the offset of a damaged chunk.
type Verified = Result<Bytes, u64>;

impl Chunks {
    /// Fills a buffer. Returns the offset of a chunk whose checksum is wrong; `None` if there is none.
    fn fill(&self, buffer: &mut [u8]) -> std::io::Result<Option<u64>> {
        match self.file.read_exact_at(buffer, self.start) {
            // The file was cut meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(Some(self.start)),
            read => read?,
        }
        let Some(crcs) = &self.crcs else { return Ok(None) };
        let mut chunks = (self.start / CHUNK as u64..).zip(buffer.chunks(CHUNK));
        let wrong = chunks.find(|(number, chunk)| crcs.get(*number as usize) != Some(&crc32c(chunk)));
        Ok(wrong.map(|(number, _)| number * CHUNK as u64))
    }

    /// Reads the chunks and returns a part of them, which keeps all in memory.
    fn read_part(&self, within: Range<usize>, reservation: Reservation) -> std::io::Result<Verified> {
        let mut bytes = vec![0; self.len];
        let damaged = self.fill(&mut bytes)?;
        Ok(damaged.map_or_else(|| Ok(Buffer::of(bytes, reservation).freeze().slice(within)), Err))
    }

    /// Reads a chunk into memory of the thread and returns a copy of a part.
    fn read_copy(&self, within: Range<usize>) -> std::io::Result<Verified> {
        thread_local! {
            static CHUNK_OF_THREAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        CHUNK_OF_THREAD.with_borrow_mut(|bytes| {
            bytes.resize(self.len, 0);
            let damaged = self.fill(bytes)?;
            Ok(damaged.map_or_else(|| Ok(Bytes::copy_from_slice(&bytes[within])), Err))
        })
    }
}
