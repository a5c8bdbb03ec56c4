//! Optional features of a service.

use plimsoll_base::provider::zone::is_directory;

/// Optional features of a service. Requests that need a missing one get status 501.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// Versions of objects, and the versioning state of buckets.
    pub versions: bool,
    /// Tags of objects.
    pub tags: bool,
    /// Tags, CORS rules and lifecycle rules of buckets.
    pub bucket_configuration: bool,
    /// Uploads by HTML form.
    pub forms: bool,
    /// Canned access control lists and several owners of buckets.
    pub acls: bool,
    /// Directory buckets and their sessions.
    pub directory_buckets: bool,
    /// Entity tags in `If-None-Match` of writes, which S3 refuses.
    pub if_none_match_tags: bool,
    /// Storage classes of objects other than the default one.
    pub storage_classes: bool,
}

impl Features {
    /// Returns the features in a bucket with this name: directory buckets have no others.
    #[must_use]
    pub fn in_bucket(self, name: &str) -> Features {
        match self.directory_buckets && is_directory(name) {
            true => Features { directory_buckets: true, ..Features::default() },
            false => self,
        }
    }
}
