//! The seam between the S3 protocol and a store of objects: [`ObjectService`].
//!
//! The protocol authenticates, routes and parses requests, and writes responses. A service stores buckets, objects and
//! unfinished uploads. Bodies are streams in both directions.

use std::ops::Range;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};

use super::body::BodyReader;
use super::conditions::{DeleteConditions, WriteConditions};
use super::config::acl::CannedAcl;
use super::config::cors::Cors;
use super::config::lifecycle::Lifecycle;
use super::config::tags::Tags;
use super::error::ApiError;
use super::features::Features;
use super::response::ResponseBody;
use plimsoll_s3::checksum::Algorithm;

/// Versioning state of a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Versioning {
    /// Versioning was never enabled: each key has at most one version, `null`, and responses contain no version ids.
    #[default]
    Off,
    /// Every write creates a version with a new id.
    Enabled,
    /// Writes replace the version `null`; other versions are kept.
    Suspended,
}

/// Properties of a bucket.
#[derive(Debug, Clone, Default)]
pub struct BucketInfo {
    /// Time at which the bucket was created.
    pub created: jiff::Timestamp,
    /// Region requested when the bucket was created, by default that of the server.
    pub region: String,
    /// True for a directory bucket.
    pub directory: bool,
    /// Access key of the account that created the bucket; empty if the service has only one owner.
    pub owner: String,
    /// Access of other clients to the listing of the bucket, and to writes.
    pub acl: CannedAcl,
    /// Versioning state of the bucket.
    pub versioning: Versioning,
    /// Tags; `None` if there are none.
    pub tags: Option<Tags>,
    /// Rules for requests of web pages from other origins; `None` if there are none.
    pub cors: Option<Cors>,
    /// Rules that delete objects and unfinished uploads; `None` if there are none.
    pub lifecycle: Option<Lifecycle>,
}

impl BucketInfo {
    /// Returns whether a request to create this bucket again succeeds without a change. In us-east-1, the request of
    /// the owner does (S3 API reference, "CreateBucket").
    pub fn is_recreated_by(&self, new: &NewBucket<'_>) -> bool {
        new.region == "us-east-1" && self.region == new.region && self.owner == new.owner && !self.directory
    }

    /// Returns the properties after a change.
    #[must_use]
    pub fn with(mut self, change: BucketChange) -> BucketInfo {
        match change {
            BucketChange::Acl(acl) => self.acl = acl,
            BucketChange::Versioning(true) => self.versioning = Versioning::Enabled,
            BucketChange::Versioning(false) => self.versioning = Versioning::Suspended,
            BucketChange::Tags(tags) => self.tags = tags,
            BucketChange::Cors(cors) => self.cors = cors,
            BucketChange::Lifecycle(lifecycle) => self.lifecycle = lifecycle,
        }
        self
    }
}

/// A change of a bucket's configuration. `None` removes the configuration.
#[derive(Debug, Clone)]
pub enum BucketChange {
    /// Replaces the access control list.
    Acl(CannedAcl),
    /// Enables versioning if true, otherwise suspends it.
    Versioning(bool),
    /// Replaces the tags.
    Tags(Option<Tags>),
    /// Replaces the CORS rules.
    Cors(Option<Cors>),
    /// Replaces the lifecycle rules.
    Lifecycle(Option<Lifecycle>),
}

/// Checksum stored with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChecksum {
    /// Algorithm that computed the checksum.
    pub algorithm: Algorithm,
    /// Value as sent over HTTP: base64, followed by `-N` if it is composed of the checksums of N parts.
    pub value: String,
    /// True if it covers the whole object instead of the checksums of the parts.
    pub full_object: bool,
}

impl StoredChecksum {
    /// Returns the type of the checksum as in the S3 API.
    pub fn kind(&self) -> &'static str {
        if self.full_object { "FULL_OBJECT" } else { "COMPOSITE" }
    }
}

/// One part of a completed multipart upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPart {
    /// Part number, from 1 to 10,000.
    pub number: u32,
    /// Size in bytes.
    pub size: u64,
    /// Algorithm and value of the part's checksum; `None` if it has none.
    pub checksum: Option<(Algorithm, String)>,
}

