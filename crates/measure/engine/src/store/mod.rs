//! The interface to object stores: the boundary between Plimsoll and the systems that it measures.
//!
//! All workers share one [`Store`], which hands out [`Connection`]s. One worker owns a connection and runs one
//! operation on it at a time, so the hot path shares nothing. A connection takes its own timestamps, because
//! only it knows when the first byte of a request was sent and the last byte of a response was received.
//!
//! Wrappers (`counted`, `throttled`, `faulty`) add behaviour; flags do not. Every implementation passes the
//! [`testing::conformance`] suite. A store computes no statistics and never retries, with one exception: it
//! sends a request again if the reused connection turns out to be closed before any byte of the response
//! arrives.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

pub mod azure;
pub mod body;
pub mod cost_limit;
pub mod counted;
pub mod dynamodb;
pub mod failure;
pub mod file;
pub mod gcs;
pub mod http;
pub mod integrity;
pub mod memory;
pub mod ownership;
pub mod s3;
pub mod spread;
pub mod testing;
pub mod web;
mod wrapped;

pub use plimsoll_s3::checksum::{Algorithm, BodyChecksum};
pub use plimsoll_s3::message::{ListedObject, Listing, PartTag, Version};

pub use body::{Body, Segments};
pub use failure::Failure;

use ownership::{OwnedKey, OwnedKeys, OwnedVersions};

use plimsoll_base::net::client_limits::MAX_RESPONSE_BYTES;
use plimsoll_base::provider::Profile;
use plimsoll_base::provider::calls::Call;
use plimsoll_recorder::cache_status::CacheStatus;
use plimsoll_recorder::store_facts::{BackgroundRequest, Description, RelayFacts};
pub use plimsoll_recorder::{ErrorClass, Timings};

/// A boxed future that stays on its worker's thread (it is not `Send`).
pub type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// One request to a store.
#[derive(Clone)]
pub enum Request<'a> {
    /// Writes an object.
    Put {
        /// Key of the object.
        key: &'a str,
        /// Content of the object.
        body: Body,
    },
    /// Reads an object, or a range of its bytes.
    Get {
        /// Key of the object.
        key: &'a str,
        /// Half-open byte range to read; `None` for the whole object.
        range: Option<Range<u64>>,
    },
    /// Copies an object to another key of the same bucket, without sending its content to the client.
    Copy {
        /// Key of the object to copy.
        from: &'a str,
        /// Key of the object to create.
        key: &'a str,
    },
    /// Reads an object's size and entity tag.
    Head {
        /// Key of the object.
        key: &'a str,
    },
    /// Lists one page of keys.
    List {
        /// Prefix of the keys to list.
        prefix: &'a str,
        /// Key after which the listing starts; empty to list from the first key.
        start_after: &'a str,
        /// Continuation token from the previous page; empty for the first page.
        token: &'a str,
        /// Maximum number of keys per page, at most 1,000.
        max_keys: u32,
    },
    /// Deletes an object. A missing object is not an error.
    Delete {
        /// Key, with proof that Plimsoll owns it.
        key: OwnedKey<'a>,
    },
    /// Deletes up to 1,000 objects, in one request if the store's API allows it.
    DeleteMany {
        /// Keys, with proof that Plimsoll owns them.
        keys: OwnedKeys<'a>,
    },
    /// Lists one page of object versions and delete markers, if the store keeps versions.
    ListVersions {
        /// Prefix of the keys to list.
        prefix: &'a str,
        /// Continuation token from the previous page; empty for the first page.
        token: &'a str,
    },
    /// Permanently deletes up to 1,000 object versions.
    DeleteVersions {
        /// Versions, with proof that Plimsoll owns them.
        versions: OwnedVersions<'a>,
    },
    /// Starts a multipart upload.
    CreateMultipart {
        /// Key of the object to create.
        key: &'a str,
    },
    /// Writes one part of a multipart upload.
    UploadPart {
        /// Key of the object to create.
        key: &'a str,
        /// Upload ID from the reply to [`Request::CreateMultipart`].
        upload_id: &'a str,
        /// Part number, starting at 1.
        number: u32,
        /// Content of the part.
        body: Body,
    },
    /// Completes a multipart upload: the store assembles the object from its parts.
    CompleteMultipart {
        /// Key of the object to create.
        key: &'a str,
        /// Upload ID from the reply to [`Request::CreateMultipart`].
        upload_id: &'a str,
        /// Tags of all parts, in order from part 1.
        parts: &'a [PartTag],
    },
    /// Aborts a multipart upload and frees its parts.
    AbortMultipart {
        /// Key, with proof that Plimsoll owns it.
        key: OwnedKey<'a>,
        /// Upload ID of the multipart upload.
        upload_id: &'a str,
    },
    /// Lists one page of the multipart uploads that are neither completed nor aborted.
    ListUploads {
        /// Prefix of the keys to list.
        prefix: &'a str,
        /// Continuation token from the previous page; empty for the first page.
        token: &'a str,
    },
    /// Checks that the bucket exists and is accessible.
    CheckBucket,
    /// Creates the bucket.
    CreateBucket,
    /// Deletes the bucket, which must be empty.
    DeleteBucket,
}

