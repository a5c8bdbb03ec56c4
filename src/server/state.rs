//! Buckets, objects and unfinished uploads, in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::error::ApiError;
use super::express::{is_directory, tag};
use crate::clock::wall_now;
use crate::rng::mix;
use crate::s3::checksum::Algorithm;

/// A checksum that is kept with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChecksum {
    /// Algorithm.
    pub algorithm: Algorithm,
    /// Value as on the wire: base64, with `-N` when it is composed of the parts' checksums.
    pub value: String,
    /// Whether it covers the whole object rather than the parts' checksums.
    pub full_object: bool,
}

/// One object; never changed once stored.
#[derive(Debug, Clone)]
pub struct Object {
    /// Content in consecutive pieces (one per part of a multipart upload).
    pub pieces: Vec<Bytes>,
    /// Bytes in all.
    pub size: u64,
    /// Entity tag without quotes.
    pub etag: String,
    /// `ETag` header, quoted.
    pub etag_header: HeaderValue,
    /// Last modification, Unix seconds.
    pub modified: jiff::Timestamp,
    /// `Last-Modified` header.
    pub modified_header: HeaderValue,
    /// Content type, encoding and the like, and user metadata: sent back as they came.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Declared and verified checksum.
    pub checksum: Option<StoredChecksum>,
    /// Whether it came by multipart upload; then each piece is a part.
    pub multipart: bool,
    /// The upload that made it, so that completing it twice answers twice.
    pub upload_id: Option<String>,
}

impl Object {
    /// An object made now.
    pub fn new(pieces: Vec<Bytes>, etag: String, headers: Vec<(HeaderName, HeaderValue)>) -> Object {
        let modified = wall_now();
        let size = pieces.iter().map(|p| p.len() as u64).sum();
        let header =
            |text: String| HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""));
        Object {
            pieces,
            size,
            etag_header: header(format!("\"{etag}\"")),
            etag,
            modified,
            modified_header: header(http_date(modified)),
            headers,
            checksum: None,
            multipart: false,
            upload_id: None,
        }
    }

    /// The bytes of a half-open range, in pieces.
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

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn http_date(time: jiff::Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// `2009-10-12T17:50:30.000Z`, as listings write it.
pub fn iso_date(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// One part of an unfinished upload.
#[derive(Debug, Clone)]
pub struct Part {
    /// Content.
    pub data: Bytes,
    /// MD5 of the content: its entity tag.
    pub md5: [u8; 16],
    /// When it came.
    pub modified: jiff::Timestamp,
    /// Checksum value in the upload's algorithm.
    pub checksum: Option<(Algorithm, String)>,
}

/// An unfinished multipart upload.
#[derive(Debug, Clone)]
pub struct Upload {
    /// Headers of the object to be.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Checksum algorithm asked for at its creation, and whether over the whole object.
    pub checksum: Option<(Algorithm, bool)>,
    /// When it began.
    pub initiated: jiff::Timestamp,
    /// Parts by number.
    pub parts: BTreeMap<u32, Part>,
}

/// Uploads by key and upload id.
pub type Uploads = BTreeMap<(String, String), Upload>;
/// Objects by key.
pub type Objects = BTreeMap<String, Arc<Object>>;

/// One bucket.
pub struct Bucket {
    /// When it was created.
    pub created: jiff::Timestamp,
    /// Whether it is a directory bucket.
    pub directory: bool,
    objects: RwLock<Objects>,
    uploads: Mutex<Uploads>,
}

impl Bucket {
    /// The bytes of an entity tag for content with this MD5.
    pub fn tag(&self, md5: [u8; 16]) -> [u8; 16] {
        if self.directory { tag(md5) } else { md5 }
    }

    /// The objects, to read.
    pub fn objects(&self) -> RwLockReadGuard<'_, Objects> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects, to change.
    pub fn objects_mut(&self) -> RwLockWriteGuard<'_, Objects> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unfinished uploads.
    pub fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One object.
    ///
    /// # Errors
    /// `NoSuchKey`.
    pub fn object(&self, key: &str) -> Result<Arc<Object>, ApiError> {
        self.objects().get(key).cloned().ok_or_else(|| ApiError::new("NoSuchKey"))
    }
}

/// Everything the server holds.
#[derive(Default)]
pub struct State {
    buckets: RwLock<HashMap<String, Arc<Bucket>>>,
    upload_ids: AtomicU64,
}

impl State {
    /// A bucket by name.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn bucket(&self, name: &str) -> Result<Arc<Bucket>, ApiError> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.get(name).cloned().ok_or_else(|| ApiError::new("NoSuchBucket"))
    }

    /// Names and creation times of all buckets, sorted.
    pub fn buckets(&self) -> Vec<(String, jiff::Timestamp)> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = buckets.iter().map(|(name, bucket)| (name.clone(), bucket.created)).collect();
        all.sort();
        all
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// `BucketAlreadyOwnedByYou`.
    pub fn create_bucket(&self, name: &str) -> Result<(), ApiError> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if buckets.contains_key(name) {
            return Err(ApiError::new("BucketAlreadyOwnedByYou"));
        }
        let bucket = Bucket {
            created: wall_now(),
            directory: is_directory(name),
            objects: RwLock::default(),
            uploads: Mutex::default(),
        };
        buckets.insert(name.to_string(), Arc::new(bucket));
        Ok(())
    }

    /// Deletes an empty bucket.
    ///
    /// # Errors
    /// `NoSuchBucket`, `BucketNotEmpty`.
    pub fn delete_bucket(&self, name: &str) -> Result<(), ApiError> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.get(name).ok_or_else(|| ApiError::new("NoSuchBucket"))?;
        if !bucket.objects().is_empty() {
            return Err(ApiError::new("BucketNotEmpty"));
        }
        buckets.remove(name);
        Ok(())
    }

    /// A fresh upload id.
    pub fn upload_id(&self) -> String {
        let n = self.upload_ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}{:016x}", mix(n ^ wall_now().as_nanosecond() as u64), n)
    }
}
