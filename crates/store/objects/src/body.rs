//! Streams of bodies whose pieces are inline or in blobs.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_base::clock::now_ns;
use plimsoll_server::error::ApiError;
use plimsoll_server::reserve::Reservation;

use super::keys;
use super::live::Live;
use plimsoll_bodies::blob::Blobs;
use plimsoll_bodies::error::BlobError;
use plimsoll_bodies::location::{BlobHead, Location};
use plimsoll_bodies::pack_file::Slice;
use plimsoll_bodies::read_memory::{ReadMemory, SMALL};
use plimsoll_bodies::reader::BlobReader;
use plimsoll_bodies::tier::origin::attributed;
use plimsoll_catalog::ambient::in_time;
use plimsoll_catalog::{Catalog, CatalogError, Row};

/// Reason why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The catalog cannot be read.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    /// The catalog has no row of the blob.
    #[error("blob {0} is not in the catalog")]
    Unknown(String),
    /// The bytes cannot be read from any of their places. This is the error that counts.
    #[error("tier {tier}: {error}")]
    Blob {
        /// Name of the tier of the place.
        tier: String,
        /// Error of the place.
        error: BlobError,
    },
}

fn unknown(name: &keys::BlobName) -> BodyError {
    BodyError::Unknown(plimsoll_bodies::blob::text(name))
}

/// Returns the row of a blob: its head and its checksums.
///
/// # Errors
/// If the catalog cannot be read or does not contain the blob.
pub async fn find_blob<C: Catalog>(
    catalog: &C,
    name: &keys::BlobName,
) -> Result<(BlobHead, Arc<[u32]>), BodyError> {
    let key = keys::blob(name);
    let row = catalog.read(key.clone()).await?.ok_or_else(|| unknown(name))?;
    let head = BlobHead::decode(&row.head).ok_or_else(|| unknown(name))?;
    let properties = catalog.properties(&key, &row)?;
    let numbers = properties.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
    Ok((head, numbers.map(u32::from_le_bytes).collect()))
}

/// Returns the places of a pack file, and its size in bytes.
async fn find_pack_file<C: Catalog>(
    catalog: &C,
    name: &keys::BlobName,
) -> Result<(BlobHead, u64), BodyError> {
    let row = catalog.read(keys::blob(name)).await?.ok_or_else(|| unknown(name))?;
    let head = BlobHead::decode(&row.head).ok_or_else(|| unknown(name))?;
    let live = catalog.read(keys::pack_file(name)).await?.and_then(|row| Live::decode(&row.head));
    // A pack file without counts is about to be deleted; its size is then unknown.
    Ok((head, live.map_or(u64::MAX, |live| live.size)))
}

/// A body in the catalog that is read again for each piece, because the memory of reads is used up.
pub struct Stored {
    key: Vec<u8>,
    row: Row,
}

/// A body in the catalog.
#[derive(Clone)]
pub enum InlineBody {
    /// The whole body.
    Bytes(Bytes),
    /// The place of the body.
    Stored(Arc<Stored>),
}

impl InlineBody {
    /// Creates the body of a row, `bytes`, which stays in memory only if there is a place for it.
    pub fn new(memory: &ReadMemory, bytes: &Bytes, key: &[u8], row: &Row) -> InlineBody {
        match memory.hold(bytes, &(0..bytes.len() as u64)) {
            Some(bytes) => InlineBody::Bytes(bytes),
            None => InlineBody::Stored(Arc::new(Stored { key: key.to_vec(), row: row.clone() })),
        }
    }

    /// Returns a range of the body.
    pub fn part(&self, range: Range<u64>) -> Part {
        match self {
            InlineBody::Bytes(bytes) => Part::Inline(bytes.slice(range.start as usize..range.end as usize)),
            InlineBody::Stored(stored) => Part::Stored(Arc::clone(stored), range),
        }
    }
}

/// A piece of a body to send.
pub enum Part {
    /// Bytes that are already in memory.
    Inline(Bytes),
    /// A range of a body in the catalog.
    Stored(Arc<Stored>, Range<u64>),
    /// A range of a blob of this size.
    Blob(keys::BlobName, u64, Range<u64>),
    /// A range of a body in a pack file.
    Slice(Slice, Range<u64>),
}

