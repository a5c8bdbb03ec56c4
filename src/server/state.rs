//! Buckets, objects and unfinished uploads, in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::error::ApiError;
use super::express::{is_directory, tag};
use super::memory::{Memory, Reservation};
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

/// One part of a finished multipart upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPart {
    /// Part number.
    pub number: u32,
    /// Checksum of the part.
    pub checksum: Option<(Algorithm, String)>,
}

/// One object; never changed once stored.
#[derive(Debug)]
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
    /// Parts of the multipart upload that made it, one per piece; `None` for an object that came whole.
    pub parts: Option<Vec<ObjectPart>>,
    /// The upload that made it, so that completing it twice answers twice.
    pub upload_id: Option<String>,
    /// Memory of everything but the content.
    _overhead: Reservation,
}

/// Memory of an object, upload, part or bucket beside its content, its key and its headers; an estimate from above.
pub const OVERHEAD: u64 = 512;

/// Memory of headers.
pub fn headers_size(headers: &[(HeaderName, HeaderValue)]) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len() + 64) as u64).sum()
}

impl Object {
    /// An object made now, to be stored under `key`.
    ///
    /// # Errors
    /// `SlowDown` beyond the memory limit.
    pub fn new(
        memory: &Arc<Memory>,
        key: &str,
        pieces: Vec<Bytes>,
        etag: String,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Object, ApiError> {
        let overhead = memory.reserve(OVERHEAD + key.len() as u64 + headers_size(&headers))?;
        let modified = wall_now();
        let size = pieces.iter().map(|p| p.len() as u64).sum();
        let header =
            |text: String| HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""));
        Ok(Object {
            pieces,
            size,
            etag_header: header(format!("\"{etag}\"")),
            etag,
            modified,
            modified_header: header(http_date(modified)),
            headers,
            checksum: None,
            parts: None,
            upload_id: None,
            _overhead: overhead,
        })
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
#[derive(Debug)]
pub struct Upload {
    /// Headers of the object to be.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Checksum algorithm asked for at its creation, and whether over the whole object.
    pub checksum: Option<(Algorithm, bool)>,
    /// When it began.
    pub initiated: jiff::Timestamp,
    /// Parts by number.
    pub parts: BTreeMap<u32, Part>,
    /// Memory of everything but the parts' content.
    pub overhead: Reservation,
}

/// Uploads by key and upload id.
pub type Uploads = BTreeMap<(String, String), Upload>;
/// Objects by key.
pub type Objects = BTreeMap<String, Arc<Object>>;

/// One bucket.
pub struct Bucket {
    /// When it was created.
    pub created: jiff::Timestamp,
    /// Region that it was created for.
    pub region: String,
    /// Whether it is a directory bucket.
    pub directory: bool,
    objects: RwLock<Objects>,
    uploads: Mutex<Uploads>,
    /// True if the bucket was deleted; set and read under the lock of the objects.
    deleted: AtomicBool,
    _overhead: Reservation,
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

    /// The objects, to change. The bucket cannot be deleted while the guard lives, so what is stored through it stays.
    ///
    /// # Errors
    /// `NoSuchBucket` if the bucket was deleted since it was looked up.
    pub fn objects_mut(&self) -> Result<RwLockWriteGuard<'_, Objects>, ApiError> {
        let objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        if self.deleted.load(Ordering::Relaxed) { Err(ApiError::new("NoSuchBucket")) } else { Ok(objects) }
    }

    /// The unfinished uploads. Lock them before the objects.
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
pub struct State {
    /// The memory that it may take.
    pub memory: Arc<Memory>,
    buckets: RwLock<HashMap<String, Arc<Bucket>>>,
    upload_ids: AtomicU64,
}

impl State {
    /// Nothing yet, to grow to `memory_limit` bytes.
    pub fn new(memory_limit: u64) -> State {
        State {
            memory: Memory::new(memory_limit),
            buckets: RwLock::default(),
            upload_ids: AtomicU64::default(),
        }
    }

    /// A bucket by name.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn bucket(&self, name: &str) -> Result<Arc<Bucket>, ApiError> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.get(name).cloned().ok_or_else(|| ApiError::new("NoSuchBucket"))
    }

    /// All buckets, sorted by name.
    pub fn buckets(&self) -> Vec<(String, Arc<Bucket>)> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            buckets.iter().map(|(name, bucket)| (name.clone(), Arc::clone(bucket))).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// `BucketAlreadyOwnedByYou`, `SlowDown` beyond the memory limit.
    pub fn create_bucket(&self, name: &str, region: &str) -> Result<(), ApiError> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if buckets.contains_key(name) {
            return Err(ApiError::new("BucketAlreadyOwnedByYou"));
        }
        let bucket = Bucket {
            created: wall_now(),
            region: region.to_string(),
            directory: is_directory(name),
            objects: RwLock::default(),
            uploads: Mutex::default(),
            deleted: AtomicBool::new(false),
            _overhead: self.memory.reserve(OVERHEAD)?,
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
        let bucket = Arc::clone(buckets.get(name).ok_or_else(|| ApiError::new("NoSuchBucket"))?);
        let objects = bucket.objects_mut()?;
        if !objects.is_empty() {
            return Err(ApiError::new("BucketNotEmpty"));
        }
        bucket.deleted.store(true, Ordering::Relaxed);
        buckets.remove(name);
        Ok(())
    }

    /// A fresh upload id.
    pub fn upload_id(&self) -> String {
        let n = self.upload_ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}{:016x}", mix(n ^ wall_now().as_nanosecond() as u64), n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(state: &State) -> Arc<Object> {
        Arc::new(Object::new(&state.memory, "k", Vec::new(), "e".into(), Vec::new()).unwrap())
    }

    #[test]
    fn a_put_into_a_bucket_that_is_being_deleted_is_not_acknowledged() {
        let state = State::new(u64::MAX);
        state.create_bucket("bkt", "r").unwrap();
        // A PUT has looked the bucket up when another client deletes it.
        let found = state.bucket("bkt").unwrap();
        state.delete_bucket("bkt").unwrap();
        assert_eq!(found.objects_mut().unwrap_err().code, "NoSuchBucket");
        state.create_bucket("bkt", "r").unwrap();
        assert!(found.objects_mut().is_err(), "a new bucket of the name is another bucket");
        let found = state.bucket("bkt").unwrap();
        found.objects_mut().unwrap().insert("k".into(), object(&state));
        assert_eq!(state.delete_bucket("bkt").unwrap_err().code, "BucketNotEmpty");
    }

    #[test]
    fn puts_racing_with_a_bucket_deletion_stay_or_fail() {
        let state = State::new(u64::MAX);
        for _ in 0..200 {
            state.create_bucket("bkt", "r").unwrap();
            let (put, deleted) = std::thread::scope(|scope| {
                let put = scope.spawn(|| {
                    let bucket = state.bucket("bkt")?;
                    let object = object(&state);
                    bucket.objects_mut()?.insert("k".into(), object);
                    Ok::<(), ApiError>(())
                });
                let deleted = state.delete_bucket("bkt");
                (put.join().unwrap(), deleted)
            });
            let stays = state.bucket("bkt").is_ok_and(|b| b.object("k").is_ok());
            assert_eq!(put.is_ok(), stays, "put {put:?}, deletion {deleted:?}");
            if let Ok(bucket) = state.bucket("bkt") {
                bucket.objects_mut().unwrap().clear();
                state.delete_bucket("bkt").unwrap();
            }
        }
        assert_eq!(state.memory.used(), 0);
    }
}
