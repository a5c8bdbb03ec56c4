//! The service of `plimsoll serve`: keeps buckets and objects in memory, within a limit.

pub mod anomalies;
mod listing;
pub mod object;
pub mod serve;
pub mod state;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use self::anomalies::Anomalies;
use self::object::{Object, Stored, headers_size};
use self::state::{Bucket, Part, State, Upload};
use super::body::BodyReader;
use super::conditions::{DeleteConditions, WriteConditions};
use super::error::{ApiError, ErrorCode};
use super::features::Features;
use super::ops::existing;
use super::reserve::{Memory, OVERHEAD};
use super::response::ResponseBody;
use super::service::{
    BucketChange, Completion, Deleted, ListPage, ListQuery, NewBucket, NewObject, ObjectChange, ObjectInfo,
    ObjectPart, ObjectService, PartInfo, StoredChecksum, UploadInfo, UploadName,
};
use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::Algorithm;

/// A store of objects in memory.
pub struct MemoryService {
    state: State,
    memory: Arc<Memory>,
    /// Injected violations of consistency; `None` for a linearizable store.
    anomalies: Option<Anomalies>,
}

/// Handle of a bucket.
pub struct Handle(Arc<Bucket>);

impl AsRef<super::service::BucketInfo> for Handle {
    fn as_ref(&self) -> &super::service::BucketInfo {
        &self.0.info
    }
}

fn no_upload() -> ApiError {
    ApiError::new(ErrorCode::NoSuchUpload)
}

fn not_implemented() -> ApiError {
    ApiError::new(ErrorCode::NotImplemented)
}

impl MemoryService {
    /// Creates an empty store, whose objects count against the limit of `memory`.
    pub fn new(memory: &Arc<Memory>) -> MemoryService {
        MemoryService { state: State::new(Arc::clone(memory)), memory: Arc::clone(memory), anomalies: None }
    }

    /// Returns the store with injected violations of consistency; `None` for none.
    pub fn with_anomalies(self, anomalies: Option<Anomalies>) -> MemoryService {
        MemoryService { anomalies, ..self }
    }

    /// Returns the store with another, empty bucket.
    ///
    /// # Errors
    /// Returns `BucketAlreadyOwnedByYou` if it has this bucket, or `SlowDown` beyond the memory limit.
    pub fn with_bucket(self, name: &str) -> Result<MemoryService, ApiError> {
        self.state.create_bucket(name, "")?;
        Ok(self)
    }

    /// Returns the number of objects in all buckets, and the sum of their sizes in bytes.
    pub fn stored(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for (_, bucket) in self.state.buckets() {
            for object in bucket.objects().values() {
                sum = (sum.0 + 1, sum.1 + object.info.size);
            }
        }
        sum
    }

    /// Returns the staleness of reads in nanoseconds; `None` if reads are not stale.
    fn stale_ns(&self) -> Option<u64> {
        self.anomalies.as_ref().map(|anomalies| anomalies.stale_ns).filter(|stale_ns| *stale_ns > 0)
    }

    /// Returns the staleness of listings in nanoseconds, at least that of reads; `None` if they are not stale.
    fn stale_list_ns(&self) -> Option<u64> {
        self.anomalies.as_ref().map(|anomalies| anomalies.stale_list_ns).filter(|stale_ns| *stale_ns > 0)
    }

    /// Stores an object if the conditions hold. One lock covers the check and the write, so that one of two concurrent
    /// conditional writers fails.
    fn store(
        &self,
        bucket: &Bucket,
        key: &str,
        object: Object,
        conditions: &WriteConditions,
    ) -> Result<(), ApiError> {
        let mut objects = bucket.objects_mut()?;
        conditions.check(objects.get(key).map(|object| existing(&object.info)))?;
        let conditional = *conditions != WriteConditions::default();
        if conditional && self.anomalies.as_ref().is_some_and(Anomalies::loses_write) {
            return Ok(());
        }
        // Release the lock before the old content is freed.
        let old = objects.insert(key.to_string(), Arc::new(object));
        if let Some(stale_ns) = self.stale_list_ns() {
            bucket.past().record(key, old.clone(), stale_ns);
        }

        drop(objects);
        drop(old);
        Ok(())
    }
}

