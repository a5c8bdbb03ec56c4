//! The operations of the S3 API.

use super::features::Features;
use plimsoll_base::provider::calls::Call;

/// Operations that this server implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ApiOperation {
    ListBuckets,
    CreateBucket,
    HeadBucket,
    DeleteBucket,
    GetBucketLocation,
    CreateSession,
    ListObjects,
    ListObjectsV2,
    ListVersions,
    ListUploads,
    DeleteObjects,
    PutObject,
    CopyObject,
    GetObject,
    HeadObject,
    GetAttributes,
    DeleteObject,
    CreateUpload,
    UploadPart,
    UploadPartCopy,
    CompleteUpload,
    AbortUpload,
    ListParts,
    PostObject,
    Preflight,
    GetBucketVersioning,
    PutBucketVersioning,
    GetBucketTags,
    PutBucketTags,
    DeleteBucketTags,
    GetBucketCors,
    PutBucketCors,
    DeleteBucketCors,
    GetBucketLifecycle,
    PutBucketLifecycle,
    DeleteBucketLifecycle,
    GetBucketAcl,
    PutBucketAcl,
    GetObjectAcl,
    PutObjectAcl,
    GetObjectTags,
    PutObjectTags,
    DeleteObjectTags,
    GetUnconfigured,
}

impl ApiOperation {
    /// All operations, in order.
    pub const ALL: [ApiOperation; 44] = [
        ApiOperation::ListBuckets,
        ApiOperation::CreateBucket,
        ApiOperation::HeadBucket,
        ApiOperation::DeleteBucket,
        ApiOperation::GetBucketLocation,
        ApiOperation::CreateSession,
        ApiOperation::ListObjects,
        ApiOperation::ListObjectsV2,
        ApiOperation::ListVersions,
        ApiOperation::ListUploads,
        ApiOperation::DeleteObjects,
        ApiOperation::PutObject,
        ApiOperation::CopyObject,
        ApiOperation::GetObject,
        ApiOperation::HeadObject,
        ApiOperation::GetAttributes,
        ApiOperation::DeleteObject,
        ApiOperation::CreateUpload,
        ApiOperation::UploadPart,
        ApiOperation::UploadPartCopy,
        ApiOperation::CompleteUpload,
        ApiOperation::AbortUpload,
        ApiOperation::ListParts,
        ApiOperation::PostObject,
        ApiOperation::Preflight,
        ApiOperation::GetBucketVersioning,
        ApiOperation::PutBucketVersioning,
        ApiOperation::GetBucketTags,
        ApiOperation::PutBucketTags,
        ApiOperation::DeleteBucketTags,
        ApiOperation::GetBucketCors,
        ApiOperation::PutBucketCors,
        ApiOperation::DeleteBucketCors,
        ApiOperation::GetBucketLifecycle,
        ApiOperation::PutBucketLifecycle,
        ApiOperation::DeleteBucketLifecycle,
        ApiOperation::GetBucketAcl,
        ApiOperation::PutBucketAcl,
        ApiOperation::GetObjectAcl,
        ApiOperation::PutObjectAcl,
        ApiOperation::GetObjectTags,
        ApiOperation::PutObjectTags,
        ApiOperation::DeleteObjectTags,
        ApiOperation::GetUnconfigured,
    ];