/// A place that has failed: the name of its tier, and its error.
struct FailedPlace {
    tier: String,
    error: BlobError,
}

impl From<FailedPlace> for BodyError {
    fn from(FailedPlace { tier, error }: FailedPlace) -> BodyError {
        BodyError::Blob { tier, error }
    }
}

/// Returns the error that counts after two places have failed: if one of them may have the bytes, they are not lost.
fn worse(before: Option<FailedPlace>, now: FailedPlace) -> FailedPlace {
    before.filter(|before| before.error.is_unavailable() && !now.error.is_unavailable()).unwrap_or(now)
}

/// An open blob.
struct Open {
    name: keys::BlobName,
    size: u64,
    /// Offset at which this place was opened.
    began: u64,
    /// Bytes of the blob that are still to be sent.
    left: Range<u64>,
    reader: BlobReader,
    location: Location,
    /// Places that have failed.
    failed: Vec<Location>,
    /// True if another place may have the bytes.
    has_other: bool,
}

impl Open {
    /// Returns the next bytes. If another place may have them, the tier must not be silent for long.
    async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        /// Time that a response may stand still.
        const STALL: Duration = Duration::from_secs(2);
        // The response cannot continue elsewhere, so it waits for a slow tier.
        if !self.has_other {
            return self.reader.next().await;
        }
        in_time(STALL, self.reader.next()).await.unwrap_or(Err(BlobError::Silent(STALL)))
    }
}

/// The pieces of a body, one after the other.
pub struct BodySource<C> {
    parts: VecDeque<Part>,
    open: Option<Open>,
    catalog: Arc<C>,
    blobs: Blobs,
    /// Bucket whose clients read the body; `None` if nobody does.
    bucket: Option<Arc<str>>,
    /// Memory of the reader.
    reserved: Option<Reservation>,
}

/// Returns the first bytes of a range of a body, at most [`SMALL`], and the rest of the range. The first bytes do not
/// keep the body in memory.
fn first_bytes(body: &Bytes, range: Range<u64>) -> Option<(Bytes, Range<u64>)> {
    let end = range.end.min(range.start + SMALL as u64);
    let bytes = body.get(range.start as usize..end as usize)?;
    Some((Bytes::copy_from_slice(bytes), end..range.end))
}

impl<C: Catalog> BodySource<C> {
    /// Creates the stream of these parts, which is read for the clients of a bucket, or for work in the background.
    pub fn new(
        parts: VecDeque<Part>,
        catalog: Arc<C>,
        blobs: Blobs,
        bucket: Option<Arc<str>>,
    ) -> BodySource<C> {
        BodySource { parts, open: None, catalog, blobs, bucket, reserved: None }
    }

    /// Reserves the memory of the reader without its pieces, until it is dropped.
    ///
    /// # Errors
    /// `SlowDown` if readers would use too much memory.
    pub fn reserve(&mut self) -> Result<(), ApiError> {
        let size = |part: &Part| if let Part::Blob(_, size, _) = part { *size } else { 0 };
        // Only one blob is open at a time, so the checksums of the largest one count.
        let largest = self.parts.iter().map(size).max().unwrap_or(0);
        let is_remote = self.blobs.have_remote_tiers();
        self.reserved = Some(self.blobs.memory.reader::<Part>(self.parts.len(), largest, is_remote)?);
        Ok(())
    }

