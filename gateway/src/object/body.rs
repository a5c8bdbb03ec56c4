//! Streams of bodies whose pieces are inline or in blobs.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::keys;
use crate::body::blob::{BlobError, BlobReader, Blobs};
use crate::body::location::{BlobHead, Location};
use crate::catalog::{Catalog, CatalogError};

/// Reason why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The catalog cannot be read.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    /// The catalog has no row of the blob.
    #[error("blob {0} is not in the catalog")]
    Unknown(String),
    /// The bytes cannot be read from any of their places. This is the error of the last one.
    #[error("{0}")]
    Blob(#[from] BlobError),
}

/// Returns the row of a blob: its head and its checksums.
pub type Lookup = Box<dyn Fn(&keys::BlobName) -> Result<(BlobHead, Arc<[u32]>), BodyError> + Send>;

/// Reads the rows of blobs in a catalog.
pub fn lookup<C: Catalog>(catalog: &Arc<C>) -> Lookup {
    let catalog = Arc::clone(catalog);
    Box::new(move |name| {
        let key = keys::blob(name);
        let unknown = || BodyError::Unknown(crate::body::blob::text(name));
        let row = catalog.get(&key)?.ok_or_else(unknown)?;
        let head = BlobHead::decode(&row.head).ok_or_else(unknown)?;
        let properties = catalog.properties(&key, &row)?;
        let numbers = properties.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
        Ok((head, numbers.map(u32::from_le_bytes).collect()))
    })
}

/// A piece of a body to send.
pub enum Part {
    /// Bytes that are already in memory.
    Inline(Bytes),
    /// A range of a blob of this size.
    Blob(keys::BlobName, u64, Range<u64>),
}

/// An open blob.
struct Open {
    name: keys::BlobName,
    size: u64,
    /// Bytes of the blob that are still to be sent.
    left: Range<u64>,
    reader: BlobReader,
    location: Location,
    /// Places that have failed.
    failed: Vec<Location>,
}

/// The pieces of a body, one after the other.
pub struct BodySource {
    parts: VecDeque<Part>,
    open: Option<Open>,
    lookup: Lookup,
    blobs: Blobs,
}

impl BodySource {
    /// Creates the stream of these parts.
    pub fn new(parts: VecDeque<Part>, lookup: Lookup, blobs: Blobs) -> BodySource {
        BodySource { parts, open: None, lookup, blobs }
    }

    /// Opens a range of a blob at the first place that works. Reads the row again after each failure, because the blob
    /// may have moved.
    async fn open(
        &self,
        name: keys::BlobName,
        size: u64,
        range: Range<u64>,
        mut failed: Vec<Location>,
        mut error: Option<BlobError>,
    ) -> Result<Open, BodyError> {
        loop {
            let (head, crcs) = (self.lookup)(&name)?;
            let untried = head.locations.iter().find(|location| !failed.contains(location)).copied();
            let Some(location) = untried else {
                return Err(
                    error.map_or_else(|| BodyError::Unknown(crate::body::blob::text(&name)), BodyError::Blob)
                );
            };
            match self.blobs.open(&location, size, crcs, range.clone()).await {
                Ok(reader) => return Ok(Open { name, size, left: range, reader, location, failed }),
                Err(problem) => {
                    self.report(&location, &problem);
                    failed.push(location);
                    error = Some(problem);
                }
            }
        }
    }

    fn report(&self, location: &Location, error: &BlobError) {
        let tier = self.blobs.tiers().get(location.tier).map_or("?", |tier| &tier.name);
        crate::log::warn(&format!("tier {tier}: {error}"));
    }

    /// Returns the next bytes; `None` at the end.
    ///
    /// # Errors
    /// If no place has the bytes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(mut open) = self.open.take() {
                match open.reader.next().await {
                    Ok(Some(bytes)) => {
                        open.left.start += bytes.len() as u64;
                        self.open = Some(open);
                        return Ok(Some(bytes));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        // Blobs are immutable, so another place has the rest of the same bytes.
                        self.report(&open.location, &error);
                        open.failed.push(open.location);
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
