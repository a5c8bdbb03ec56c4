//! Contents of objects: each is a function of the seed and of the operation that wrote it.

use bytes::Bytes;

use plimsoll_base::rng::{Stream, mix};

/// Identity of a content: the operation that wrote it, and its size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentId {
    /// Number of the operation.
    pub operation: u64,
    /// Size in bytes.
    pub size: u64,
}

/// Returns the bytes of a content. Contents of 8 bytes and more differ between operations.
pub fn bytes_of(seed: u64, id: ContentId) -> Bytes {
    let mut out = vec![0; id.size.next_multiple_of(8) as usize];
    Stream::new(mix(seed ^ mix(id.operation)), "object").fill(&mut out);
    out.truncate(id.size as usize);
    out.into()
}
