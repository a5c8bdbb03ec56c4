//! A broken promise of durability.

use serde::Serialize;

use super::history::OperationKind;

/// A way to break a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// The object does not exist.
    Lost,
    /// Other bytes than anybody wrote, or not all of them.
    Damaged,
    /// The state before an acknowledged operation.
    Old,
    /// A deleted object exists.
    Back,
    /// The store answers reads with errors.
    Unreadable,
    /// A listing contradicts reads.
    Listing,
}

impl ViolationKind {
    /// All kinds of violations.
    pub const ALL: [ViolationKind; 6] = [
        ViolationKind::Lost,
        ViolationKind::Damaged,
        ViolationKind::Old,
        ViolationKind::Back,
        ViolationKind::Unreadable,
        ViolationKind::Listing,
    ];

    /// Returns the heading of its column.
    pub fn name(self) -> &'static str {
        match self {
            ViolationKind::Lost => "lost",
            ViolationKind::Damaged => "damaged",
            ViolationKind::Old => "old",
            ViolationKind::Back => "back",
            ViolationKind::Unreadable => "unreadable",
            ViolationKind::Listing => "listing wrong",
        }
    }
}

/// A violation of the durability of one key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Violation {
    /// Number of the cut, from 0.
    pub cut: u64,
    /// Key, without the prefix of the check.
    pub key: String,
    /// The last acknowledged operation on the key.
    pub operation: OperationKind,
    /// Kind of the violation.
    pub kind: ViolationKind,
    /// Time between the acknowledgement and the cut, in milliseconds.
    pub age_ms: f64,
    /// The answer of the store.
    pub detail: String,
    /// The operations on the key, in order, with their answers.
    pub history: Vec<String>,
}
