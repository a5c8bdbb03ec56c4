//! In-memory buckets, objects and unfinished uploads.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use super::anomalies::Past;
use super::object::{Object, Objects};
use super::versions::Noncurrent;
use plimsoll_base::clock::wall_now;
use plimsoll_base::provider::zone::is_directory;
use plimsoll_base::rng::mix;
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::express::tag;
use plimsoll_server::reserve::{Memory, OVERHEAD, Reservation};
use plimsoll_server::service::{BucketChange, BucketInfo, NewBucket, PartInfo, UploadInfo, Versioning};

/// One part of an unfinished upload.
#[derive(Debug, Clone)]
pub struct UnfinishedPart {
    /// Content of the part.
    pub data: Bytes,
    /// Properties of the part.
    pub info: PartInfo,
}

/// An unfinished multipart upload.
#[derive(Debug)]
pub struct Upload {
    /// Properties of the upload.
    pub info: UploadInfo,
    /// Uploaded parts by part number.
    pub parts: BTreeMap<u32, UnfinishedPart>,
    /// Memory reserved for everything but the content of the parts.
    pub overhead: Reservation,
}

/// Unfinished uploads by key and upload id.
pub type Uploads = BTreeMap<(String, String), Upload>;

/// A bucket with its objects and unfinished uploads. A change of its properties makes another one with the same
/// contents.
pub struct Bucket {
    /// Properties of the bucket.
    pub info: BucketInfo,
    contents: Arc<Contents>,
}

/// Objects and unfinished uploads of a bucket.
struct Contents {
    objects: RwLock<Objects>,
    /// Versions that are not the current one. Take this lock after the lock of the objects.
    noncurrent: Mutex<Noncurrent>,
    uploads: Mutex<Uploads>,
    /// Previous states of the objects, if reads are to be stale.
    past: Mutex<Past>,
    /// Versioning state, as a number; changed under the lock of the objects, also for requests that have begun.
    versioning: AtomicU8,
    /// True if the bucket was deleted; set and read under the lock of the objects.
    deleted: AtomicBool,
    _overhead: Reservation,
}

impl AsRef<BucketInfo> for Bucket {
    fn as_ref(&self) -> &BucketInfo {
        &self.info
    }
}

impl Bucket {
    /// Returns the bytes of the entity tag for content with this MD5.
    pub fn tag(&self, md5: [u8; 16]) -> [u8; 16] {
        if self.info.directory { tag(md5) } else { md5 }
    }

    /// Locks the objects for reading.
    pub fn objects(&self) -> RwLockReadGuard<'_, Objects> {
        self.contents.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the objects for writing. The bucket cannot be deleted while the guard lives, so a successful write
    /// is not lost.
    ///
    /// # Errors
    /// Returns `NoSuchBucket` if the bucket was deleted after it was looked up.
    pub fn objects_mut(&self) -> Result<RwLockWriteGuard<'_, Objects>, ApiError> {
        let objects = self.contents.objects.write().unwrap_or_else(PoisonError::into_inner);
        if self.contents.deleted.load(Ordering::Relaxed) {
            Err(ApiError::new(ErrorCode::NoSuchBucket))
        } else {
            Ok(objects)
        }
    }

    /// Locks the unfinished uploads. Take this lock before the lock of the objects.
    pub fn uploads(&self) -> MutexGuard<'_, Uploads> {
        self.contents.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the previous states of the objects. Take this lock after the lock of the objects.
    pub fn past(&self) -> MutexGuard<'_, Past> {
        self.contents.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the versions that are not the current one. Take this lock after the lock of the objects.
    pub fn noncurrent(&self) -> MutexGuard<'_, Noncurrent> {
        self.contents.noncurrent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the object stored under `key`, which may be a delete marker.
    ///
    /// # Errors
    /// Returns `NoSuchKey` if there is no such object.
    pub fn object(&self, key: &str) -> Result<Arc<Object>, ApiError> {
        self.objects().get(key).cloned().ok_or_else(|| ApiError::new(ErrorCode::NoSuchKey))
    }

    /// Returns the versioning state. It changes only while nobody has the lock of the objects.
    pub fn versioning(&self) -> Versioning {
        match self.contents.versioning.load(Ordering::Relaxed) {
            state if state == Versioning::Off as u8 => Versioning::Off,
            state if state == Versioning::Enabled as u8 => Versioning::Enabled,
            _ => Versioning::Suspended,
        }
    }

    /// Returns true if responses contain version ids.
    pub fn is_versioned(&self) -> bool {
        self.versioning() != Versioning::Off
    }
}

/// All data that the server stores.
pub struct MemoryState {
    /// Memory limit and usage of the server.
    memory: Arc<Memory>,
    buckets: RwLock<HashMap<String, Arc<Bucket>>>,
    ids: AtomicU64,
}

impl MemoryState {
    /// Creates an empty state, whose objects count against the limit of `memory`.
    pub fn new(memory: Arc<Memory>) -> MemoryState {
        MemoryState { memory, buckets: RwLock::default(), ids: AtomicU64::default() }
    }

