//! The service of `plimsoll serve`: keeps buckets and objects in memory, within a limit.

pub mod anomalies;
mod expire;
mod listing;
pub mod object;
pub mod serve;
pub mod state;
pub mod versions;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use self::anomalies::{Anomalies, View};
use self::object::{NULL, Object, Stored, headers_size};
use self::state::{Bucket, MemoryState, UnfinishedPart, Upload};
use self::versions::Versions;
use plimsoll_base::clock::wall_now;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::Algorithm;
use plimsoll_server::body::BodyReader;
use plimsoll_server::conditions::{DeleteConditions, WriteConditions};
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::features::Features;
use plimsoll_server::ops::existing;
use plimsoll_server::reserve::{Memory, OVERHEAD};
use plimsoll_server::response::ResponseBody;
use plimsoll_server::service::{
    BucketChange, Completion, Deleted, ListPage, ListQuery, NewBucket, NewObject, ObjectChange, ObjectInfo,
    ObjectPart, ObjectService, PartInfo, StoredChecksum, UploadInfo, UploadName, Versioning,
};
use plimsoll_server::versions::{VersionToDelete, check_delete, hidden};

/// A store of objects in memory.
pub struct MemoryService {
    state: MemoryState,
    memory: Arc<Memory>,
    /// Injected violations of consistency; `None` for a linearizable store.
    anomalies: Option<Anomalies>,
}

/// Handle of a bucket.
pub struct Handle(Arc<Bucket>);

impl AsRef<plimsoll_server::service::BucketInfo> for Handle {
    fn as_ref(&self) -> &plimsoll_server::service::BucketInfo {
        &self.0.info
    }
}

fn no_upload() -> ApiError {
    ApiError::new(ErrorCode::NoSuchUpload)
}

impl MemoryService {
    /// Creates an empty store, whose objects count against the limit of `memory`.
    pub fn new(memory: &Arc<Memory>) -> MemoryService {
        MemoryService {
            state: MemoryState::new(Arc::clone(memory)),
            memory: Arc::clone(memory),
            anomalies: None,
        }
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
        self.state.create_bucket(name, NewBucket::default())?;
        Ok(self)
    }

    /// Returns the number of objects in all buckets, and the sum of their sizes in bytes.
    pub fn stored(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for (_, bucket) in self.state.buckets() {
            let objects = bucket.objects();
            let noncurrent = bucket.noncurrent();
            let all = objects.values().chain(noncurrent.values().flatten());
            for object in all.filter(|object| !object.is_marker) {
                sum = (sum.0 + 1, sum.1 + object.info.size);
            }
        }
        sum
    }

    /// Returns the anomalies if reads or listings may return old states.
    fn staleness(&self) -> Option<&Anomalies> {
        self.anomalies.as_ref().filter(|anomalies| anomalies.is_stale())
    }

    /// Stores an object if the conditions hold, and returns its properties. One lock covers the check and the write, so
    /// that one of two concurrent conditional writers fails.
    fn store(
        &self,
        bucket: &Bucket,
        key: &str,
        mut object: Object,
        conditions: &WriteConditions,
    ) -> Result<ObjectInfo, ApiError> {
        let mut objects = bucket.objects_mut()?;
        conditions.check(
            objects.get(key).filter(|object| !object.is_marker).map(|object| existing(&object.info)),
        )?;
        let conditional = *conditions != WriteConditions::default();
        if conditional && self.anomalies.as_ref().is_some_and(Anomalies::loses_write) {
            return Ok(object.info);
        }
        let versioning = bucket.versioning();
        object.info.version = self.new_version(versioning);
        let stored = Arc::new(object);
        if let Some(anomalies) = self.staleness() {
            anomalies.replaced(&mut bucket.past(), key, objects.get(key).cloned());
        }
        // Release the lock before the old content is freed.
        if versioning == Versioning::Off {
            let old = objects.insert(key.to_string(), Arc::clone(&stored));
            drop(objects);
            drop(old);
        } else {
            let mut noncurrent = bucket.noncurrent();
            let mut versions = Versions { current: &mut objects, noncurrent: &mut noncurrent };
            let replaced = versions.write(key, Arc::clone(&stored), versioning);
            drop((noncurrent, objects));
            drop(replaced);
        }
        Ok(stored.info.clone())
    }

