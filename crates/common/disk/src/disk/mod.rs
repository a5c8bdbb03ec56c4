//! The operations of a disk: what programs see, what is durable, and what a power loss leaves.

mod describe;
mod faulty;
mod sync;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;

use rustix::io::Errno;

use plimsoll_base::clock::wall_now;

use crate::change::{Attributes, DirectoryEntry, DiskChange, Ino, NewKind};
use crate::content::PAGE;
use crate::draws::Draws;
use crate::faults::DiskFaults;
use crate::rules::{Fate, Model};
use crate::tree::{Inode, InodeContent, Tree};

/// Greatest length of a name in bytes, as on ext4.
pub const MAX_NAME: usize = 255;
/// Greatest length of an extended attribute in bytes (`XATTR_SIZE_MAX` of Linux).
pub const MAX_EXTENDED: usize = 65_536;
/// Greatest size of a file in bytes, as on ext4 with blocks of 4 KiB.
pub const MAX_FILE: u64 = 16 << 40;

/// A disk in memory.
#[derive(Debug, Clone)]
pub struct Disk {
    model: Model,
    now: Tree,
    durable: Tree,
    pending: Vec<DiskChange>,
    next_ino: Ino,
    /// Number of open handles of each inode.
    open: HashMap<Ino, u32>,
    capacity: u64,
    used: u64,
    faults: DiskFaults,
    /// Number of changes and syncs so far.
    steps: u64,
    /// Number of syncs so far.
    syncs: u64,
    /// Number of writes that allocated so far.
    allocations: u64,
    /// Step before which the power fails.
    fails_at: Option<u64>,
    has_power: bool,
}

/// Returns the current time in nanoseconds since the Unix epoch.
pub fn now_ns() -> i64 {
    wall_now().as_nanosecond() as i64
}

/// A place to which a rename moves an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// An existing file is replaced.
    Yes,
    /// An existing file is an error (`RENAME_NOREPLACE`).
    No,
    /// Both change places (`RENAME_EXCHANGE`).
    Exchange,
}

impl Disk {
    /// Creates an empty disk with a capacity in bytes.
    pub fn new(model: Model, capacity: u64) -> Disk {
        let tree = Tree::default();
        Disk {
            model,
            durable: tree.clone(),
            next_ino: tree.last_ino() + 1,
            now: tree,
            pending: Vec::new(),
            open: HashMap::new(),
            capacity,
            used: 0,
            faults: DiskFaults::default(),
            steps: 0,
            syncs: 0,
            allocations: 0,
            fails_at: None,
            has_power: true,
        }
    }

    /// Returns a disk with this content, all of it durable, and no faults.
    fn holding(&self, tree: Tree) -> Disk {
        Disk {
            durable: tree.clone(),
            used: tree.allocated(),
            next_ino: tree.last_ino() + 1,
            now: tree,
            ..Disk::new(self.model, self.capacity)
        }
    }

    /// Returns the disk after a clean shutdown: everything is durable.
    pub fn shut_down(&self) -> Disk {
        let mut tree = self.now.clone();
        tree.collect();
        self.holding(tree)
    }

    /// Returns the disk after a power loss, and the positions of the pending changes that it lost, completely or in
    /// part. The same seed leaves the same disk. [`Disk::describe_all`] describes what was lost.
    pub fn after_power_loss(&self, fate: Fate, seed: u64) -> (Disk, Vec<usize>) {
        let mut draws = Draws::new(seed, "power loss");
        let rules = self.model.rules();
        let (tree, lost) = rules.after_power_loss(&self.durable, &self.pending, fate, &mut draws);
        (self.holding(tree), lost)
    }

    /// Turns the power off before the next step whose number is `step`, counted from the creation of the disk.
    pub fn fail_power_at(&mut self, step: u64) {
        self.fails_at = Some(step);
    }

    /// Turns the power off.
    pub fn fail_power(&mut self) {
        self.has_power = false;
    }

    /// Returns true until the power fails.
    pub fn has_power(&self) -> bool {
        self.has_power
    }

    /// Returns the number of changes and syncs so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the tree that programs see.
    pub fn tree(&self) -> &Tree {
        &self.now
    }

    /// Returns the capacity and the used space in bytes.
    pub fn space(&self) -> (u64, u64) {
        (self.capacity, self.used.min(self.capacity))
    }

    /// Begins a step that changes something.
    fn step(&mut self) -> Result<(), Errno> {
        if self.fails_at.is_some_and(|step| self.steps >= step) {
            self.has_power = false;
        }
        if !self.has_power {
            return Err(Errno::IO);
        }
        self.steps += 1;
        Ok(())
    }

    fn record(&mut self, change: DiskChange) {
        self.now.apply(&change);
        self.pending.push(change);
    }

    /// Returns an inode.
    ///
    /// # Errors
    /// ENOENT if it does not exist, EIO without power.
    pub fn inode(&self, ino: Ino) -> Result<&Inode, Errno> {
        match self.has_power {
            true => self.now.get(ino).ok_or(Errno::NOENT),
            false => Err(Errno::IO),
        }
    }

