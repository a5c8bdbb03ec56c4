//! Checks by name.

use serde::{Deserialize, Serialize};

use super::checks::{bucket, conditions, deletes, listings, multipart, reads, uploads, visibility, writes};
use super::problem::Checked;
use super::scene::Scene;

/// Defines the enum of checks, with a description, a name and a function for each.
macro_rules! checks {
    ($(#[doc = $text:expr] $variant:ident, $name:literal, $function:path;)*) => {
        /// A check, whose name is used in files of requirements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Check {
            $(#[doc = $text] #[serde(rename = $name)] $variant,)*
        }

        impl Check {
            /// All checks, in the order in which they are executed.
            pub const ALL: &[Check] = &[$(Check::$variant),*];

            /// Returns the name of the check.
            pub fn name(self) -> &'static str {
                match self { $(Check::$variant => $name,)* }
            }

            /// Returns what the check shows, in a sentence.
            pub fn description(self) -> &'static str {
                match self { $(Check::$variant => $text.trim_ascii(),)* }
            }

            /// Executes the check.
            ///
            /// # Errors
            /// The [`super::problem::Problem`] of the store.
            pub async fn run(self, scene: &Scene<'_>) -> Checked {
                match self { $(Check::$variant => $function(scene).await,)* }
            }
        }
    };
}