    /// Returns the id of a new version; `None` in a bucket that was never versioned.
    fn new_version(&self, versioning: Versioning) -> Option<String> {
        match versioning {
            Versioning::Off => None,
            Versioning::Enabled => Some(self.state.new_id()),
            Versioning::Suspended => Some(NULL.into()),
        }
    }

    /// Finds the current object of a key, or one of its versions.
    fn find(&self, bucket: &Bucket, key: &str, version: Option<&str>) -> Result<Arc<Object>, ApiError> {
        let found = match version {
            None => bucket.object(key)?,
            Some(_) => {
                let objects = bucket.objects();
                let found = versions::find(&objects, &bucket.noncurrent(), key, version).cloned();
                found.ok_or_else(|| ApiError::new(ErrorCode::NoSuchVersion))?
            }
        };
        unless_hidden(found, version.is_some())
    }

    /// Deletes a version of an object or, in a versioned bucket, hides the current one, if `accepts` returns no error
    /// for the version that is found. One lock covers both.
    fn remove(
        &self,
        bucket: &Bucket,
        key: &str,
        version: Option<&str>,
        accepts: impl FnOnce(Option<&Arc<Object>>) -> Result<(), ApiError>,
    ) -> Result<Deleted, ApiError> {
        let mut objects = bucket.objects_mut()?;
        let mut noncurrent = bucket.noncurrent();
        accepts(versions::find(&objects, &noncurrent, key, version))?;
        if let Some(anomalies) = self.staleness() {
            anomalies.replaced(&mut bucket.past(), key, objects.get(key).cloned());
        }
        let versioning = bucket.versioning();
        let mut versions = Versions { current: &mut objects, noncurrent: &mut noncurrent };
        let (removed, deleted) = match (version, self.new_version(versioning)) {
            (None, None) => (versions.current.remove(key).into_iter().collect(), Deleted::default()),
            (None, Some(id)) => {
                let marker = Arc::new(Object::marker(&self.memory, key, id.clone())?);
                (versions.write(key, marker, versioning), Deleted { version: Some(id), marker: true })
            }
            (Some(version), id) => {
                let removed = versions.remove(key, version);
                let marker = removed.as_ref().is_some_and(|object| object.is_marker);
                let version = id.map(|_| version.to_string());
                (removed.into_iter().collect::<Vec<_>>(), Deleted { version, marker })
            }
        };
        // Release the locks before the old content is freed.
        drop((noncurrent, objects));
        drop(removed);
        Ok(deleted)
    }
}

/// Returns an object as the conditions of a delete see it.
fn facts(object: &Object) -> VersionToDelete<'_> {
    VersionToDelete { existing: existing(&object.info), size: object.info.size, is_marker: object.is_marker }
}

/// Returns an object, or the error for a read that finds a delete marker.
fn unless_hidden(object: Arc<Object>, by_version: bool) -> Result<Arc<Object>, ApiError> {
    match object.is_marker {
        true => Err(hidden(object.version().to_string(), object.info.modified, by_version)),
        false => Ok(object),
    }
}

impl ObjectService for MemoryService {
    type Bucket = Handle;
    type Object = Stored;

    fn features(&self) -> Features {
        Features {
            versions: true,
            tags: true,
            bucket_configuration: true,
            forms: true,
            acls: true,
            directory_buckets: true,
            if_none_match_tags: false,
            storage_classes: false,
        }
    }

    async fn buckets(&self) -> Result<Vec<(String, Handle)>, ApiError> {
        Ok(self.state.buckets().into_iter().map(|(name, bucket)| (name, Handle(bucket))).collect())
    }

