//! A tree of directories and files, and how a change alters it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::sync::Arc;

use crate::change::{Attributes, DirectoryEntry, DiskChange, Ino, NewKind};
use crate::content::Content;

/// Inode of the root directory.
pub const ROOT: Ino = 1;

/// Content of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InodeContent {
    /// A regular file.
    File(Content),
    /// A directory with its entries.
    Directory(BTreeMap<OsString, Ino>),
    /// A symbolic link to a path.
    Symlink(OsString),
    /// A FIFO, a socket or a device: the type bits of its mode, and its device number.
    Special(u32, u32),
}

/// A file, a directory or another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Content by its kind.
    pub kind: InodeContent,
    /// Attributes of the inode.
    pub attributes: Attributes,
    /// Number of entries that point to it.
    pub links: u32,
}

/// A tree. Copies share their inodes and pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    inodes: HashMap<Ino, Arc<Inode>>,
}

impl Default for Tree {
    fn default() -> Tree {
        // The root belongs to the user who mounts it.
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let attributes = Attributes { mode: 0o755, uid, gid, ..Attributes::default() };
        let root = Inode { kind: InodeContent::Directory(BTreeMap::new()), attributes, links: 1 };
        Tree { inodes: HashMap::from([(ROOT, Arc::new(root))]) }
    }
}

impl Tree {
    /// Returns an inode; `None` if it does not exist.
    pub fn get(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(&ino).map(Arc::as_ref)
    }

    fn get_mut(&mut self, ino: Ino) -> Option<&mut Inode> {
        self.inodes.get_mut(&ino).map(Arc::make_mut)
    }

    /// Returns the content of a file; `None` for anything else.
    pub fn content(&self, ino: Ino) -> Option<&Content> {
        match &self.get(ino)?.kind {
            InodeContent::File(content) => Some(content),
            _ => None,
        }
    }

    /// Changes the content of a file, if it exists.
    fn change_content(&mut self, ino: Ino, change: impl FnOnce(&mut Content)) {
        if let Some(Inode { kind: InodeContent::File(content), .. }) = self.get_mut(ino) {
            change(content);
        }
    }

    /// Returns the entries of a directory; `None` for anything else.
    pub fn entries(&self, ino: Ino) -> Option<&BTreeMap<OsString, Ino>> {
        match &self.get(ino)?.kind {
            InodeContent::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the inode of an entry; `None` if there is none.
    pub fn entry(&self, entry: &DirectoryEntry) -> Option<Ino> {
        self.entries(entry.parent)?.get(&entry.name).copied()
    }

    /// Makes an entry point to `ino`; `None` removes it.
    fn set_entry(&mut self, entry: &DirectoryEntry, ino: Option<Ino>) {
        let Some(Inode { kind: InodeContent::Directory(entries), .. }) = self.get_mut(entry.parent) else {
            return;
        };
        let before = match ino {
            Some(ino) => entries.insert(entry.name.clone(), ino),
            None => entries.remove(&entry.name),
        };
        if let Some(inode) = before.and_then(|ino| self.get_mut(ino)) {
            inode.links = inode.links.saturating_sub(1);
        }
        if let Some(inode) = ino.and_then(|ino| self.get_mut(ino)) {
            inode.links += 1;
        }
    }

    /// Applies a change. A change whose inode or entry does not exist has no effect.
    pub fn apply(&mut self, change: &DiskChange) {
        match change {
            DiskChange::New { ino, kind, attributes } => {
                let kind = match kind {
                    NewKind::File => InodeContent::File(Content::default()),
                    NewKind::Directory => InodeContent::Directory(BTreeMap::new()),
                    NewKind::Symlink(target) => InodeContent::Symlink(target.clone()),
                    NewKind::Special(of, device) => InodeContent::Special(*of, *device),
                };
                let inode = Inode { kind, attributes: attributes.clone(), links: 0 };
                self.inodes.entry(*ino).or_insert_with(|| Arc::new(inode));
            }
            DiskChange::Link { entry, ino } => {
                if self.inodes.contains_key(ino) {
                    self.set_entry(entry, Some(*ino));
                }
            }
            DiskChange::Unlink { entry, ino } => {
                if self.entry(entry) == Some(*ino) {
                    self.set_entry(entry, None);
                }
            }
            DiskChange::Rename { from, to, ino, replaced, exchange } => {
                if !self.inodes.contains_key(ino) {
                    return;
                }
                if self.entry(from) == Some(*ino) {
                    self.set_entry(from, replaced.filter(|_| *exchange));
                }
                self.set_entry(to, Some(*ino));
            }
            DiskChange::Set { ino, attributes } => {
                if let Some(inode) = self.get_mut(*ino) {
                    inode.attributes = attributes.clone();
                }
            }
            DiskChange::Resize { ino, size } => self.change_content(*ino, |content| content.resize(*size)),
            DiskChange::Allocate { ino, range } => {
                self.change_content(*ino, |content| content.allocate(range.clone()));
            }
            DiskChange::Punch { ino, range } => {
                self.change_content(*ino, |content| content.punch(range.clone()))
            }
            DiskChange::Write { ino, offset, data, at_ns, .. } => self.write(*ino, *offset, data, *at_ns),
        }
    }

    /// Writes data into a file.
    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8], at_ns: i64) {
        if let Some(inode) = self.get_mut(ino)
            && let InodeContent::File(content) = &mut inode.kind
        {
            content.write(offset, data);
            inode.attributes.mtime_ns = inode.attributes.mtime_ns.max(at_ns);
        }
    }