impl Request<'_> {
    /// Returns the corresponding S3 API request, which determines what providers charge.
    pub fn call(&self) -> Call {
        match self {
            Request::Put { .. } => Call::PutObject,
            Request::Get { .. } => Call::GetObject,
            Request::Copy { .. } => Call::CopyObject,
            Request::Head { .. } => Call::HeadObject,
            Request::List { .. } => Call::ListObjects,
            Request::Delete { .. } => Call::DeleteObject,
            Request::DeleteMany { .. } | Request::DeleteVersions { .. } => Call::DeleteObjects,
            // Providers charge a listing of versions like a listing of objects.
            Request::ListVersions { .. } => Call::ListObjects,
            Request::CreateMultipart { .. } => Call::CreateMultipartUpload,
            Request::UploadPart { .. } => Call::UploadPart,
            Request::CompleteMultipart { .. } => Call::CompleteMultipartUpload,
            Request::AbortMultipart { .. } => Call::AbortMultipartUpload,
            Request::ListUploads { .. } => Call::ListMultipartUploads,
            Request::CheckBucket => Call::HeadBucket,
            Request::CreateBucket => Call::CreateBucket,
            Request::DeleteBucket => Call::DeleteBucket,
        }
    }

    /// Returns true if sending the request twice has the same effect as sending it once.
    pub fn is_idempotent(&self) -> bool {
        use Request::{CompleteMultipart, CreateBucket, CreateMultipart, DeleteBucket};
        !matches!(self, CreateBucket | DeleteBucket | CreateMultipart { .. } | CompleteMultipart { .. })
    }
}

/// Callbacks that a connection invokes during an operation, and per-operation options that it reads.
pub trait Observer {
    /// Receives the operation's start in nanoseconds on the monotonic clock. The request is prepared but not
    /// yet sent.
    fn started(&mut self, at_ns: u64) {
        let _ = at_ns;
    }

    /// Receives the time just before the first byte of the request was sent, in nanoseconds on the monotonic
    /// clock, once the response has begun. It is more exact than the announced start. A connection does not call
    /// this method if it opened a connection for the request, because that belongs to the operation.
    fn sent(&mut self, at_ns: u64) {
        let _ = at_ns;
    }

    /// Receives the next piece of the object's content.
    ///
    /// # Errors
    /// Returns the offset of the first wrong byte; the operation then fails with [`ErrorClass::Corrupt`].
    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        let _ = data;
        Ok(())
    }

    /// Returns true if a read of a whole object must be verified against the store's checksum, if the store has
    /// one.
    fn wants_checksum(&self) -> bool {
        false
    }

    /// Returns true if the reply to a read or write of a whole object must contain its entity tag.
    fn wants_etag(&self) -> bool {
        false
    }

    /// Returns the checksum to send with an upload; `None` uses the checksum configured for the store.
    fn checksum(&self) -> Option<BodyChecksum> {
        None
    }

    /// Returns additional request headers with lower-case names, such as conditions and checksums. Only S3
    /// stores send them.
    fn headers(&self) -> &[(&'static str, String)] {
        &[]
    }

    /// Returns the expected size of the object in bytes; `None` if it is unknown.
    fn expected_size(&self) -> Option<u64> {
        None
    }

    /// Returns the tag that the request carries into the server's timing log, so that the log can be compared
    /// with the run.
    fn tag(&self) -> Option<&str> {
        None
    }
}

/// An observer that does nothing.
pub struct Ignore;

impl Observer for Ignore {}

/// An observer that keeps the content in memory, for small objects and tests. Content beyond 16 MiB counts as
/// corrupt.
#[derive(Default)]
pub struct Collect(pub Vec<u8>);

impl Observer for Collect {
    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        if self.0.len() + data.len() > MAX_RESPONSE_BYTES {
            return Err(self.0.len() as u64);
        }
        self.0.extend_from_slice(data);
        Ok(())
    }
}