    async fn bucket(&self, name: &str) -> Result<Handle, ApiError> {
        self.state.bucket(name).map(Handle)
    }

    async fn create_bucket(&self, name: &str, new: NewBucket<'_>) -> Result<(), ApiError> {
        self.state.create_bucket(name, new)
    }

    async fn delete_bucket(&self, name: &str) -> Result<(), ApiError> {
        self.state.delete_bucket(name)
    }

    async fn configure_bucket(&self, name: &str, change: BucketChange) -> Result<(), ApiError> {
        if let BucketChange::Lifecycle(Some(rules)) = &change
            && rules.rules.iter().any(|rule| !rule.transitions.is_empty())
        {
            let text = "This server has no storage classes for transitions";
            return Err(ApiError::with(ErrorCode::NotImplemented, text));
        }
        self.state.change_bucket(name, change)
    }

    async fn open(&self, bucket: &Handle, key: &str, version: Option<&str>) -> Result<Stored, ApiError> {
        let handle = |object| Stored::new(object, bucket.0.is_versioned());
        if let Some(mixed) = self.anomalies.as_ref().and_then(|anomalies| anomalies.mixed(key)) {
            return Ok(handle(mixed));
        }
        if self.staleness().is_none() || version.is_some() {
            return self.find(&bucket.0, key, version).map(handle);
        }
        let current = bucket.0.objects().get(key).cloned();
        let object = bucket.0.past().object(key, current, View::Reads);
        let object = object.ok_or_else(|| ApiError::new(ErrorCode::NoSuchKey))?;
        unless_hidden(object, false).map(handle)
    }

    async fn read(&self, object: Stored, range: Range<u64>) -> Result<ResponseBody, ApiError> {
        let object = object.object;
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
        object.set_tags(new.tags)?;
        object.info.acl = new.acl;
        if let Some(anomalies) = self.anomalies.as_ref().filter(|anomalies| anomalies.tears_write()) {
            let old = bucket.objects().get(key).cloned();
            if let Some(mixed) = old.and_then(|old| object.mixed_with(&old, &self.memory, key)) {
                anomalies.tear(key, mixed).await.map_err(|_| ApiError::new(ErrorCode::InternalError))?;
            }
        }
        self.store(bucket, key, object, &new.conditions)
    }

    async fn delete(
        &self,
        bucket: &Handle,
        key: &str,
        version: Option<&str>,
        conditions: DeleteConditions,
    ) -> Result<Deleted, ApiError> {
        self.remove(&bucket.0, key, version, |found| {
            check_delete(&conditions, found.map(|object| facts(object)))
        })
    }

    async fn change_object(
        &self,
        bucket: &Handle,
        key: &str,
        version: Option<&str>,
        change: ObjectChange,
    ) -> Result<Option<String>, ApiError> {
        let bucket = &*bucket.0;
        let mut objects = bucket.objects_mut()?;
        let mut noncurrent = bucket.noncurrent();
        let found = versions::find(&objects, &noncurrent, key, version).cloned();
        let missing = if version.is_some() { ErrorCode::NoSuchVersion } else { ErrorCode::NoSuchKey };
        let found = unless_hidden(found.ok_or_else(|| ApiError::new(missing))?, version.is_some())?;
        let changed = found.changed(&self.memory, key, change)?;
        let id = bucket.is_versioned().then(|| changed.version().to_string());
        Versions { current: &mut objects, noncurrent: &mut noncurrent }.replace(
            key,
            &found,
            Arc::new(changed),
        );
        Ok(id)
    }

    async fn list(&self, bucket: &Handle, query: &ListQuery<'_>) -> Result<ListPage, ApiError> {
        listing::list(&bucket.0, query, self.staleness().is_some())
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
        let id = self.state.new_id();
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
        upload.parts.insert(number, UnfinishedPart { data, info: info.clone() });
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
        object.set_tags(upload.info.object.tags.clone())?;
        object.info.acl = upload.info.object.acl;
        let info = self.store(bucket, name.key, object, &completion.conditions)?;
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