/// Properties of a stored object.
#[derive(Debug, Clone)]
pub struct ObjectInfo {
    /// Size in bytes.
    pub size: u64,
    /// Value of the `ETag` header, with quotes.
    pub etag_header: HeaderValue,
    /// Time of the last modification.
    pub modified: jiff::Timestamp,
    /// Value of the `Last-Modified` header.
    pub modified_header: HeaderValue,
    /// Headers returned with the object: content type, content encoding and similar, and user metadata.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Checksum declared by the client or computed by the server; `None` if there is none.
    pub checksum: Option<StoredChecksum>,
    /// Parts of the multipart upload that created the object; `None` for other objects.
    pub parts: Option<Vec<ObjectPart>>,
    /// Version id; `None` if the bucket was never versioned.
    pub version: Option<String>,
    /// Tags of the object.
    pub tags: Tags,
    /// Access of other clients to the object.
    pub acl: CannedAcl,
    /// Id of the upload that created the object, so that a repeated completion succeeds; `None` for other objects.
    pub upload_id: Option<String>,
    /// Storage class; `None` for the default class of the bucket.
    pub storage_class: Option<Arc<str>>,
}

impl ObjectInfo {
    /// Returns the entity tag without quotes.
    pub fn etag(&self) -> &str {
        self.etag_header.to_str().unwrap_or("").trim_matches('"')
    }
}

/// Properties of an object that is about to be written.
#[derive(Debug, Clone, Default)]
pub struct NewObject {
    /// Headers to store with the object and to return with it.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Tags of the object.
    pub tags: Tags,
    /// Access of other clients to the object.
    pub acl: CannedAcl,
    /// Algorithm of the checksum to compute if the body declares none.
    pub checksum: Option<Algorithm>,
    /// Conditions on the existing object.
    pub conditions: WriteConditions,
    /// Storage class that the client requests; `None` for the default class of the bucket.
    pub storage_class: Option<String>,
}

/// Properties of a bucket that is about to be created.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewBucket<'a> {
    /// Region of the bucket.
    pub region: &'a str,
    /// Access key of the account that creates the bucket.
    pub owner: &'a str,
    /// Access of other clients.
    pub acl: CannedAcl,
}

/// A change of a stored object.
#[derive(Debug, Clone)]
pub enum ObjectChange {
    /// Replaces the tags.
    Tags(Tags),
    /// Replaces the access control list.
    Acl(CannedAcl),
}

/// Result of a delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Id of the version or delete marker that was removed or, without a version in the request, created.
    pub version: Option<String>,
    /// True if a delete marker was created or removed.
    pub marker: bool,
}

/// Query of a listing of objects.
#[derive(Debug, Clone, Default)]
pub struct ListQuery<'a> {
    /// Prefix of the keys.
    pub prefix: &'a str,
    /// Delimiter that groups keys into common prefixes; empty for none.
    pub delimiter: &'a str,
    /// Key or common prefix after which the page begins; for a directory bucket, the token of the previous page.
    pub after: &'a str,
    /// Version id after which the versions of the key `after` begin; empty if the page begins with the next key.
    pub after_version: &'a str,
    /// Maximum number of keys and common prefixes together.
    pub most: usize,
    /// True to list all versions and delete markers instead of current objects.
    pub versions: bool,
}

/// One object, version or delete marker in a listing.
#[derive(Debug, Clone)]
pub struct ListEntry {
    /// Key of the object.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Entity tag without quotes; empty for a delete marker.
    pub etag: String,
    /// Time of the last modification.
    pub modified: jiff::Timestamp,
    /// Algorithm of the checksum, and true if it covers the whole object; `None` if there is no checksum.
    pub checksum: Option<(Algorithm, bool)>,
    /// Version id; `null` for an object without one.
    pub version: String,
    /// True for the current version of the key.
    pub latest: bool,
    /// True for a delete marker.
    pub marker: bool,
    /// Storage class; `None` for the default class of the bucket.
    pub storage_class: Option<Arc<str>>,
}

