//! Changes of a file system, in the order in which programs made them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;

/// Number of an inode.
pub type Ino = u64;

/// Attributes of an inode that programs set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Permission bits of the mode.
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the owner.
    pub gid: u32,
    /// Time of the last access, in nanoseconds since the Unix epoch.
    pub atime_ns: i64,
    /// Time of the last change of the content, in nanoseconds since the Unix epoch.
    pub mtime_ns: i64,
    /// Time of the last change of the inode, in nanoseconds since the Unix epoch.
    pub ctime_ns: i64,
    /// Extended attributes by name.
    pub extended: BTreeMap<OsString, Vec<u8>>,
}

/// Kind of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewKind {
    /// A regular file without content.
    File,
    /// A directory without entries.
    Directory,
    /// A symbolic link to a path.
    Symlink(OsString),
    /// A FIFO, a socket or a device: the type bits of its mode, and its device number.
    Special(u32, u32),
}

/// Name of an entry in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// Directory of the entry.
    pub parent: Ino,
    /// Name in it.
    pub name: OsString,
}

/// One change of the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskChange {
    /// A new inode without an entry.
    New {
        /// Number of the inode.
        ino: Ino,
        /// Kind of the inode.
        kind: NewKind,
        /// Attributes of the inode.
        attributes: Attributes,
    },
    /// A new entry for an inode.
    Link {
        /// Entry that changes.
        entry: DirectoryEntry,
        /// Inode to which it points.
        ino: Ino,
    },
    /// An entry was removed.
    Unlink {
        /// Entry that changes.
        entry: DirectoryEntry,
        /// Inode to which it pointed.
        ino: Ino,
    },
    /// An entry got another name, and replaced the inode that had it.
    Rename {
        /// Entry before the rename.
        from: DirectoryEntry,
        /// Entry after the rename.
        to: DirectoryEntry,
        /// Inode that moved.
        ino: Ino,
        /// Inode that was replaced; `None` if the name was free.
        replaced: Option<Ino>,
        /// True if both entries keep existing and changed places.
        exchange: bool,
    },
    /// Attributes were replaced.
    Set {
        /// Inode that changes.
        ino: Ino,
        /// All of its attributes.
        attributes: Attributes,
    },
    /// Another size, without data.
    Resize {
        /// Inode that changes.
        ino: Ino,
        /// New size in bytes.
        size: u64,
    },
    /// Pages were allocated.
    Allocate {
        /// Inode that changes.
        ino: Ino,
        /// Bytes of the pages.
        range: Range<u64>,
    },
    /// A hole was made.
    Punch {
        /// Inode that changes.
        ino: Ino,
        /// Bytes of the hole.
        range: Range<u64>,
    },
    /// A write of data.
    Write {
        /// Inode that changes.
        ino: Ino,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes of the write.
        data: Arc<[u8]>,
        /// True if the write extended the file or filled a hole, so that the inode changes with it.
        allocates: bool,
        /// Time of the write, in nanoseconds since the Unix epoch.
        at_ns: i64,
    },
}

impl DiskChange {
    /// Returns the inode whose own content or attributes the change concerns; `None` for entries.
    pub fn inode(&self) -> Option<Ino> {
        match self {
            DiskChange::New { ino, .. }
            | DiskChange::Set { ino, .. }
            | DiskChange::Resize { ino, .. }
            | DiskChange::Allocate { ino, .. }
            | DiskChange::Punch { ino, .. }
            | DiskChange::Write { ino, .. } => Some(*ino),
            DiskChange::Link { .. } | DiskChange::Unlink { .. } | DiskChange::Rename { .. } => None,
        }
    }

    /// Returns the entries that the change concerns.
    pub fn entries(&self) -> Vec<&DirectoryEntry> {
        match self {
            DiskChange::Link { entry, .. } | DiskChange::Unlink { entry, .. } => vec![entry],
            DiskChange::Rename { from, to, .. } => vec![from, to],
            _ => Vec::new(),
        }
    }

    /// Returns true if an entry of this directory changes.
    pub fn is_in(&self, directory: Ino) -> bool {
        self.entries().iter().any(|entry| entry.parent == directory)
    }

    /// Returns true for data, which is not part of the metadata.
    pub fn is_data(&self) -> bool {
        matches!(self, DiskChange::Write { .. })
    }
}

/// Removes `hole` from a write; returns the parts that remain.
pub fn without(change: &DiskChange, hole: &Range<u64>) -> Vec<DiskChange> {
    let DiskChange::Write { ino, offset, data, allocates, at_ns } = change else {
        return vec![change.clone()];
    };
    let end = offset + data.len() as u64;
    if hole.end <= *offset || hole.start >= end {
        return vec![change.clone()];
    }
    let part = |range: Range<u64>| DiskChange::Write {
        ino: *ino,
        offset: range.start,
        data: data[(range.start - offset) as usize..(range.end - offset) as usize].into(),
        allocates: *allocates,
        at_ns: *at_ns,
    };
    let parts = [*offset..hole.start.max(*offset), hole.end.min(end)..end];
    parts.into_iter().filter(|range| !range.is_empty()).map(part).collect()
}
