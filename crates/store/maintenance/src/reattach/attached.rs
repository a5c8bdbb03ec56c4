//! Counts of what was attached.

/// Counts of a result.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Attached {
    /// Buckets that were created.
    pub buckets: u64,
    /// Versions that were attached.
    pub objects: u64,
    /// Size of these versions in bytes.
    pub bytes: u64,
    /// Versions that are older than the current one of a bucket without versions.
    pub older: u64,
    /// Blobs that got places which the catalog did not know, or have lost places whose bytes are gone.
    pub moved: u64,
    /// Objects of which a piece is missing, as `bucket/key`.
    pub incomplete: Vec<String>,
    /// Objects of the gateway that describe nothing: unfinished, damaged, or written without descriptions.
    pub unidentified: u64,
}