/// One page of a listing, whose size limits the number of keys and common prefixes together.
#[derive(Debug, Default)]
pub struct ListPage {
    /// Objects, versions and delete markers.
    pub objects: Vec<ListEntry>,
    /// Common prefixes of the page.
    pub prefixes: Vec<String>,
    /// Marker after which the next page begins; `None` on the last page.
    pub next: Option<String>,
    /// Version id that belongs to `next`; `None` if `next` is a common prefix, or in a listing of objects.
    pub next_version: Option<String>,
}

/// Properties of an unfinished multipart upload.
#[derive(Debug, Clone)]
pub struct UploadInfo {
    /// Properties of the object that the upload will create. The conditions are those of the completion.
    pub object: NewObject,
    /// Checksum algorithm requested at creation, and true if the checksum covers the whole object; `None` if the client
    /// requested no checksum.
    pub checksum: Option<(Algorithm, bool)>,
    /// Time at which the upload was created.
    pub initiated: jiff::Timestamp,
}

/// Properties of an uploaded part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// Part number, from 1 to 10,000.
    pub number: u32,
    /// Size in bytes.
    pub size: u64,
    /// Bytes of the entity tag: the MD5 of the content, except in a directory bucket.
    pub md5: [u8; 16],
    /// CRC-64/NVME of the content, in base64.
    pub crc64: String,
    /// Time at which the part was stored.
    pub modified: jiff::Timestamp,
    /// Algorithm and value of the checksum; `None` if neither the upload nor the part named an algorithm.
    pub checksum: Option<(Algorithm, String)>,
}

/// A validated CompleteMultipartUpload: the object to create from parts.
#[derive(Debug, Clone)]
pub struct Completion {
    /// Parts of the object. The service checks that they are still those of the upload.
    pub parts: Vec<PartInfo>,
    /// Entity tag of the object, without quotes.
    pub etag: String,
    /// Checksum of the object.
    pub checksum: StoredChecksum,
    /// Conditions on the existing object.
    pub conditions: WriteConditions,
}

/// Name of an unfinished upload: its key and its upload id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadName<'a> {
    /// Key of the object.
    pub key: &'a str,
    /// Id of the upload.
    pub id: &'a str,
}

impl UploadName<'_> {
    /// Returns key and id as owned strings.
    pub fn owned(&self) -> (String, String) {
        (self.key.to_string(), self.id.to_string())
    }
}

impl From<PartInfo> for ObjectPart {
    fn from(part: PartInfo) -> ObjectPart {
        ObjectPart { number: part.number, size: part.size, checksum: part.checksum }
    }
}

