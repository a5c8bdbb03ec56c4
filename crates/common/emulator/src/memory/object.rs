//! Objects that the memory service stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use plimsoll_base::clock::wall_now;
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::config::tags::Tags;
use plimsoll_server::error::ApiError;
use plimsoll_server::reserve::{Memory, OVERHEAD, Reservation};
use plimsoll_server::response::http_date;
use plimsoll_server::service::{ObjectChange, ObjectInfo};

/// A stored object, which is immutable.
#[derive(Debug)]
pub struct Object {
    /// Content in consecutive pieces (one per part of a multipart upload).
    pub pieces: Vec<Bytes>,
    /// Properties of the object.
    pub info: ObjectInfo,
    /// True for a delete marker.
    pub is_marker: bool,
    /// Memory reserved for everything but the content.
    _overhead: Reservation,
}

impl AsRef<ObjectInfo> for Object {
    fn as_ref(&self) -> &ObjectInfo {
        &self.info
    }
}

/// Handle of a stored object.
pub struct Stored {
    /// The object, which does not change.
    pub object: Arc<Object>,
    /// Properties with the version id `null`, if the bucket is versioned and the object was written before; `None` if
    /// the properties of the object apply.
    named: Option<Box<ObjectInfo>>,
}

impl Stored {
    /// Creates the handle of an object in a bucket that is versioned, or not.
    pub fn new(object: Arc<Object>, is_versioned: bool) -> Stored {
        let is_unnamed = is_versioned && object.info.version.is_none();
        let named =
            is_unnamed.then(|| Box::new(ObjectInfo { version: Some(NULL.into()), ..object.info.clone() }));
        Stored { object, named }
    }
}

impl AsRef<ObjectInfo> for Stored {
    fn as_ref(&self) -> &ObjectInfo {
        self.named.as_deref().unwrap_or(&self.object.info)
    }
}

/// Version id of an object that has no other one.
pub const NULL: &str = "null";

/// Returns the estimated memory of tags in bytes.
fn tags_size(tags: &Tags) -> u64 {
    tags.0.iter().map(|(name, value)| (name.len() + value.len() + 64) as u64).sum()
}

/// Returns the estimated memory of headers in bytes.
pub fn headers_size(headers: &[(HeaderName, HeaderValue)]) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + 64) as u64).sum()
}

impl Object {
    /// Creates an object, last modified now, to be stored under `key`.
    ///
    /// # Errors
    /// Returns `SlowDown` if the memory limit would be exceeded.
    pub fn new(
        memory: &Arc<Memory>,
        key: &str,
        pieces: Vec<Bytes>,
        etag: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Object, ApiError> {
        let overhead = memory.reserve(OVERHEAD + key.len() as u64 + headers_size(&headers))?;
        let modified = wall_now();
        let header =
            |text: String| HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""));
        let info = ObjectInfo {
            size: pieces.iter().map(|p| p.len() as u64).sum(),
            etag_header: header(format!("\"{etag}\"")),
            modified,
            modified_header: header(http_date(modified)),
            headers,
            checksum: None,
            parts: None,
            version: None,
            tags: Tags::default(),
            acl: CannedAcl::default(),
            upload_id: None,
            storage_class: None,
        };
        Ok(Object { pieces, info, is_marker: false, _overhead: overhead })
    }

    /// Creates a delete marker.
    ///
    /// # Errors
    /// Returns `SlowDown` if the memory limit would be exceeded.
    pub fn marker(memory: &Arc<Memory>, key: &str, version: String) -> Result<Object, ApiError> {
        let mut marker = Object::new(memory, key, Vec::new(), "", Vec::new())?;
        marker.info.version = Some(version);
        Ok(Object { is_marker: true, ..marker })
    }

    /// Sets the tags of a new object.
    ///
    /// # Errors
    /// Returns `SlowDown` if the memory limit would be exceeded.
    pub fn set_tags(&mut self, tags: Tags) -> Result<(), ApiError> {
        self._overhead.grow(tags_size(&tags))?;
        self.info.tags = tags;
        Ok(())
    }

    /// Returns the object with other properties and the same content.
    ///
    /// # Errors
    /// Returns `SlowDown` if the memory limit would be exceeded.
    pub fn changed(&self, memory: &Arc<Memory>, key: &str, change: ObjectChange) -> Result<Object, ApiError> {
        let mut info = self.info.clone();
        match change {
            ObjectChange::Tags(tags) => info.tags = tags,
            ObjectChange::Acl(acl) => info.acl = acl,
        }
        let bytes = OVERHEAD + key.len() as u64 + headers_size(&info.headers) + tags_size(&info.tags);
        let pieces = self.pieces.clone();
        Ok(Object { pieces, info, is_marker: self.is_marker, _overhead: memory.reserve(bytes)? })
    }

    /// Returns the version id.
    pub fn version(&self) -> &str {
        self.info.version.as_deref().unwrap_or(NULL)
    }

    /// Returns true if the version is `null`.
    pub fn is_null(&self) -> bool {
        self.version() == NULL
    }

    /// Returns an object with the first half of this content and the second of an older one, as far as it reaches;
    /// `None` beyond the memory limit.
    pub fn mixed_with(&self, old: &Object, memory: &Arc<Memory>, key: &str) -> Option<Object> {
        let (size, half) = (self.info.size, self.info.size / 2);
        let mut pieces = self.slice(0, half);
        pieces.extend(old.slice(half, size));
        pieces.extend(self.slice(old.info.size.max(half), size));
        Object::new(memory, key, pieces, self.info.etag(), self.info.headers.clone()).ok()
    }

    /// Returns the bytes from `start` to `end` (exclusive), in pieces.
    pub fn slice(&self, start: u64, end: u64) -> Vec<Bytes> {
        let mut out = Vec::new();
        let mut at = 0;
        for piece in &self.pieces {
            let len = piece.len() as u64;
            let (from, to) = (start.max(at), end.min(at + len));
            if from < to {
                out.push(piece.slice((from - at) as usize..(to - at) as usize));
            }
            at += len;
        }
        out
    }
}

/// Objects by key.
pub type Objects = BTreeMap<String, Arc<Object>>;
