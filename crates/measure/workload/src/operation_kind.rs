//! Kinds of operations.

use serde::{Deserialize, Serialize};

/// Kinds of operations in a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Write of one object.
    Put,
    /// Read of a whole object.
    #[default]
    Get,
    /// Read of a byte range of an object.
    GetRange,
    /// Read of an object's metadata.
    Head,
    /// Listing of one page (up to 1,000 keys).
    List,
    /// Deletion of one object.
    Delete,
    /// Overwrite of an existing object.
    Update,
    /// Read of one object and of the objects that a listing returns after its key.
    Scan,
    /// Read of an object, followed by an overwrite of it.
    ReadModifyWrite,
    /// Read of an object, followed by an overwrite that succeeds only if no other write came between; repeated until it
    /// succeeds.
    CompareAndSwap,
    /// Copy of an object to another key within the store, which sends no content to the client.
    Copy,
}

impl std::fmt::Display for OperationKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl OperationKind {
    /// All kinds, in the order of their index.
    pub const ALL: [OperationKind; 11] = [
        OperationKind::Put,
        OperationKind::Get,
        OperationKind::GetRange,
        OperationKind::Head,
        OperationKind::List,
        OperationKind::Delete,
        OperationKind::Update,
        OperationKind::Scan,
        OperationKind::ReadModifyWrite,
        OperationKind::CompareAndSwap,
        OperationKind::Copy,
    ];

    /// Returns the name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Put => "put",
            OperationKind::Get => "get",
            OperationKind::GetRange => "get_range",
            OperationKind::Head => "head",
            OperationKind::List => "list",
            OperationKind::Delete => "delete",
            OperationKind::Update => "update",
            OperationKind::Scan => "scan",
            OperationKind::ReadModifyWrite => "read_modify_write",
            OperationKind::CompareAndSwap => "compare_and_swap",
            OperationKind::Copy => "copy",
        }
    }

    /// Returns the kind with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<OperationKind> {
        OperationKind::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Returns the position of the kind in [`OperationKind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns true if the operation works on existing objects: all kinds except puts and deletes.
    pub fn reads(self) -> bool {
        !matches!(self, OperationKind::Put | OperationKind::Delete)
    }

    /// Returns true if the operation overwrites existing objects.
    pub fn rewrites(self) -> bool {
        use OperationKind::{CompareAndSwap, ReadModifyWrite, Update};
        matches!(self, Update | ReadModifyWrite | CompareAndSwap)
    }
}