/// A store of buckets and objects. Connections of several threads call it, each on its own thread.
///
/// Every function returns `NoSuchBucket` if the bucket does not exist any more, and `InternalError`, `SlowDown` or
/// `InsufficientStorage` if the service cannot do its work.
#[allow(async_fn_in_trait)]
pub trait ObjectService: Send + Sync + 'static {
    /// Handle of a bucket.
    type Bucket: AsRef<BucketInfo>;
    /// Handle of an object, whose content does not change.
    type Object: AsRef<ObjectInfo>;

    /// Returns the optional features of the service.
    fn features(&self) -> Features;

    /// Returns all buckets with their names, sorted by name.
    async fn buckets(&self) -> Result<Vec<(String, Self::Bucket)>, ApiError>;

    /// Returns the bucket called `name`.
    ///
    /// # Errors
    /// Returns `NoSuchBucket` if there is none.
    async fn bucket(&self, name: &str) -> Result<Self::Bucket, ApiError>;

    /// Creates an empty bucket.
    ///
    /// # Errors
    /// Returns `BucketAlreadyOwnedByYou` if the bucket exists.
    async fn create_bucket(&self, name: &str, new: NewBucket<'_>) -> Result<(), ApiError>;

    /// Deletes an empty bucket and its unfinished uploads.
    ///
    /// # Errors
    /// Returns `BucketNotEmpty` if it contains an object, version or delete marker.
    async fn delete_bucket(&self, name: &str) -> Result<(), ApiError>;

    /// Changes the configuration of a bucket.
    async fn configure_bucket(&self, name: &str, change: BucketChange) -> Result<(), ApiError>;

    /// Returns the current object of a key, or one of its versions.
    ///
    /// # Errors
    /// Returns `NoSuchKey` or `NoSuchVersion`. If a delete marker is found, the error has its version id as the header
    /// `x-amz-version-id`.
    async fn open(
        &self,
        bucket: &Self::Bucket,
        key: &str,
        version: Option<&str>,
    ) -> Result<Self::Object, ApiError>;

    /// Returns the name of the place from which an object is read, for administrators; `None` if the service has only
    /// one place.
    fn place(&self, _object: &Self::Object) -> Option<String> {
        None
    }

    /// Returns a byte range of an object, which lies within the object.
    async fn read(&self, object: Self::Object, range: Range<u64>) -> Result<ResponseBody, ApiError>;

    /// Reads `body` to its end and stores an object if the body is valid and the conditions hold. The write and the
    /// check of the conditions are one atomic step.
    ///
    /// # Errors
    /// Returns `InvalidStorageClass` for a storage class that the service does not have.
    async fn put(
        &self,
        bucket: &Self::Bucket,
        key: &str,
        new: NewObject,
        body: &mut BodyReader<'_>,
    ) -> Result<ObjectInfo, ApiError>;

    /// Deletes the current object of a key, or one version, if the conditions hold. A missing object is not an error.
    async fn delete(
        &self,
        bucket: &Self::Bucket,
        key: &str,
        version: Option<&str>,
        conditions: DeleteConditions,
    ) -> Result<Deleted, ApiError>;

    /// Changes properties of an object, but not its time of modification. Returns its version id.
    async fn change_object(
        &self,
        bucket: &Self::Bucket,
        key: &str,
        version: Option<&str>,
        change: ObjectChange,
    ) -> Result<Option<String>, ApiError>;

    /// Returns a page of objects or versions.
    async fn list(&self, bucket: &Self::Bucket, query: &ListQuery<'_>) -> Result<ListPage, ApiError>;

    /// Creates an unfinished upload and returns its id.
    async fn create_upload(
        &self,
        bucket: &Self::Bucket,
        key: &str,
        upload: UploadInfo,
    ) -> Result<String, ApiError>;

    /// Returns an unfinished upload.
    ///
    /// # Errors
    /// Returns `NoSuchUpload` if there is none.
    async fn upload(&self, bucket: &Self::Bucket, name: UploadName<'_>) -> Result<UploadInfo, ApiError>;

    /// Reads `body` to its end and stores it as a part. `checksum` is the algorithm to compute if the body declares no
    /// checksum; `None` to store only what the body declares.
    async fn put_part(
        &self,
        bucket: &Self::Bucket,
        name: UploadName<'_>,
        number: u32,
        checksum: Option<Algorithm>,
        body: &mut BodyReader<'_>,
    ) -> Result<PartInfo, ApiError>;

    /// Returns the parts of an upload, sorted by number.
    async fn parts(&self, bucket: &Self::Bucket, name: UploadName<'_>) -> Result<Vec<PartInfo>, ApiError>;

    /// Creates an object from the parts of an upload, and removes the upload.
    ///
    /// # Errors
    /// Returns `InvalidPart` if a part has changed, or the error of a failed condition.
    async fn complete_upload(
        &self,
        bucket: &Self::Bucket,
        name: UploadName<'_>,
        completion: Completion,
    ) -> Result<ObjectInfo, ApiError>;

    /// Removes an upload and its parts.
    async fn abort_upload(&self, bucket: &Self::Bucket, name: UploadName<'_>) -> Result<(), ApiError>;

    /// Calls `visit` with the key, id and properties of the unfinished uploads whose keys have this prefix, in the
    /// order of key and id, until it returns false.
    async fn uploads(
        &self,
        bucket: &Self::Bucket,
        prefix: &str,
        visit: &mut dyn FnMut(&str, &str, &UploadInfo) -> bool,
    ) -> Result<(), ApiError>;
}