    /// Returns the bucket called `name`.
    ///
    /// # Errors
    /// Returns `NoSuchBucket` if there is no such bucket.
    pub fn bucket(&self, name: &str) -> Result<Arc<Bucket>, ApiError> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.get(name).cloned().ok_or_else(|| ApiError::new(ErrorCode::NoSuchBucket))
    }

    /// Returns all buckets with their names, sorted by name.
    pub fn buckets(&self) -> Vec<(String, Arc<Bucket>)> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            buckets.iter().map(|(name, bucket)| (name.clone(), Arc::clone(bucket))).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Creates an empty bucket, which is a directory bucket if its name ends in `--x-s3`.
    ///
    /// # Errors
    /// Returns `BucketAlreadyOwnedByYou` if the bucket exists, or `SlowDown` if the memory limit would be exceeded.
    pub fn create_bucket(&self, name: &str, new: NewBucket<'_>) -> Result<(), ApiError> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(existing) = buckets.get(name) {
            return match existing.info.is_recreated_by(&new) {
                true => Ok(()),
                false => Err(ApiError::new(ErrorCode::BucketAlreadyOwnedByYou)),
            };
        }
        let bucket = Bucket {
            info: BucketInfo {
                created: wall_now(),
                region: new.region.to_string(),
                directory: is_directory(name),
                owner: new.owner.to_string(),
                acl: new.acl,
                ..BucketInfo::default()
            },
            contents: Arc::new(Contents {
                objects: RwLock::default(),
                noncurrent: Mutex::default(),
                uploads: Mutex::default(),
                past: Mutex::default(),
                versioning: AtomicU8::new(Versioning::Off as u8),
                deleted: AtomicBool::new(false),
                _overhead: self.memory.reserve(OVERHEAD)?,
            }),
        };
        buckets.insert(name.to_string(), Arc::new(bucket));
        Ok(())
    }

    /// Changes the properties of a bucket.
    ///
    /// # Errors
    /// Returns `NoSuchBucket` if there is no such bucket.
    pub fn change_bucket(&self, name: &str, change: BucketChange) -> Result<(), ApiError> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.get_mut(name).ok_or_else(|| ApiError::new(ErrorCode::NoSuchBucket))?;
        let info = bucket.info.clone().with(change);
        let objects = bucket.objects_mut()?;
        bucket.contents.versioning.store(info.versioning as u8, Ordering::Relaxed);
        drop(objects);
        *bucket = Arc::new(Bucket { info, contents: Arc::clone(&bucket.contents) });
        Ok(())
    }

    /// Deletes an empty bucket.
    ///
    /// # Errors
    /// Returns `NoSuchBucket` if there is no such bucket, or `BucketNotEmpty` if it contains objects.
    pub fn delete_bucket(&self, name: &str) -> Result<(), ApiError> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let bucket = Arc::clone(buckets.get(name).ok_or_else(|| ApiError::new(ErrorCode::NoSuchBucket))?);
        let objects = bucket.objects_mut()?;
        if !objects.is_empty() {
            return Err(ApiError::new(ErrorCode::BucketNotEmpty));
        }
        bucket.contents.deleted.store(true, Ordering::Relaxed);
        buckets.remove(name);
        Ok(())
    }

    /// Returns a new id of an upload or a version, of 32 hexadecimal digits.
    pub fn new_id(&self) -> String {
        let n = self.ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}{:016x}", mix(n ^ wall_now().as_nanosecond() as u64), n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(state: &MemoryState) -> Arc<Object> {
        Arc::new(Object::new(&state.memory, "k", Vec::new(), "e", Vec::new()).unwrap())
    }

    #[test]
    fn a_put_into_a_bucket_that_is_being_deleted_is_not_acknowledged() {
        let state = MemoryState::new(Memory::new(u64::MAX));
        state.create_bucket("bkt", NewBucket::default()).unwrap();
        // A PUT has looked the bucket up when another client deletes it.
        let found = state.bucket("bkt").unwrap();
        state.delete_bucket("bkt").unwrap();
        assert_eq!(found.objects_mut().unwrap_err().code, ErrorCode::NoSuchBucket);
        state.create_bucket("bkt", NewBucket::default()).unwrap();
        assert!(found.objects_mut().is_err(), "a new bucket of the same name is a different bucket");
        let found = state.bucket("bkt").unwrap();
        found.objects_mut().unwrap().insert("k".into(), object(&state));
        assert_eq!(state.delete_bucket("bkt").unwrap_err().code, ErrorCode::BucketNotEmpty);
    }

    #[test]
    fn puts_racing_with_a_bucket_deletion_persist_or_fail() {
        let state = MemoryState::new(Memory::new(u64::MAX));
        for _ in 0..200 {
            state.create_bucket("bkt", NewBucket::default()).unwrap();
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
            let persists = state.bucket("bkt").is_ok_and(|b| b.object("k").is_ok());
            assert_eq!(put.is_ok(), persists, "put {put:?}, deletion {deleted:?}");
            if let Ok(bucket) = state.bucket("bkt") {
                bucket.objects_mut().unwrap().clear();
                state.delete_bucket("bkt").unwrap();
            }
        }
        assert_eq!(state.memory.used(), 0);
    }
}