    /// Returns the name in the S3 API.
    pub fn name(self) -> &'static str {
        use ApiOperation as O;
        match self {
            O::ListBuckets => "ListBuckets",
            O::CreateBucket => "CreateBucket",
            O::HeadBucket => "HeadBucket",
            O::DeleteBucket => "DeleteBucket",
            O::GetBucketLocation => "GetBucketLocation",
            O::CreateSession => "CreateSession",
            O::ListObjects => "ListObjects",
            O::ListObjectsV2 => "ListObjectsV2",
            O::ListVersions => "ListObjectVersions",
            O::ListUploads => "ListMultipartUploads",
            O::DeleteObjects => "DeleteObjects",
            O::PutObject => "PutObject",
            O::CopyObject => "CopyObject",
            O::GetObject => "GetObject",
            O::HeadObject => "HeadObject",
            O::GetAttributes => "GetObjectAttributes",
            O::DeleteObject => "DeleteObject",
            O::CreateUpload => "CreateMultipartUpload",
            O::UploadPart => "UploadPart",
            O::UploadPartCopy => "UploadPartCopy",
            O::CompleteUpload => "CompleteMultipartUpload",
            O::AbortUpload => "AbortMultipartUpload",
            O::ListParts => "ListParts",
            O::PostObject => "PostObject",
            O::Preflight => "Preflight",
            O::GetBucketVersioning => "GetBucketVersioning",
            O::PutBucketVersioning => "PutBucketVersioning",
            O::GetBucketTags => "GetBucketTagging",
            O::PutBucketTags => "PutBucketTagging",
            O::DeleteBucketTags => "DeleteBucketTagging",
            O::GetBucketCors => "GetBucketCors",
            O::PutBucketCors => "PutBucketCors",
            O::DeleteBucketCors => "DeleteBucketCors",
            O::GetBucketLifecycle => "GetBucketLifecycleConfiguration",
            O::PutBucketLifecycle => "PutBucketLifecycleConfiguration",
            O::DeleteBucketLifecycle => "DeleteBucketLifecycle",
            O::GetBucketAcl => "GetBucketAcl",
            O::PutBucketAcl => "PutBucketAcl",
            O::GetObjectAcl => "GetObjectAcl",
            O::PutObjectAcl => "PutObjectAcl",
            O::GetObjectTags => "GetObjectTagging",
            O::PutObjectTags => "PutObjectTagging",
            O::DeleteObjectTags => "DeleteObjectTagging",
            O::GetUnconfigured => "GetBucketConfiguration",
        }
    }

    /// Returns the kind of the request on a bill; `None` if no price book has it. A listing of buckets, versions or
    /// parts is billed as a listing of objects, and reading a property of a bucket or an object as a HEAD of it.
    pub fn call(self) -> Option<Call> {
        use ApiOperation as O;
        Some(match self {
            O::PutObject | O::PostObject => Call::PutObject,
            O::CopyObject => Call::CopyObject,
            O::ListBuckets | O::ListObjects | O::ListObjectsV2 | O::ListVersions => Call::ListObjects,
            O::CreateUpload => Call::CreateMultipartUpload,
            O::UploadPart | O::UploadPartCopy => Call::UploadPart,
            O::CompleteUpload => Call::CompleteMultipartUpload,
            O::AbortUpload => Call::AbortMultipartUpload,
            O::ListUploads | O::ListParts => Call::ListMultipartUploads,
            O::GetObject => Call::GetObject,
            O::HeadObject | O::GetAttributes | O::GetObjectAcl | O::GetObjectTags => Call::HeadObject,
            O::DeleteObject => Call::DeleteObject,
            O::DeleteObjects => Call::DeleteObjects,
            O::HeadBucket
            | O::GetBucketLocation
            | O::GetBucketVersioning
            | O::GetBucketTags
            | O::GetBucketCors
            | O::GetBucketLifecycle
            | O::GetBucketAcl
            | O::GetUnconfigured => Call::HeadBucket,
            O::CreateBucket => Call::CreateBucket,
            O::DeleteBucket => Call::DeleteBucket,
            O::CreateSession => Call::CreateSession,
            _ => return None,
        })
    }

    /// Returns true if the operation changes objects, uploads or buckets.
    pub fn writes(self) -> bool {
        use ApiOperation as O;
        !matches!(
            self,
            O::ListBuckets
                | O::HeadBucket
                | O::GetBucketLocation
                | O::ListObjects
                | O::ListObjectsV2
                | O::ListVersions
                | O::ListUploads
                | O::GetObject
                | O::HeadObject
                | O::GetAttributes
                | O::ListParts
                | O::Preflight
                | O::GetBucketVersioning
                | O::GetBucketTags
                | O::GetBucketCors
                | O::GetBucketLifecycle
                | O::GetBucketAcl
                | O::GetObjectAcl
                | O::GetObjectTags
                | O::GetUnconfigured
        )
    }

    /// Returns true if a service with these features implements the operation.
    pub fn is_in(self, features: &Features) -> bool {
        use ApiOperation as O;
        match self {
            O::PostObject => features.forms,
            O::Preflight
            | O::GetBucketTags
            | O::PutBucketTags
            | O::DeleteBucketTags
            | O::GetBucketCors
            | O::PutBucketCors
            | O::DeleteBucketCors
            | O::GetBucketLifecycle
            | O::PutBucketLifecycle
            | O::DeleteBucketLifecycle
            | O::GetUnconfigured => features.bucket_configuration,
            O::GetBucketAcl | O::PutBucketAcl | O::GetObjectAcl | O::PutObjectAcl => features.acls,
            O::GetBucketVersioning | O::PutBucketVersioning => features.versions,
            O::GetObjectTags | O::PutObjectTags | O::DeleteObjectTags => features.tags,
            O::CreateSession => features.directory_buckets,
            _ => true,
        }
    }

    /// Returns true if `If-None-Match` may contain entity tags. S3 itself accepts only `*`.
    pub fn takes_any_if_none_match(self) -> bool {
        matches!(self, ApiOperation::PutObject | ApiOperation::CompleteUpload | ApiOperation::CopyObject)
    }

    /// Returns true if the body of a request is the content of an object, which the service reads as a stream.
    pub fn has_content(self) -> bool {
        matches!(self, ApiOperation::PutObject | ApiOperation::UploadPart | ApiOperation::PostObject)
    }
}
