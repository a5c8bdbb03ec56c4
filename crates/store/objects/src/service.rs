//! The implementation of the protocol's service by a [`Store`].

use std::ops::Range;
use std::sync::Arc;

use plimsoll_base::net::encode::hex;
use plimsoll_s3::checksum::Algorithm;
use plimsoll_server::body::BodyReader;
use plimsoll_server::conditions::DeleteConditions;
use plimsoll_server::error::ApiError;
use plimsoll_server::features::Features;
use plimsoll_server::response::ResponseBody;
use plimsoll_server::service::{
    BucketChange, BucketInfo, Completion, Deleted, ListPage, ListQuery, NewBucket, NewObject, ObjectChange,
    ObjectInfo, ObjectService, PartInfo, UploadInfo, UploadName,
};

use super::error::for_client;
use super::read::Object;
use super::version::ObjectAddress;
use super::{Bucket, Store};
use plimsoll_bodies::tier::origin::attributed;
use plimsoll_catalog::Catalog;

/// Handle of a bucket.
pub struct Handle(pub Arc<Bucket>);

impl AsRef<BucketInfo> for Handle {
    fn as_ref(&self) -> &BucketInfo {
        &self.0.info
    }
}

impl Handle {
    fn target(&self, key: &str) -> ObjectAddress {
        ObjectAddress { bucket: Arc::clone(&self.0), key: key.to_string() }
    }
}

impl<C: Catalog> ObjectService for Store<C> {
    type Bucket = Handle;
    type Object = Object;

    fn features(&self) -> Features {
        Features {
            versions: true,
            tags: true,
            bucket_configuration: true,
            forms: true,
            acls: true,
            directory_buckets: false,
            if_none_match_tags: true,
            storage_classes: !self.class_names.is_empty(),
        }
    }

    async fn buckets(&self) -> Result<Vec<(String, Handle)>, ApiError> {
        let buckets = self.all_buckets().map_err(for_client)?;
        Ok(buckets.into_iter().map(|(name, bucket)| (name, Handle(bucket))).collect())
    }

    async fn bucket(&self, name: &str) -> Result<Handle, ApiError> {
        self.find_bucket(name).await.map(Handle)
    }

    async fn create_bucket(&self, name: &str, new: NewBucket<'_>) -> Result<(), ApiError> {
        self.new_bucket(name, new).await
    }

    async fn delete_bucket(&self, name: &str) -> Result<(), ApiError> {
        self.remove_bucket(name).await
    }

    async fn configure_bucket(&self, name: &str, change: BucketChange) -> Result<(), ApiError> {
        self.change_bucket(name, change).await
    }

    async fn open(&self, bucket: &Handle, key: &str, version: Option<&str>) -> Result<Object, ApiError> {
        self.find_object(&bucket.target(key), version).await
    }

    fn place(&self, object: &Object) -> Option<String> {
        self.place_of(object)
    }

    async fn read(&self, object: Object, range: Range<u64>) -> Result<ResponseBody, ApiError> {
        self.read_object(object, range).await
    }

    async fn put(
        &self,
        bucket: &Handle,
        key: &str,
        new: NewObject,
        body: &mut BodyReader<'_>,
    ) -> Result<ObjectInfo, ApiError> {
        // So that the costs of tiers can be attributed to buckets (bodies/tier/origin.rs).
        attributed(&bucket.0.name, self.put_object(bucket.target(key), new, body)).await
    }

    async fn delete(
        &self,
        bucket: &Handle,
        key: &str,
        version: Option<&str>,
        conditions: DeleteConditions,
    ) -> Result<Deleted, ApiError> {
        self.delete_object(bucket.target(key), version.map(str::to_string), conditions).await
    }

    async fn change_object(
        &self,
        bucket: &Handle,
        key: &str,
        version: Option<&str>,
        change: ObjectChange,
    ) -> Result<Option<String>, ApiError> {
        self.change(bucket.target(key), version.map(str::to_string), change).await
    }

    async fn list(&self, bucket: &Handle, query: &ListQuery<'_>) -> Result<ListPage, ApiError> {
        self.list_page(&bucket.0, query)
    }

    async fn create_upload(
        &self,
        bucket: &Handle,
        key: &str,
        upload: UploadInfo,
    ) -> Result<String, ApiError> {
        self.new_upload(bucket.target(key), upload).await
    }

    async fn upload(&self, bucket: &Handle, name: UploadName<'_>) -> Result<UploadInfo, ApiError> {
        self.find_upload(&bucket.0, name)
    }

    async fn put_part(
        &self,
        bucket: &Handle,
        name: UploadName<'_>,
        number: u32,
        checksum: Option<Algorithm>,
        body: &mut BodyReader<'_>,
    ) -> Result<PartInfo, ApiError> {
        let part = self.new_part(bucket.target(name.key), name.id, number, checksum, body);
        attributed(&bucket.0.name, part).await
    }

    async fn parts(&self, bucket: &Handle, name: UploadName<'_>) -> Result<Vec<PartInfo>, ApiError> {
        self.all_parts(&bucket.0, name)
    }

    async fn complete_upload(
        &self,
        bucket: &Handle,
        name: UploadName<'_>,
        completion: Completion,
    ) -> Result<ObjectInfo, ApiError> {
        self.complete(bucket.target(name.key), name.id, completion).await
    }

    async fn abort_upload(&self, bucket: &Handle, name: UploadName<'_>) -> Result<(), ApiError> {
        self.abort(&bucket.0, name).await
    }

    async fn uploads(
        &self,
        bucket: &Handle,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &str, &UploadInfo) -> bool,
    ) -> Result<(), ApiError> {
        self.visit_uploads(&bucket.0, prefix, &mut |key, id, upload| visit(key, &hex(&id), upload))
    }
}
