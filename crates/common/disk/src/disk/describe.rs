//! Describes changes of a disk with their paths.

use std::ops::Range;

use super::Disk;
use crate::change::{DirectoryEntry, DiskChange, Ino};
use crate::tree::{ROOT, Tree};

fn path_in(tree: &Tree, ino: Ino) -> Option<String> {
    match ino {
        ROOT => Some(String::new()),
        _ => tree.paths().into_iter().find(|(_, of)| *of == ino).map(|(path, _)| path),
    }
}

impl Disk {
    /// Returns a path of an inode; `None` if no entry points to it. The path of the root is empty.
    pub(super) fn path(&self, ino: Ino) -> Option<String> {
        path_in(&self.now, ino)
    }

    /// Returns a name for messages: a path of the inode; for a removed inode, its path on the medium or its first path.
    fn name_of(&self, ino: Ino) -> String {
        let first = || {
            self.pending.iter().find_map(|change| match change {
                DiskChange::Link { entry, ino: of } if *of == ino => Some(self.entry_path(entry)),
                _ => None,
            })
        };
        let known = self.path(ino).or_else(|| path_in(&self.durable, ino));
        known.or_else(first).unwrap_or_else(|| "a removed file".into())
    }

    fn entry_path(&self, entry: &DirectoryEntry) -> String {
        let (directory, name) = (self.name_of(entry.parent), entry.name.to_string_lossy());
        if directory.is_empty() { name.into_owned() } else { format!("{directory}/{name}") }
    }

    /// Describes the pending changes at these positions: a new file by its name, and consecutive writes together.
    pub fn describe_all(&self, positions: &[usize]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut writes: Option<(Ino, Range<u64>)> = None;
        for change in positions.iter().map(|position| &self.pending[*position]) {
            match (change, &mut writes) {
                (DiskChange::New { .. }, _) => continue,
                (DiskChange::Write { ino, offset, data, .. }, Some((of, range)))
                    if ino == of && *offset == range.end =>
                {
                    range.end += data.len() as u64;
                    lines.pop();
                }
                (DiskChange::Write { ino, offset, data, .. }, _) => {
                    writes = Some((*ino, *offset..offset + data.len() as u64));
                }
                _ => writes = None,
            }
            lines.push(match &writes {
                Some((ino, range)) => {
                    format!("bytes {}..{} of {}", range.start, range.end, self.name_of(*ino))
                }
                None => self.describe(change),
            });
        }
        lines
    }

    /// Describes a change with its paths.
    fn describe(&self, change: &DiskChange) -> String {
        let of = |ino: &Ino| self.name_of(*ino);
        match change {
            DiskChange::New { ino, .. } => format!("new {}", of(ino)),
            DiskChange::Link { entry, .. } => format!("name {}", self.entry_path(entry)),
            DiskChange::Unlink { entry, .. } => format!("removal of {}", self.entry_path(entry)),
            DiskChange::Rename { from, to, .. } => {
                format!("rename of {} to {}", self.entry_path(from), self.entry_path(to))
            }
            DiskChange::Set { ino, .. } => format!("attributes of {}", of(ino)),
            DiskChange::Resize { ino, size } => format!("size {size} of {}", of(ino)),
            DiskChange::Allocate { ino, range } => {
                format!("allocation of {}..{} of {}", range.start, range.end, of(ino))
            }
            DiskChange::Punch { ino, range } => format!("hole {}..{} of {}", range.start, range.end, of(ino)),
            DiskChange::Write { ino, offset, data, .. } => {
                format!("bytes {}..{} of {}", offset, offset + data.len() as u64, of(ino))
            }
        }
    }
}
