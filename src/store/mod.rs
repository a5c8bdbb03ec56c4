//! A store is one place that holds objects; this is the seam between the instrument and what it measures.
//!
//! [`Store`] is shared by all workers and hands out [`Connection`]s: a connection is one connection's worth of a store, owned
//! by one worker and used by one operation at a time, so nothing on the hot path is shared. A connection stamps its own
//! times, because only it knows when the first byte of a request left and the last byte of an answer came.
//! Behaviour is added by wrapping (`throttled`, `faulty`, `counted`), never by flags, and every implementation passes the
//! one [`testing::conformance`] suite. It does no statistics and never retries on its own account, but for the one
//! re-send of a request that a closed connection swallowed (law of measurement, 8).

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

pub mod body;
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
pub mod testing;
pub mod url;
pub mod web;

pub use crate::s3::checksum::{Algorithm, BodyChecksum};
pub use crate::s3::message::{Listed, Listing, PartTag, Version};

pub use body::{Body, Segments};
pub use failure::{ErrorClass, Failure};

use ownership::{OwnedKey, OwnedKeys, OwnedVersions};

use crate::net::limits::MOST_ANSWER_BYTES;
use crate::provider::Profile;
use crate::provider::calls::Call;

/// A future of one worker's thread.
pub type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// One request to a store.
#[derive(Clone)]
pub enum Request<'a> {
    /// Writes an object.
    Put {
        /// Key.
        key: &'a str,
        /// Content.
        body: Body,
    },
    /// Reads an object, or a range of its bytes.
    Get {
        /// Key.
        key: &'a str,
        /// Half-open byte range.
        range: Option<Range<u64>>,
    },
    /// Reads an object's size and tag.
    Head {
        /// Key.
        key: &'a str,
    },
    /// Lists one page of keys.
    List {
        /// Only keys that begin so.
        prefix: &'a str,
        /// Only keys after this one; empty for all.
        start_after: &'a str,
        /// Token of the page before; empty for the first.
        token: &'a str,
        /// Keys per page, at most 1,000.
        max_keys: u32,
    },
    /// Deletes an object; one that is not there is no error.
    Delete {
        /// Key, with the proof that it is ours.
        key: OwnedKey<'a>,
    },
    /// Deletes up to 1,000 objects in one request.
    DeleteMany {
        /// Keys, with the proof that they are ours.
        keys: OwnedKeys<'a>,
    },
    /// Lists one page of versions and delete markers, where the store keeps versions.
    ListVersions {
        /// Only keys that begin so.
        prefix: &'a str,
        /// Token of the page before; empty for the first.
        token: &'a str,
    },
    /// Deletes up to 1,000 versions for good.
    DeleteVersions {
        /// Versions, with the proof that they are ours.
        versions: OwnedVersions<'a>,
    },
    /// Begins a multipart upload.
    CreateMultipart {
        /// Key of the object to be.
        key: &'a str,
    },
    /// Writes one part.
    UploadPart {
        /// Key of the object to be.
        key: &'a str,
        /// The upload, as its creation named it.
        upload_id: &'a str,
        /// Number of the part, from 1.
        number: u32,
        /// Content.
        body: Body,
    },
    /// Makes the object of its parts.
    CompleteMultipart {
        /// Key.
        key: &'a str,
        /// The upload.
        upload_id: &'a str,
        /// Parts 1, 2, 3 and so on.
        parts: &'a [PartTag],
    },
    /// Gives an upload up and frees its parts.
    AbortMultipart {
        /// Key, with the proof that it is ours.
        key: OwnedKey<'a>,
        /// The upload.
        upload_id: &'a str,
    },
    /// Lists one page of uploads that are neither completed nor aborted.
    ListUploads {
        /// Only keys that begin so.
        prefix: &'a str,
        /// Token of the page before; empty for the first.
        token: &'a str,
    },
    /// Asks whether the bucket is there and may be used.
    CheckBucket,
    /// Creates the bucket.
    CreateBucket,
    /// Deletes the bucket, which must be empty.
    DeleteBucket,
}