    /// Opens a range of a blob at the first place that works. Reads the row again after each failure, because the blob
    /// may have moved.
    async fn open(
        &self,
        name: keys::BlobName,
        size: u64,
        range: Range<u64>,
        mut failed: Vec<Location>,
        mut error: Option<FailedPlace>,
    ) -> Result<Open, BodyError> {
        let mut slow = Vec::new();
        loop {
            let (head, crcs) = find_blob(&*self.catalog, &name).await?;
            let Some((location, patience)) = self.choose(&head, &failed, &mut slow) else {
                return Err(error.map_or_else(|| unknown(&name), BodyError::from));
            };
            let opened = self.blobs.open(&location, size, crcs, range.clone());
            match self.watch(&location, patience, opened).await {
                Ok(reader) => {
                    let began = range.start;
                    // Places that were only slow count, too.
                    let has_other =
                        head.locations.iter().any(|place| *place != location && !failed.contains(place));
                    return Ok(Open { name, size, began, left: range, reader, location, failed, has_other });
                }
                Err(problem) => {
                    let is_silence = problem.is_silence();
                    error = Some(worse(error, self.report(&location, problem)));
                    // A place that was only slow may have the bytes. `choose` returns it when no other one is left.
                    if is_silence {
                        slow.push(location);
                    } else {
                        failed.push(location);
                    }
                }
            }
        }
    }

    /// Returns the next place to read, and the time to wait for it: a place that has not failed, whose tier answers, if
    /// there is one. Places that were slow are read again without a limit if no other place has the bytes.
    fn choose(
        &self,
        head: &BlobHead,
        failed: &[Location],
        slow: &mut Vec<Location>,
    ) -> Option<(Location, Option<Duration>)> {
        let open = || head.locations.iter().filter(|place| !failed.contains(place));
        // With a single place, giving up on a slow answer would only repeat the request.
        if open().count() == 1 {
            return open().next().map(|place| (place.clone(), None));
        }
        let health = |place: &Location| self.blobs.tiers().get(place.tier).map(|tier| &tier.health);
        let untried = || open().filter(|place| !slow.contains(place));
        let rests = |place: &Location| health(place).is_some_and(|health| health.rests());
        // If all tiers rest, one of them is asked nevertheless: a read must not fail without a request.
        let best = untried().find(|place| !rests(place)).or_else(|| untried().next());
        match best {
            Some(place) => Some((place.clone(), health(place).map(|health| health.patience()))),
            // Nobody has answered in time.
            None if !slow.is_empty() => Some((slow.remove(0), None)),
            None => None,
        }
    }

    /// Waits for an answer of a tier, at most for `patience`, and records whether it came.
    async fn watch<T>(
        &self,
        location: &Location,
        patience: Option<Duration>,
        answer: impl Future<Output = Result<T, BlobError>>,
    ) -> Result<T, BlobError> {
        let started_ns = now_ns();
        let result = match patience {
            None => answer.await,
            Some(patience) => {
                in_time(patience, answer).await.unwrap_or_else(|| Err(BlobError::Silent(patience)))
            }
        };
        if let Some(tier) = self.blobs.tiers().get(location.tier) {
            match &result {
                Ok(_) => tier.health.succeed(Duration::from_nanos(now_ns() - started_ns)),
                Err(error) if error.is_unavailable() => tier.health.fail(),
                // Damaged or missing bytes are an answer, so they say nothing against the tier.
                Err(_) => {}
            }
        }
        result
    }

    /// Returns a body in a pack file, from the cache or the first place that works.
    async fn slice(&self, slice: &Slice) -> Result<Bytes, BodyError> {
        if let Some(body) = self.blobs.cached_slice(slice).await {
            return Ok(body);
        }
        let (mut failed, mut slow) = (Vec::new(), Vec::new());
        let mut error = None;
        loop {
            // Read again after each failure, because the pack file may have moved meanwhile.
            let (head, size) = find_pack_file(&*self.catalog, &slice.pack_file).await?;
            let Some((location, patience)) = self.choose(&head, &failed, &mut slow) else {
                return Err(error.map_or_else(|| unknown(&slice.pack_file), BodyError::from));
            };
            match self.watch(&location, patience, self.blobs.read_slice(&location, size, slice)).await {
                Ok(body) => return Ok(body),
                Err(problem) => {
                    let is_silence = problem.is_silence();
                    error = Some(worse(error, self.report(&location, problem)));
                    if is_silence {
                        slow.push(location);
                    } else {
                        failed.push(location);
                    }
                }
            }
        }
    }