impl ObjectService for MemoryService {
    type Bucket = Handle;
    type Object = Stored;

    fn features(&self) -> Features {
        Features { directory_buckets: true, ..Features::default() }
    }

    async fn buckets(&self) -> Result<Vec<(String, Handle)>, ApiError> {
        Ok(self.state.buckets().into_iter().map(|(name, bucket)| (name, Handle(bucket))).collect())
    }

    async fn bucket(&self, name: &str) -> Result<Handle, ApiError> {
        self.state.bucket(name).map(Handle)
    }

    async fn create_bucket(&self, name: &str, new: NewBucket<'_>) -> Result<(), ApiError> {
        self.state.create_bucket(name, new.region)
    }

    async fn delete_bucket(&self, name: &str) -> Result<(), ApiError> {
        self.state.delete_bucket(name)
    }

    async fn configure_bucket(&self, _: &str, _: BucketChange) -> Result<(), ApiError> {
        Err(not_implemented())
    }

    async fn open(&self, bucket: &Handle, key: &str, _: Option<&str>) -> Result<Stored, ApiError> {
        if let Some(mixed) = self.anomalies.as_ref().and_then(|anomalies| anomalies.mixed(key)) {
            return Ok(Stored(mixed));
        }
        let Some(stale_ns) = self.stale_ns() else { return bucket.0.object(key).map(Stored) };
        let current = bucket.0.objects().get(key).cloned();
        let object = bucket.0.past().object(key, current, stale_ns);
        object.map(Stored).ok_or_else(|| ApiError::new(ErrorCode::NoSuchKey))
    }

    async fn read(&self, object: Stored, range: Range<u64>) -> Result<ResponseBody, ApiError> {
        let object = object.0;
        let whole = range.end - range.start == object.info.size;
        Ok(ResponseBody::new(if whole {
            object.pieces.clone()
        } else {
            object.slice(range.start, range.end)
        }))
    }

    async fn put(
        &self,
        bucket: &Handle,
        key: &str,
        new: NewObject,
        body: &mut BodyReader<'_>,
    ) -> Result<ObjectInfo, ApiError> {
        let data = body.collect(&self.memory).await?;
        let digests = body.finish()?;
        let bucket = &*bucket.0;
        let etag = hex(&bucket.tag(digests.md5));
        let mut object = Object::new(&self.memory, key, vec![data], &etag, new.headers)?;
        object.info.checksum =
            digests.checksum.map(|(algorithm, value)| StoredChecksum { algorithm, value, full_object: true });
        let info = object.info.clone();
        if let Some(anomalies) = self.anomalies.as_ref().filter(|anomalies| anomalies.tears_write()) {
            let old = bucket.objects().get(key).cloned();
            if let Some(mixed) = old.and_then(|old| object.mixed_with(&old, &self.memory, key)) {
                anomalies.tear(key, mixed).await.map_err(|_| ApiError::new(ErrorCode::InternalError))?;
            }
        }
        self.store(bucket, key, object, &new.conditions)?;
        Ok(info)
    }

    async fn delete(
        &self,
        bucket: &Handle,
        key: &str,
        _: Option<&str>,
        conditions: DeleteConditions,
    ) -> Result<Deleted, ApiError> {
        let mut objects = bucket.0.objects_mut()?;
        conditions.check(objects.get(key).map(|o| (existing(&o.info), o.info.size)))?;
        let old = objects.remove(key);
        if let Some(stale_ns) = self.stale_list_ns() {
            bucket.0.past().record(key, old.clone(), stale_ns);
        }
        drop(objects);
        drop(old);
        Ok(Deleted::default())
    }

    async fn change_object(
        &self,
        _: &Handle,
        _: &str,
        _: Option<&str>,
        _: ObjectChange,
    ) -> Result<Option<String>, ApiError> {
        Err(not_implemented())
    }

    async fn list(&self, bucket: &Handle, query: &ListQuery<'_>) -> Result<ListPage, ApiError> {
        listing::list(&bucket.0, query, self.stale_list_ns())
    }