    /// Returns the inode of a name in a directory.
    ///
    /// # Errors
    /// ENOENT if it does not exist, EIO without power.
    pub fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Ino, Errno> {
        self.inode(parent)?;
        self.now.entry(&DirectoryEntry { parent, name: name.into() }).ok_or(Errno::NOENT)
    }

    fn free_entry(&self, parent: Ino, name: &OsStr) -> Result<DirectoryEntry, Errno> {
        if name.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG);
        }
        let directory = self.inode(parent)?;
        match (&directory.kind, directory.links) {
            (InodeContent::Directory(_), 0) => Err(Errno::NOENT),
            (InodeContent::Directory(entries), _) if entries.contains_key(name) => Err(Errno::EXIST),
            (InodeContent::Directory(_), _) => Ok(DirectoryEntry { parent, name: name.into() }),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Creates a file, a directory or another node.
    ///
    /// # Errors
    /// The errors of `mknod`.
    pub fn create(&mut self, parent: Ino, name: &OsStr, kind: NewKind, of: Attributes) -> Result<Ino, Errno> {
        let entry = self.free_entry(parent, name)?;
        self.step()?;
        let ino = self.next_ino;
        self.next_ino += 1;
        self.record(DiskChange::New { ino, kind, attributes: of });
        self.record(DiskChange::Link { entry, ino });
        Ok(ino)
    }

    /// Creates another entry for a file.
    ///
    /// # Errors
    /// The errors of `link`.
    pub fn link(&mut self, ino: Ino, parent: Ino, name: &OsStr) -> Result<(), Errno> {
        let entry = self.free_entry(parent, name)?;
        if matches!(self.inode(ino)?.kind, InodeContent::Directory(_)) {
            return Err(Errno::PERM);
        }
        self.step()?;
        self.record(DiskChange::Link { entry, ino });
        Ok(())
    }

    /// Removes an entry. `directory` selects between `rmdir` and `unlink`.
    ///
    /// # Errors
    /// The errors of `rmdir` and `unlink`.
    pub fn unlink(&mut self, parent: Ino, name: &OsStr, directory: bool) -> Result<(), Errno> {
        let ino = self.lookup(parent, name)?;
        match (&self.inode(ino)?.kind, directory) {
            (InodeContent::Directory(_), false) => return Err(Errno::ISDIR),
            (InodeContent::Directory(entries), true) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
            (InodeContent::Directory(_), true) => {}
            (_, true) => return Err(Errno::NOTDIR),
            (_, false) => {}
        }
        self.step()?;
        self.record(DiskChange::Unlink { entry: DirectoryEntry { parent, name: name.into() }, ino });
        self.remove_orphan(ino);
        Ok(())
    }

    /// Renames an entry.
    ///
    /// # Errors
    /// The errors of `renameat2`.
    pub fn rename(
        &mut self,
        from: &DirectoryEntry,
        to: &DirectoryEntry,
        replace: Replace,
    ) -> Result<(), Errno> {
        let ino = self.lookup(from.parent, &from.name)?;
        let replaced = match self.free_entry(to.parent, &to.name) {
            Ok(_) => None,
            Err(Errno::EXIST) => Some(self.lookup(to.parent, &to.name)?),
            Err(error) => return Err(error),
        };
        let is_directory = |ino: Ino| self.now.entries(ino).is_some();
        match (replace, replaced) {
            (Replace::No, Some(_)) => return Err(Errno::EXIST),
            (Replace::Exchange, None) => return Err(Errno::NOENT),
            // Two names of one file: nothing happens.
            (Replace::Yes, Some(old)) if old == ino => return Ok(()),
            (Replace::Yes, Some(old)) => match (is_directory(ino), is_directory(old)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if self.now.entries(old).is_some_and(|e| !e.is_empty()) => {
                    return Err(Errno::NOTEMPTY);
                }
                _ => {}
            },
            _ => {}
        }
        self.step()?;
        let exchange = replace == Replace::Exchange;
        self.record(DiskChange::Rename { from: from.clone(), to: to.clone(), ino, replaced, exchange });
        if let Some(old) = replaced.filter(|_| !exchange) {
            self.remove_orphan(old);
        }
        Ok(())
    }

    /// Changes the attributes of an inode.
    ///
    /// # Errors
    /// ENOENT if the inode does not exist, EIO without power.
    pub fn set(&mut self, ino: Ino, change: impl FnOnce(&mut Attributes)) -> Result<(), Errno> {
        let mut attributes = self.inode(ino)?.attributes.clone();
        change(&mut attributes);
        self.step()?;
        self.record(DiskChange::Set { ino, attributes });
        Ok(())
    }

    /// Truncates or extends a file.
    ///
    /// # Errors
    /// The errors of `ftruncate`.
    pub fn resize(&mut self, ino: Ino, size: u64) -> Result<(), Errno> {
        self.inode(ino)?;
        let before = self.now.content(ino).ok_or(Errno::INVAL)?.allocated();
        if size > MAX_FILE {
            return Err(Errno::FBIG);
        }
        self.step()?;
        self.record(DiskChange::Resize { ino, size });
        let after = self.now.content(ino).map_or(0, |content| content.allocated());
        self.used = self.used.saturating_sub(before.saturating_sub(after));
        Ok(())
    }

    /// Takes space for the bytes of `range` that are not allocated. Returns true if there are any.
    fn take_space(&mut self, ino: Ino, range: Range<u64>) -> Result<bool, Errno> {
        let content = self.now.content(ino).ok_or(Errno::INVAL)?;
        let more = content.to_allocate(range);
        if more == 0 {
            return Ok(false);
        }
        self.allocations += 1;
        let is_full = self.faults.full_after.is_some_and(|count| self.allocations > count);
        if is_full || self.used + more > self.capacity {
            return Err(Errno::NOSPC);
        }
        self.used += more;
        Ok(true)
    }

    /// Writes data to a file at an offset; with `synchronous`, also syncs the data.
    ///
    /// # Errors
    /// The errors of `pwrite`.
    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8], synchronous: bool) -> Result<(), Errno> {
        self.inode(ino)?;
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= MAX_FILE).ok_or(Errno::FBIG)?;
        self.step()?;
        let size = self.now.content(ino).ok_or(Errno::INVAL)?.size();
        let allocates = self.take_space(ino, offset..end)? || end > size;
        self.record(DiskChange::Write { ino, offset, data: data.into(), allocates, at_ns: now_ns() });
        match synchronous {
            true => self.sync(ino, true),
            false => Ok(()),
        }
    }

    /// Allocates space, as `fallocate` does; with `keep_size`, a file does not become longer.
    ///
    /// # Errors
    /// The errors of `fallocate`.
    pub fn allocate(&mut self, ino: Ino, range: Range<u64>, keep_size: bool) -> Result<(), Errno> {
        self.inode(ino)?;
        if range.end > MAX_FILE {
            return Err(Errno::FBIG);
        }
        if range.end - range.start > self.capacity {
            return Err(Errno::NOSPC);
        }
        self.step()?;
        self.take_space(ino, range.clone())?;
        self.record(DiskChange::Allocate { ino, range: range.clone() });
        let size = self.now.content(ino).map_or(0, |content| content.size());
        if !keep_size && range.end > size {
            self.record(DiskChange::Resize { ino, size: range.end });
        }
        Ok(())
    }

    /// Makes a hole, or with `keep_blocks` writes zeros.
    ///
    /// # Errors
    /// The errors of `fallocate`.
    pub fn punch(&mut self, ino: Ino, range: Range<u64>, keep_blocks: bool) -> Result<(), Errno> {
        self.inode(ino)?;
        let before = self.now.content(ino).ok_or(Errno::INVAL)?.allocated();
        self.step()?;
        self.record(DiskChange::Punch { ino, range: range.clone() });
        let after = self.now.content(ino).map_or(0, |content| content.allocated());
        self.used = self.used.saturating_sub(before.saturating_sub(after));
        if keep_blocks {
            self.take_space(ino, range.clone())?;
            self.record(DiskChange::Allocate { ino, range });
        }
        Ok(())
    }

    /// Notes that an inode was opened.
    pub fn opened(&mut self, ino: Ino) {
        *self.open.entry(ino).or_insert(0) += 1;
    }

    /// Notes that a handle of an inode was closed.
    pub fn closed(&mut self, ino: Ino) {
        if let Some(count) = self.open.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&ino);
                self.remove_orphan(ino);
            }
        }
    }

    /// Frees a file that nobody can reach any more. What is durable of it stays until its removal is durable.
    fn remove_orphan(&mut self, ino: Ino) {
        let is_free =
            self.now.get(ino).is_some_and(|inode| inode.links == 0) && !self.open.contains_key(&ino);
        if is_free {
            let freed = self.now.content(ino).map_or(0, |content| content.allocated());
            self.used = self.used.saturating_sub(freed);
            self.now.remove_orphan(ino);
        }
    }

    /// Returns the names and inodes of a directory, in the order of the names.
    ///
    /// # Errors
    /// ENOTDIR if the inode is no directory, EIO without power.
    pub fn list(&self, ino: Ino) -> Result<Vec<(OsString, Ino)>, Errno> {
        self.inode(ino)?;
        let entries = self.now.entries(ino).ok_or(Errno::NOTDIR)?;
        Ok(entries.iter().map(|(name, ino)| (name.clone(), *ino)).collect())
    }

    /// Reads up to `length` bytes of a file.
    ///
    /// # Errors
    /// EINVAL if the inode is no file, EIO without power.
    pub fn read(&self, ino: Ino, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
        self.inode(ino)?;
        self.now.content(ino).map(|content| content.read(offset, length)).ok_or(Errno::INVAL)
    }

    /// Returns the number of blocks of 512 bytes of an inode.
    pub fn blocks(&self, ino: Ino) -> u64 {
        self.now.content(ino).map_or(PAGE / 512, |content| content.allocated() / 512)
    }
}