    /// Flips a bit of a file.
    pub fn flip(&mut self, ino: Ino, offset: u64, bit: u32) {
        self.change_content(ino, |content| content.flip(offset, bit));
    }

    /// Removes a file that no entry points to.
    pub fn remove_orphan(&mut self, ino: Ino) {
        if self.get(ino).is_some_and(|inode| inode.links == 0) {
            self.inodes.remove(&ino);
        }
    }

    /// Removes all that no path leads to, as a check of the file system does after a power loss, and counts links
    /// again.
    pub fn collect(&mut self) {
        let (mut links, mut seen) = (HashMap::from([(ROOT, 1)]), HashSet::from([ROOT]));
        let mut directories = vec![ROOT];
        while let Some(directory) = directories.pop() {
            let entries = self.entries(directory).cloned().unwrap_or_default();
            for (name, ino) in entries {
                // A directory has one entry. A second one is left by a move of which only half is durable.
                let is_directory = self.entries(ino).is_some();
                if !self.inodes.contains_key(&ino) || (is_directory && seen.contains(&ino)) {
                    self.set_entry(&DirectoryEntry { parent: directory, name }, None);
                    continue;
                }
                *links.entry(ino).or_insert(0) += 1;
                seen.insert(ino);
                if is_directory {
                    directories.push(ino);
                }
            }
        }
        self.inodes.retain(|ino, _| seen.contains(ino));
        for (ino, count) in links {
            if let Some(inode) = self.get_mut(ino) {
                inode.links = count;
            }
        }
    }

    /// Returns the number of allocated bytes of all files.
    pub fn allocated(&self) -> u64 {
        self.inodes.keys().filter_map(|ino| self.content(*ino)).map(Content::allocated).sum()
    }

    /// Returns the highest number of an inode.
    pub fn last_ino(&self) -> Ino {
        self.inodes.keys().copied().max().unwrap_or(ROOT)
    }

    /// Returns all paths with their inodes, without the root, in the order of the paths. Paths have no leading slash.
    pub fn paths(&self) -> BTreeSet<(String, Ino)> {
        let mut paths = BTreeSet::new();
        let (mut left, mut seen) = (vec![(String::new(), ROOT)], HashSet::new());
        while let Some((path, ino)) = left.pop() {
            if !seen.insert((path.clone(), ino)) || path.len() > 4096 {
                continue;
            }
            for (name, child) in self.entries(ino).into_iter().flatten() {
                let name = name.to_string_lossy();
                let child_path = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
                paths.insert((child_path.clone(), *child));
                left.push((child_path, *child));
            }
        }
        paths
    }
}