    async fn create_upload(
        &self,
        bucket: &Handle,
        key: &str,
        upload: UploadInfo,
    ) -> Result<String, ApiError> {
        let overhead = OVERHEAD + key.len() as u64 + headers_size(&upload.object.headers);
        let overhead = self.memory.reserve(overhead)?;
        let upload = Upload { overhead, info: upload, parts: Default::default() };
        let id = self.state.upload_id();
        bucket.0.uploads().insert((key.to_string(), id.clone()), upload);
        Ok(id)
    }

    async fn upload(&self, bucket: &Handle, name: UploadName<'_>) -> Result<UploadInfo, ApiError> {
        let uploads = bucket.0.uploads();
        uploads.get(&name.owned()).map(|upload| upload.info.clone()).ok_or_else(no_upload)
    }

    async fn put_part(
        &self,
        bucket: &Handle,
        name: UploadName<'_>,
        number: u32,
        checksum: Option<Algorithm>,
        body: &mut BodyReader<'_>,
    ) -> Result<PartInfo, ApiError> {
        let data: Bytes = body.collect(&self.memory).await?;
        let digests = body.finish()?;
        let info = PartInfo {
            number,
            size: data.len() as u64,
            md5: bucket.0.tag(digests.md5),
            crc64: digests.crc64,
            modified: wall_now(),
            checksum: digests.checksum.filter(|(algorithm, _)| checksum.is_none_or(|c| c == *algorithm)),
        };
        let mut uploads = bucket.0.uploads();
        let upload = uploads.get_mut(&name.owned()).ok_or_else(no_upload)?;
        if !upload.parts.contains_key(&number) {
            upload.overhead.grow(OVERHEAD)?;
        }
        upload.parts.insert(number, Part { data, info: info.clone() });
        Ok(info)
    }

    async fn parts(&self, bucket: &Handle, name: UploadName<'_>) -> Result<Vec<PartInfo>, ApiError> {
        let uploads = bucket.0.uploads();
        let upload = uploads.get(&name.owned()).ok_or_else(no_upload)?;
        Ok(upload.parts.values().map(|part| part.info.clone()).collect())
    }

    async fn complete_upload(
        &self,
        bucket: &Handle,
        name: UploadName<'_>,
        completion: Completion,
    ) -> Result<ObjectInfo, ApiError> {
        let bucket = &*bucket.0;
        let mut uploads = bucket.uploads();
        let upload = uploads.get(&name.owned()).ok_or_else(no_upload)?;
        let current = |part: &PartInfo| upload.parts.get(&part.number).filter(|p| p.info == *part);
        let pieces: Option<Vec<Bytes>> =
            completion.parts.iter().map(|part| Some(current(part)?.data.clone())).collect();
        let pieces = pieces.ok_or_else(|| ApiError::new(ErrorCode::InvalidPart))?;
        let headers = upload.info.object.headers.clone();
        let mut object = Object::new(&self.memory, name.key, pieces, &completion.etag, headers)?;
        object.info.parts = Some(completion.parts.into_iter().map(ObjectPart::from).collect());
        object.info.upload_id = Some(name.id.to_string());
        object.info.checksum = Some(completion.checksum);
        let info = object.info.clone();
        self.store(bucket, name.key, object, &completion.conditions)?;
        uploads.remove(&name.owned());
        Ok(info)
    }

    async fn abort_upload(&self, bucket: &Handle, name: UploadName<'_>) -> Result<(), ApiError> {
        let removed = bucket.0.uploads().remove(&name.owned());
        removed.map(|_| ()).ok_or_else(no_upload)
    }

    async fn uploads(
        &self,
        bucket: &Handle,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &str, &UploadInfo) -> bool,
    ) -> Result<(), ApiError> {
        let uploads = bucket.0.uploads();
        for ((key, id), upload) in uploads.range((prefix.to_string(), String::new())..) {
            if !key.starts_with(prefix) || !visit(key, id, &upload.info) {
                break;
            }
        }
        Ok(())
    }
}