/// The result of a successful operation.
#[derive(Debug, Default)]
pub struct Reply {
    /// Object bytes transferred: sent for a put, received for a get.
    pub bytes: u64,
    /// Times of the operation.
    pub timings: Timings,
    /// Entity tag with its quotes (the object's generation for Google Cloud Storage); `None` if the store sent
    /// none.
    pub etag: Option<String>,
    /// Checksum sent with an upload, or reported by the store for a completed multipart upload.
    pub checksum: Option<(BodyChecksum, String)>,
    /// Cache status of a read from a web URL; `None` if no cache reports one.
    pub cache: Option<CacheStatus>,
    /// Object size in bytes, for a head.
    pub size: Option<u64>,
    /// Page of keys, for a list.
    pub listing: Option<Listing>,
    /// ID of the multipart upload, for its creation.
    pub upload_id: Option<String>,
    /// Unfinished multipart uploads, as pairs of key and upload ID.
    pub uploads: Vec<(String, String)>,
    /// Versions and delete markers, for a list of versions.
    pub versions: Vec<Version>,
    /// Continuation token of the next page of uploads or versions; `None` after the last page.
    pub next_token: Option<String>,
    /// The store's clock (`Date` header) in its response to a list, in Unix seconds.
    pub store_clock_s: Option<i64>,
    /// Additional requests that the store made for this operation, for billing.
    pub also: Vec<Call>,
}

/// The features of a store. If a run needs a missing feature, Plimsoll refuses it before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// True if objects can be put and deleted.
    pub writes: bool,
    /// True if keys can be listed.
    pub lists: bool,
    /// True if keys are listed in key order and a listing can start after any key.
    pub start_after: bool,
    /// True if byte ranges of objects can be read.
    pub ranges: bool,
    /// True if multipart uploads are supported.
    pub multipart: bool,
    /// True if the store sends the conditions and checksums in [`Observer::headers`], or refuses what it cannot send.
    pub conditions: bool,
    /// True if the store copies objects without sending their content to the client.
    pub copies: bool,
    /// True if one request deletes many objects.
    pub bulk_deletes: bool,
    /// Maximum object size in bytes; `None` if the provider's rules for puts and parts determine it.
    pub max_object_bytes: Option<u64>,
}

impl Default for Capabilities {
    fn default() -> Capabilities {
        Capabilities {
            writes: true,
            lists: true,
            start_after: true,
            ranges: true,
            multipart: true,
            conditions: false,
            copies: true,
            bulk_deletes: true,
            max_object_bytes: None,
        }
    }
}

/// A place that holds objects: a bucket, a table, a directory, or objects behind a URL.
pub trait Store: Send + Sync {
    /// Returns the facts that a run records about the store.
    fn describe(&self) -> Description;

    /// Creates connection number `index`, which connects when it executes its first operation.
    fn connection(&self, index: usize) -> Box<dyn Connection>;

    /// Returns the key prefix that the user gave for runs; empty or ending in `/`.
    fn prefix(&self) -> &str {
        ""
    }

    /// Returns the name of the bucket, directory or table; empty if the store has none.
    fn container(&self) -> &str {
        ""
    }

    /// Returns the features that the store supports.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Returns the key of the store's only object, if the store is a single object.
    fn only_object(&self) -> Option<&str> {
        None
    }

    /// Returns the profile of the store's provider; `None` if the store has no profile.
    fn profile(&self) -> Option<&Profile> {
        None
    }

    /// Returns the places in which a relay executed operations, and the step of its clock; `None` if this process
    /// executes them itself.
    fn relayed(&self) -> Option<RelayFacts> {
        None
    }

    /// Returns the background requests made so far, in order.
    fn background_requests(&self) -> Vec<BackgroundRequest> {
        Vec::new()
    }

    /// Returns the number of endpoints that a connection uses in turn.
    fn endpoints(&self) -> usize {
        1
    }

    /// Removes leftovers under `prefix` that no request can delete: empty directories, and temporary files of
    /// process `process`.
    fn remove_leftovers(&self, prefix: &str, process: u32) {
        let _ = (prefix, process);
    }
}

/// A connection slot of a store. It executes one operation at a time and keeps its network connection between
/// operations.
pub trait Connection {
    /// Executes one operation. The caller may drop the future at any time, for example at a deadline; the next
    /// operation then uses a new network connection.
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>>;

    /// Returns the number of the address to which the last operation was sent, among those of
    /// [`Store::describe`]; `None` if the store has at most one.
    fn address(&self) -> Option<usize> {
        None
    }
}
