//! The table: headers and query parameters by operation.

use crate::route::{ApiOperation, UNCONFIGURED};

/// Accepted values of a header.
pub enum Values {
    /// Any value; the operation itself rejects a wrong one.
    Any,
    /// One of these values; any other value requests a feature that is not implemented.
    Only(&'static [&'static str]),
    /// The identifier of the owner of the server.
    Owner,
}

use Values::{Any, Only, Owner};

/// A header name, or a prefix of names followed by `*`, and its accepted values.
pub type Header = (&'static str, Values);

/// Headers accepted with every operation.
pub const ALWAYS: &[Header] = &[
    // Verified by `auth` and `body`.
    ("x-amz-content-sha256", Any),
    ("x-amz-date", Any),
    ("x-amz-decoded-content-length", Any),
    ("x-amz-trailer", Any),
    ("x-amz-sdk-checksum-algorithm", Any),
    ("x-amz-s3session-token", Any),
    // The server has no temporary credentials, so a token grants no extra permission.
    ("x-amz-security-token", Any),
    // These headers describe the client.
    ("x-amz-user-agent", Any),
    ("x-amz-te", Any),
    ("x-amz-api-version", Any),
    // The requester and the owner are the same account.
    ("x-amz-request-payer", Only(&["requester"])),
    ("x-amz-expected-bucket-owner", Owner),
];

/// Checksum headers of a request body, verified by `body`.
const CHECKSUM: &[Header] = &[("x-amz-checksum-*", Any)];

/// Conditions, range and checksum mode of a read.
const READ: &[Header] = &[
    ("if-match", Any),
    ("if-none-match", Any),
    ("if-modified-since", Any),
    ("if-unmodified-since", Any),
    ("range", Any),
    ("if-range", Any),
    ("x-amz-checksum-mode", Only(&["ENABLED", "enabled"])),
];

/// Condition headers of a write.
const WRITE: &[Header] = &[("if-match", Any), ("if-none-match", Only(&["*"]))];

/// Properties of a new object. The accepted values are those that every object has without optional features.
const OBJECT: &[Header] = &[
    ("x-amz-meta-*", Any),
    // With access control lists, `check` accepts any canned list.
    ("x-amz-acl", Only(&["private", "bucket-owner-full-control", "bucket-owner-read"])),
    ("x-amz-object-lock-legal-hold", Only(&["OFF"])),
];

/// Access control list of an existing bucket or object.
const ACL: &[Header] = &[("x-amz-acl", Any)];

/// Properties of a new bucket. The accepted values are those that every bucket has without optional features.
const BUCKET: &[Header] = &[
    ("x-amz-acl", Only(&["private"])),
    ("x-amz-object-ownership", Only(&["BucketOwnerEnforced"])),
    ("x-amz-bucket-object-lock-enabled", Only(&["false", "False"])),
];

/// Source of a copy and its conditions.
const SOURCE: &[Header] = &[
    ("x-amz-copy-source", Any),
    ("x-amz-copy-source-if-match", Any),
    ("x-amz-copy-source-if-none-match", Any),
    ("x-amz-copy-source-if-modified-since", Any),
    ("x-amz-copy-source-if-unmodified-since", Any),
    ("x-amz-source-expected-bucket-owner", Owner),
];

/// Headers accepted only with CopyObject.
const COPY: &[Header] = &[
    ("x-amz-metadata-directive", Any),
    // Without tags, both directives have the same effect; with tags, `check` accepts both.
    ("x-amz-tagging-directive", Only(&["COPY", "REPLACE"])),
    ("x-amz-checksum-algorithm", Any),
];

/// Headers accepted only with UploadPartCopy.
const COPY_PART: &[Header] = &[("x-amz-copy-source-range", Any)];

/// Headers accepted only with CompleteMultipartUpload.
const COMPLETE: &[Header] = &[("x-amz-mp-object-size", Any)];

/// Headers of listings. No object is archived, so none has a restore status.
const LISTING: &[Header] = &[("x-amz-optional-object-attributes", Only(&["RestoreStatus"]))];

/// Headers of deletes. No object is under retention, so there is nothing to bypass.
const DELETE: &[Header] = &[("x-amz-bypass-governance-retention", Only(&["true", "false", "True", "False"]))];

/// Condition headers of DeleteObject.
const DELETE_ONE: &[Header] =
    &[("if-match", Any), ("x-amz-if-match-last-modified-time", Any), ("x-amz-if-match-size", Any)];

/// Headers accepted only with CreateSession.
const SESSION: &[Header] = &[("x-amz-create-session-mode", Any)];

/// Headers accepted only with GetObjectAttributes.
const ATTRIBUTES: &[Header] =
    &[("x-amz-object-attributes", Any), ("x-amz-max-parts", Any), ("x-amz-part-number-marker", Any)];

/// Returns the headers that an operation accepts in addition to [`ALWAYS`].
pub fn headers(operation: ApiOperation) -> &'static [&'static [Header]] {
    use ApiOperation as O;
    match operation {
        O::GetObject | O::HeadObject => &[READ],
        O::PutObject => &[CHECKSUM, OBJECT, WRITE],
        O::UploadPart => &[CHECKSUM],
        O::CopyObject => &[SOURCE, COPY, OBJECT, WRITE],
        O::UploadPartCopy => &[SOURCE, COPY_PART],
        O::CreateUpload => &[CHECKSUM, OBJECT],
        O::CompleteUpload => &[CHECKSUM, COMPLETE, WRITE],
        O::DeleteObject => &[DELETE, DELETE_ONE],
        O::DeleteObjects => &[CHECKSUM, DELETE],
        O::ListObjects | O::ListObjectsV2 | O::ListVersions => &[LISTING],
        O::CreateBucket => &[BUCKET, CHECKSUM],
        O::CreateSession => &[SESSION],
        O::GetAttributes => &[ATTRIBUTES],
        O::ListBuckets
        | O::HeadBucket
        | O::DeleteBucket
        | O::GetBucketLocation
        | O::ListUploads
        | O::AbortUpload
        | O::ListParts
        | O::Preflight
        | O::PostObject
        | O::GetBucketVersioning
        | O::GetBucketTags
        | O::DeleteBucketTags
        | O::GetBucketCors
        | O::DeleteBucketCors
        | O::GetBucketLifecycle
        | O::DeleteBucketLifecycle
        | O::GetBucketAcl
        | O::GetObjectAcl
        | O::GetObjectTags
        | O::GetUnconfigured
        | O::DeleteObjectTags => &[],
        O::PutBucketAcl | O::PutObjectAcl => &[CHECKSUM, ACL],
        O::PutBucketVersioning
        | O::PutBucketTags
        | O::PutBucketCors
        | O::PutBucketLifecycle
        | O::PutObjectTags => &[CHECKSUM],
    }
}