impl Request<'_> {
    /// Which request of the S3 API does the same: what providers charge by.
    pub fn call(&self) -> Call {
        match self {
            Request::Put { .. } => Call::PutObject,
            Request::Get { .. } => Call::GetObject,
            Request::Head { .. } => Call::HeadObject,
            Request::List { .. } => Call::ListObjects,
            Request::Delete { .. } => Call::DeleteObject,
            Request::DeleteMany { .. } | Request::DeleteVersions { .. } => Call::DeleteObjects,
            // Providers charge a listing of versions as one of objects.
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

    /// Whether sending it twice has the effect of sending it once.
    pub fn is_idempotent(&self) -> bool {
        use Request::{CompleteMultipart, CreateBucket, CreateMultipart, DeleteBucket};
        !matches!(self, CreateBucket | DeleteBucket | CreateMultipart { .. } | CompleteMultipart { .. })
    }
}

/// What the connection tells while an operation runs.
pub trait Observer {
    /// The request is prepared and is about to go out: the operation's start, on the monotonic clock.
    fn started(&mut self, at_ns: u64) {
        let _ = at_ns;
    }

    /// The next piece of the object's content.
    ///
    /// # Errors
    /// The offset of the first wrong byte; the operation then fails as [`ErrorClass::Corrupt`].
    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        let _ = data;
        Ok(())
    }

    /// Whether a whole object that is read shall be held against the checksum that the store keeps of it, where it keeps one.
    fn wants_checksum(&self) -> bool {
        false
    }

    /// The checksum that an upload shall bear, instead of the one that its store is set to.
    fn checksum(&self) -> Option<BodyChecksum> {
        None
    }

    /// Further headers for the request, lower case, where its store speaks S3: conditions, checksums of one's own.
    fn headers(&self) -> &[(&'static str, String)] {
        &[]
    }

    /// Size of the object that a whole read will bring, where it is known.
    fn expects(&self) -> Option<u64> {
        None
    }

    /// A mark that the request carries to the server's log, where the run is held against it.
    fn tag(&self) -> Option<&str> {
        None
    }
}

/// An observer that looks away.
pub struct Ignore;

impl Observer for Ignore {}

/// An observer that keeps the content, for small objects and tests: up to 16 MiB, beyond which the content counts as corrupt.
#[derive(Default)]
pub struct Collect(pub Vec<u8>);

impl Observer for Collect {
    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        if self.0.len() + data.len() > MOST_ANSWER_BYTES {
            return Err(self.0.len() as u64);
        }
        self.0.extend_from_slice(data);
        Ok(())
    }
}

/// The times of one operation, all on the monotonic clock in nanoseconds; 0 where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Just before the request went out (after signing and hashing).
    pub start_ns: u64,
    /// First byte of the answer.
    pub first_byte_ns: u64,
    /// First byte of the object's content: sent for a put, received for a get.
    pub body_first_ns: u64,
    /// Last byte of the object's content.
    pub body_last_ns: u64,
    /// Last byte of the answer: the operation's end.
    pub end_ns: u64,
    /// Time the TCP handshake took, when this operation made a connection.
    pub connect_ns: u64,
    /// Time the TLS handshake took, when this operation made a connection.
    pub tls_ns: u64,
    /// Connections made.
    pub connections: u32,
    /// Requests sent again because the reused connection had been closed under them.
    pub reconnects: u32,
}

impl Timings {
    /// Adds the connections that an earlier request of the same operation made.
    pub fn add_connections(&mut self, earlier: &Timings) {
        self.connections += earlier.connections;
        self.reconnects += earlier.reconnects;
        self.connect_ns += earlier.connect_ns;
        self.tls_ns += earlier.tls_ns;
    }
}

