//! Versions that leave their buckets, and why.

use super::row::Head;
use plimsoll_catalog::Row;

/// Reason why a version has left its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// A client has replaced it in a bucket without versions, or by another version `null`.
    Replaced,
    /// A client has deleted it.
    Deleted,
    /// A lifecycle rule has deleted it.
    Expired,
}

impl Removal {
    /// All reasons, in the order of their codes.
    pub(super) const ALL: [Removal; 3] = [Removal::Replaced, Removal::Deleted, Removal::Expired];
}

/// A version that leaves its bucket in a transaction.
pub struct Leaving<'a> {
    /// Head of the version.
    pub head: &'a Head,
    /// Row of the version.
    pub row: &'a Row,
    /// Reason why it leaves.
    pub removal: Removal,
    /// True if it is the current version of its key.
    pub is_current: bool,
}