    /// Reads a body in the catalog again. Compaction may have moved it.
    async fn read_again(&self, stored: &Stored) -> Result<Bytes, BodyError> {
        // A change of tags writes the row again, with the same head and body. Another head means another body, or
        // another place of it.
        let row = self.catalog.read(stored.key.clone()).await?.filter(|row| row.head == stored.row.head);
        let row = row.ok_or(CatalogError::Changed)?;
        Ok(self.catalog.value(&stored.key, &row)?.body)
    }

    fn report(&self, location: &Location, error: BlobError) -> FailedPlace {
        let name = self.blobs.tiers().get(location.tier).map(|tier| tier.name.clone());
        let tier = name.unwrap_or_else(|| format!("number {}", location.tier));
        plimsoll_catalog::log::warn(&format!("tier {tier}: {error}"));
        FailedPlace { tier, error }
    }

    /// Returns the next bytes; `None` at the end.
    ///
    /// # Errors
    /// If no place has the bytes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        match self.bucket.clone() {
            Some(bucket) => attributed(&bucket, self.advance()).await,
            None => self.advance().await,
        }
    }

    async fn advance(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(mut open) = self.open.take() {
                match open.next().await {
                    Ok(Some(bytes)) => {
                        open.left.start += bytes.len() as u64;
                        self.open = Some(open);
                        return Ok(Some(bytes));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        // Blobs are immutable, so another place has the rest of the same bytes. A place that has
                        // delivered some may have ended a long response, and is asked for the rest.
                        let is_unavailable = error.is_unavailable();
                        let error = self.report(&open.location, error);
                        // `watch` has only seen that the tier answers. A later failure counts against the tier, too.
                        let tier = self.blobs.tiers().get(open.location.tier);
                        if let Some(tier) = tier.filter(|_| is_unavailable) {
                            tier.health.fail();
                        }
                        if open.left.start == open.began {
                            open.failed.push(open.location);
                        }
                        let next =
                            self.open(open.name, open.size, open.left, open.failed, Some(error)).await?;
                        self.open = Some(next);
                        continue;
                    }
                }
            }
            match self.parts.pop_front() {
                None => return Ok(None),
                Some(Part::Inline(bytes)) => return Ok(Some(bytes)),
                Some(Part::Stored(stored, range)) => {
                    let body = self.read_again(&stored).await?;
                    let (bytes, rest) = first_bytes(&body, range).ok_or(CatalogError::Changed)?;
                    if !rest.is_empty() {
                        // The rest is read again later: the bodies of slow clients would fill the memory
                        // (docs/decisions/0034).
                        self.parts.push_front(Part::Stored(stored, rest));
                    }
                    return Ok(Some(bytes));
                }
                Some(Part::Slice(slice, range)) => {
                    let body = self.slice(&slice).await?;
                    if let Some(held) = self.blobs.memory.hold(&body, &range) {
                        return Ok(Some(held));
                    }
                    let (bytes, rest) = first_bytes(&body, range).ok_or(CatalogError::Changed)?;
                    if !rest.is_empty() {
                        self.parts.push_front(Part::Slice(slice, rest));
                    }
                    return Ok(Some(bytes));
                }
                Some(Part::Blob(name, size, range)) => {
                    self.open = Some(self.open(name, size, range, Vec::new(), None).await?);
                }
            }
        }
    }
}

impl From<BodyError> for io::Error {
    fn from(error: BodyError) -> io::Error {
        io::Error::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a read reported damage when one place had lost the bytes and the other did not answer.
    #[test]
    fn bytes_are_not_lost_while_a_place_may_have_them() {
        let failed = |error| FailedPlace { tier: "cold".into(), error };
        let missing = || failed(BlobError::Damaged { name: "blob".into(), offset: 0 });
        let silent = || failed(BlobError::Silent(Duration::from_secs(1)));
        assert!(worse(Some(silent()), missing()).error.is_unavailable());
        assert!(worse(Some(missing()), silent()).error.is_unavailable());
        assert!(!worse(Some(missing()), missing()).error.is_unavailable());
        assert!(worse(None, silent()).error.is_unavailable());
    }
}