/// What a successful operation brought.
#[derive(Debug, Default)]
pub struct Reply {
    /// Object bytes delivered: sent for a put, received for a get.
    pub bytes: u64,
    /// When.
    pub timings: Timings,
    /// Entity tag with its quotes, where the store gave one.
    pub etag: Option<String>,
    /// Checksum that a part was sent with, or that the store tells of a finished object.
    pub checksum: Option<(BodyChecksum, String)>,
    /// What the caches on its way say of the answer.
    pub cache: Option<web::cache::CacheStatus>,
    /// Object size that a head reported.
    pub size: Option<u64>,
    /// The page, for a list.
    pub listing: Option<Listing>,
    /// Name of the multipart upload that was begun.
    pub upload_id: Option<String>,
    /// Unfinished multipart uploads: keys and upload ids.
    pub uploads: Vec<(String, String)>,
    /// Versions and delete markers, for a list of versions.
    pub versions: Vec<Version>,
    /// Token of the next page of uploads or versions; `None` after the last.
    pub next_token: Option<String>,
    /// The store's clock (`Date` header) when it answered a list, in Unix seconds.
    pub store_clock_s: Option<i64>,
    /// Requests that were made beside the one of its own kind, where a store takes several for one operation.
    pub also: Vec<Call>,
}

/// What a run records about a store; it holds no secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// The store as the user wrote it, without credentials.
    pub url: String,
    /// Kind of store: `aws-s3`, `generic`, `memory`.
    pub provider: String,
    /// Endpoint, `scheme://host:port`; empty where there is none.
    pub endpoint: String,
    /// Addresses in use.
    pub addresses: Vec<String>,
    /// What the signature covers, for people: `signed payload`, `unsigned payload`, `none`.
    pub signing: String,
}

/// What a store can do, and how. What it cannot is refused before a run, never left out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Puts and deletes objects.
    pub writes: bool,
    /// Lists keys.
    pub lists: bool,
    /// Lists keys in their order, and from any key on.
    pub start_after: bool,
    /// Reads ranges.
    pub ranges: bool,
    /// Takes objects in parts.
    pub multipart: bool,
    /// Most bytes of an object, where the store says so itself.
    pub most_bytes: Option<u64>,
}

impl Default for Capabilities {
    fn default() -> Capabilities {
        Capabilities {
            writes: true,
            lists: true,
            start_after: true,
            ranges: true,
            multipart: true,
            most_bytes: None,
        }
    }
}

/// A request that is no operation's: it was made on the store's own account and is counted apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundRequest {
    /// What it was for: `CreateSession`.
    pub what: &'static str,
    /// When it began, on the monotonic clock.
    pub began_ns: u64,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// One place that holds objects.
pub trait Store: Send + Sync {
    /// What to record about it.
    fn describe(&self) -> Description;

    /// Connection number `index`. It connects with its first operation.
    fn connection(&self, index: usize) -> Box<dyn Connection>;

    /// The prefix under which the user lets runs write; empty or ending in `/`.
    fn prefix(&self) -> &str {
        ""
    }

    /// The bucket, directory or table that it is; empty where there is none.
    fn container(&self) -> &str {
        ""
    }

    /// What it can do.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// The key of the one object that it is, where it is no more than that.
    fn only_object(&self) -> Option<&str> {
        None
    }

    /// What is known of its provider.
    fn profile(&self) -> Option<&Profile> {
        None
    }

    /// Requests made so far on its own account, in order.
    fn background_requests(&self) -> Vec<BackgroundRequest> {
        Vec::new()
    }

    /// Takes away what deleted objects under `prefix` leave behind and no request reaches: empty directories, and temporary files of
    /// process `process`.
    fn tidy(&self, prefix: &str, process: u32) {
        let _ = (prefix, process);
    }
}

/// One connection's worth of a store.
pub trait Connection {
    /// Does one operation. The future may be dropped at any time (a deadline); the connection then opens a new
    /// connection for the next one.
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>>;
}