checks! {
    /// A new object is read at once.
    ReadAfterWrite, "read-after-write", visibility::read_after_write;
    /// New content is read at once.
    ReadAfterOverwrite, "read-after-overwrite", visibility::read_after_overwrite;
    /// A deleted object is gone at once.
    ReadAfterDelete, "read-after-delete", visibility::read_after_delete;
    /// A new object is listed at once.
    ListAfterWrite, "list-after-write", visibility::list_after_write;
    /// A deleted object is not listed any more.
    ListAfterDelete, "list-after-delete", visibility::list_after_delete;
    /// A GET during overwrites returns one whole version.
    AtomicOverwrite, "atomic-overwrite", visibility::atomic_overwrite;
    /// A GET during overwrites returns the ETag of the version that it returns.
    EtagOfContent, "etag-of-content", visibility::etag_of_content;
    /// Of concurrent PUTs with `If-None-Match: *`, exactly one succeeds.
    CreateOnce, "create-once", conditions::create_once;
    /// Of concurrent PUTs with `If-Match`, exactly one succeeds.
    ReplaceOnce, "replace-once", conditions::replace_once;
    /// Of concurrent completions with `If-None-Match: *`, exactly one succeeds.
    CreateOnceMultipart, "create-once-multipart", conditions::create_once_multipart;
    /// After a DELETE, a PUT with `If-None-Match: *` succeeds again.
    RecreateAfterDelete, "recreate-after-delete", conditions::recreate_after_delete;
    /// A DELETE with `If-Match` deletes only the state with that ETag.
    DeleteIfUnchanged, "delete-if-unchanged", conditions::delete_if_unchanged;
    /// An object appears at the completion of its upload.
    MultipartVisibility, "multipart-visibility", multipart::multipart_visibility;
    /// GET and HEAD of a missing key give 404.
    MissingObject, "missing-object", reads::missing_object;
    /// A range returns exactly its bytes.
    Range, "range", reads::range;
    /// The answer to a range has the status 206.
    RangeStatus, "range-status", reads::range_status;
    /// The answer to a range has the right `Content-Range`.
    ContentRange, "content-range", reads::content_range;
    /// A range without an end returns the rest.
    OpenRange, "open-range", reads::open_range;
    /// A range is cut at the end of the object.
    RangePastEnd, "range-past-end", reads::range_past_end;
    /// A range that begins after the object gives 416.
    RangeUnsatisfiable, "range-unsatisfiable", reads::range_unsatisfiable;
    /// A suffix range returns the last bytes.
    SuffixRange, "suffix-range", reads::suffix_range;
    /// A GET of an unchanged object gives 304.
    ConditionalRead, "conditional-read", reads::conditional_read;
    /// A GET with `If-Match` of a changed object gives 412.
    ReadIfMatch, "read-if-match", reads::read_if_match;
    /// PUT, HEAD, GET and LIST give the same ETag.
    EtagStable, "etag-stable", reads::etag_stable;
    /// The ETag of a simple PUT is the MD5 of the content.
    EtagMd5, "etag-md5", reads::etag_md5;
    /// The time of the last change is right.
    LastModified, "last-modified", reads::last_modified;
    /// Objects may be empty.
    EmptyObject, "empty-object", writes::empty_object;
    /// Metadata of the user is kept.
    Metadata, "metadata", writes::metadata;
    /// Headers that describe content are kept.
    ContentHeaders, "content-headers", writes::content_headers;
    /// A PUT with `Content-MD5` is accepted.
    ContentMd5, "content-md5", writes::content_md5;
    /// A PUT with `x-amz-checksum-crc32` is accepted.
    ChecksumCrc32, "checksum-crc32", writes::checksum_crc32;
    /// A PUT with `x-amz-checksum-sha256` is accepted.
    ChecksumSha256, "checksum-sha256", writes::checksum_sha256;
    /// A PUT with a CRC32 in a trailer is accepted.
    TrailingChecksum, "trailing-checksum", writes::trailing_checksum;
    /// A body in signed chunks is accepted.
    SignedChunks, "signed-chunks", writes::signed_chunks;
    /// A PUT with a wrong checksum is refused.
    ChecksumsVerified, "checksums-verified", writes::checksums_verified;
    /// The store's own encryption may be requested.
    ServerSideEncryption, "server-side-encryption", writes::server_side_encryption;
    /// The standard storage class may be named.
    StorageClass, "storage-class", writes::storage_class;
    /// The canned ACL `private` may be named.
    CannedAcl, "canned-acl", writes::canned_acl;
    /// Tags of a PUT are stored.
    Tags, "tags", writes::tags;
    /// CopyObject copies content.
    Copy, "copy", writes::copy;
    /// CopyObject copies metadata.
    CopyMetadata, "copy-metadata", writes::copy_metadata;
    /// Parts may be uploaded at the same time and out of order.
    Multipart, "multipart", multipart::multipart;
    /// Parts may have different sizes.
    UnequalParts, "unequal-parts", multipart::unequal_parts;
    /// The only part of an upload may be empty.
    EmptyPart, "empty-part", multipart::empty_part;
    /// Part numbers reach 10,000.
    PartNumbers, "part-numbers", multipart::part_numbers;
    /// UploadPartCopy copies ranges of an object into parts.
    CopyPart, "copy-part", multipart::copy_part;
    /// ListParts shows the parts of an upload.
    ListParts, "list-parts", uploads::list_parts;
    /// ListMultipartUploads shows the uploads of a key.
    ListUploads, "list-uploads", uploads::list_uploads;
    /// ListMultipartUploads shows the uploads below a prefix.
    ListUploadsPrefix, "list-uploads-prefix", uploads::list_uploads_prefix;
    /// An upload that was aborted cannot be completed.
    Abort, "abort", uploads::abort;
    /// An upload may have 10,000 parts of 5 MiB.
    ManyParts, "many-parts", uploads::many_parts;
    /// A part may have 5 GiB.
    LargePart, "large-part", uploads::large_part;
    /// Keys in a folder are listed in the order of their bytes.
    ListOrder, "list-order", listings::list_order;
    /// Keys in several folders are listed in the order of their bytes.
    ListOrderFolders, "list-order-folders", listings::list_order_folders;
    /// Keys beyond ASCII are listed in the order of their UTF-8 bytes.
    ListOrderUnicode, "list-order-unicode", listings::list_order_unicode;
    /// Pages give each key once.
    ListPages, "list-pages", listings::list_pages;
    /// A delimiter gives common prefixes.
    ListDelimiter, "list-delimiter", listings::list_delimiter;
    /// A listing begins after a key.
    ListStartAfter, "list-start-after", listings::list_start_after;
    /// ListObjects, version 1, lists with markers.
    ListV1, "list-v1", listings::list_v1;
    /// Keys with special characters are kept.
    SpecialKeys, "special-keys", listings::special_keys;
    /// A key may be the beginning of another one, up to a slash.
    NestedKeys, "nested-keys", listings::nested_keys;
    /// Keys may have 1,024 bytes.
    LongKeys, "long-keys", listings::long_keys;
    /// A DELETE of a missing key succeeds.
    DeleteMissing, "delete-missing", deletes::delete_missing;
    /// DeleteObjects deletes several keys, also missing ones.
    DeleteMany, "delete-many", deletes::delete_many;
    /// HeadBucket answers for the bucket.
    HeadBucket, "head-bucket", bucket::head_bucket;
    /// GetBucketLocation answers for the bucket.
    BucketLocation, "bucket-location", bucket::bucket_location;
    /// Versions can be kept.
    Versioning, "versioning", bucket::versioning;
    /// The bucket has object lock.
    ObjectLock, "object-lock", bucket::object_lock;
    /// Presigned URLs expire.
    PresignedExpiry, "presigned-expiry", bucket::presigned_expiry;
    /// Presigned URLs read.
    PresignedGet, "presigned-get", bucket::presigned_get;
    /// Presigned URLs write.
    PresignedPut, "presigned-put", bucket::presigned_put;
    /// The header `ETag` of UploadPart is written with these letters.
    HeaderCase, "header-case", bucket::header_case;
}

impl Check {
    /// Returns true if the check shows that writes are visible late. Later checks then wait for them.
    pub fn is_of_visibility(self) -> bool {
        use Check::{ListAfterDelete, ListAfterWrite, ReadAfterDelete, ReadAfterOverwrite, ReadAfterWrite};
        matches!(
            self,
            ListAfterDelete | ListAfterWrite | ReadAfterDelete | ReadAfterOverwrite | ReadAfterWrite
        )
    }

    /// Returns true if the check transfers gigabytes.
    pub fn is_large(self) -> bool {
        matches!(self, Check::ManyParts | Check::LargePart)
    }
}