/// Query parameters of the settings that no bucket has.
const UNCONFIGURED_NAMES: [&str; UNCONFIGURED.len()] = {
    let mut names = [""; UNCONFIGURED.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = UNCONFIGURED[index].0;
        index += 1;
    }
    names
};

/// Returns the query parameters that an operation accepts in addition to those of a presigned URL.
pub fn parameters(operation: ApiOperation) -> &'static [&'static str] {
    use ApiOperation as O;
    match operation {
        O::ListBuckets => &["prefix", "continuation-token", "max-buckets", "bucket-region"],
        O::CreateBucket | O::HeadBucket | O::DeleteBucket | O::PutObject | O::CopyObject => &[],
        O::GetBucketLocation => &["location"],
        O::CreateSession => &["session"],
        O::ListObjects => &["prefix", "delimiter", "marker", "max-keys", "encoding-type"],
        O::ListObjectsV2 => &[
            "list-type",
            "prefix",
            "delimiter",
            "continuation-token",
            "start-after",
            "max-keys",
            "encoding-type",
            "fetch-owner",
        ],
        O::ListVersions => &[
            "versions",
            "prefix",
            "delimiter",
            "key-marker",
            "version-id-marker",
            "max-keys",
            "encoding-type",
        ],
        O::ListUploads => &[
            "uploads",
            "prefix",
            "delimiter",
            "key-marker",
            "upload-id-marker",
            "max-uploads",
            "encoding-type",
        ],
        O::DeleteObjects => &["delete"],
        O::GetObject | O::HeadObject => &[
            "partNumber",
            "versionId",
            "response-content-type",
            "response-content-encoding",
            "response-content-disposition",
            "response-content-language",
            "response-cache-control",
            "response-expires",
        ],
        O::GetAttributes => &["attributes", "versionId"],
        O::DeleteObject => &["versionId"],
        O::CreateUpload => &["uploads"],
        O::UploadPart | O::UploadPartCopy => &["partNumber", "uploadId"],
        O::CompleteUpload | O::AbortUpload => &["uploadId"],
        O::ListParts => &["uploadId", "max-parts", "part-number-marker"],
        O::Preflight => {
            &["uploads", "uploadId", "partNumber", "versionId", "list-type", "prefix", "delimiter"]
        }
        O::PostObject => &[],
        O::GetBucketVersioning | O::PutBucketVersioning => &["versioning"],
        O::GetBucketTags | O::PutBucketTags | O::DeleteBucketTags => &["tagging"],
        O::GetBucketCors | O::PutBucketCors | O::DeleteBucketCors => &["cors"],
        O::GetBucketLifecycle | O::PutBucketLifecycle | O::DeleteBucketLifecycle => &["lifecycle"],
        O::GetBucketAcl | O::PutBucketAcl => &["acl"],
        O::GetObjectAcl | O::PutObjectAcl => &["acl", "versionId"],
        O::GetUnconfigured => &UNCONFIGURED_NAMES,
        O::GetObjectTags | O::PutObjectTags | O::DeleteObjectTags => &["tagging", "versionId"],
    }
}
