//! Promises of ext4 with its default options: `data=ordered`, `delalloc`, `auto_da_alloc`, barriers.
//!
//! - All metadata passes through one journal, in order: a power loss leaves a prefix of it (kernel documentation,
//!   `filesystems/ext4/journal.rst`).
//! - `fsync` commits the journal if the inode has changes in it, which makes all earlier metadata durable, the entry of
//!   a new file included. Metadata after the last change of the inode is not promised: the journal may have been
//!   committed in between, by its timer or another process, and then this sync commits nothing. `fdatasync` commits it
//!   for a new inode, another size and new blocks, not for a rename, a link, times or extended attributes
//!   (`ext4_fsync_journal` with `i_sync_tid` and `i_datasync_tid`, `fs/ext4/fsync.c`). An overwrite changes only the
//!   times, which `lazytime` keeps out of the journal, so it does not count.
//! - New blocks are allocated when data is written back, and `data=ordered` writes the data before the transaction
//!   that makes them part of the file: after a power loss, a new file may be empty or end early, but it never has
//!   foreign bytes (kernel documentation, `admin-guide/ext4.rst`).
//! - A rename over an existing file writes the data of the renamed file back before the journal commits the rename
//!   (`auto_da_alloc`, same document). A rename to a free name does not.
//! - An overwrite of allocated blocks does not pass through the journal: it reaches the disk at any time, page by page.
//!   Only a sector is atomic.

use std::collections::{HashMap, HashSet};

use super::torn::DataWrite;
use super::{Fate, Rules};
use crate::change::{DiskChange, Ino, without};
use crate::content::PAGE;
use crate::draws::Draws;
use crate::tree::Tree;

/// Rules of ext4.
pub struct Ext4;

/// Returns true if a sync of the inode commits the journal because of this change.
fn commits(change: &DiskChange, ino: Ino, data_only: bool) -> bool {
    let is_of_inode = change.inode() == Some(ino);
    match change {
        DiskChange::Write { allocates, .. } => is_of_inode && *allocates,
        DiskChange::New { .. }
        | DiskChange::Resize { .. }
        | DiskChange::Allocate { .. }
        | DiskChange::Punch { .. } => is_of_inode,
        DiskChange::Set { .. } => is_of_inode && !data_only,
        // An entry changes its directory, and the links and times of its inode.
        DiskChange::Link { ino: of, .. } | DiskChange::Unlink { ino: of, .. } => {
            change.is_in(ino) || (*of == ino && !data_only)
        }
        DiskChange::Rename { ino: of, replaced, .. } => {
            change.is_in(ino) || ((*of == ino || *replaced == Some(ino)) && !data_only)
        }
    }
}

/// Returns the inode whose earlier data the journal writes before it commits this change.
fn writes_back(change: &DiskChange) -> Option<Ino> {
    match change {
        DiskChange::Rename { ino, replaced: Some(_), exchange: false, .. } => Some(*ino),
        _ => None,
    }
}

/// Returns for each of the first `end` changes whether it is data that a later rename among them writes back.
fn written_back(pending: &[DiskChange], end: usize) -> Vec<bool> {
    let (mut forced, mut inodes) = (vec![false; pending.len()], HashSet::new());
    for (position, change) in pending[..end].iter().enumerate().rev() {
        inodes.extend(writes_back(change));
        forced[position] = change.is_data() && change.inode().is_some_and(|ino| inodes.contains(&ino));
    }
    forced
}

/// Removes what a later change of the size, or a hole, takes from data that was never written back.
fn clip(data: Vec<DiskChange>, change: &DiskChange) -> Vec<DiskChange> {
    let (ino, hole) = match change {
        DiskChange::Resize { ino, size } => (*ino, *size..u64::MAX),
        DiskChange::Punch { ino, range } => (*ino, range.clone()),
        _ => return data,
    };
    let clipped = |write: DiskChange| match write.inode() == Some(ino) {
        true => without(&write, &hole),
        false => vec![write],
    };
    data.into_iter().flat_map(clipped).collect()
}

impl Rules for Ext4 {
    fn sync(&self, pending: &mut Vec<DiskChange>, durable: &mut Tree, ino: Ino, data_only: bool) {
        let last = pending.iter().rposition(|change| commits(change, ino, data_only));
        let committed = last.map_or(0, |position| position + 1);
        let forced = written_back(pending, committed);
        let mut left = Vec::new();
        for (position, change) in std::mem::take(pending).into_iter().enumerate() {
            let is_durable = match change.is_data() {
                true => change.inode() == Some(ino) || forced[position],
                false => position < committed,
            };
            if is_durable {
                durable.apply(&change);
                left = clip(left, &change);
            } else {
                left.push(change);
            }
        }
        *pending = left;
    }

    fn after_power_loss(
        &self,
        durable: &Tree,
        pending: &[DiskChange],
        fate: Fate,
        draws: &mut Draws,
    ) -> (Tree, Vec<usize>) {
        let committed = match fate {
            Fate::Nothing => 0,
            Fate::NamesOnly | Fate::Everything => pending.len(),
            Fate::Some => draws.below(pending.len() as u64 + 1) as usize,
        };
        let mut loss = Loss {
            tree: durable.clone(),
            fate,
            draws,
            ended: HashSet::new(),
            pages: HashMap::new(),
            freed: HashSet::new(),
        };
        let forced = written_back(pending, committed);
        let mut lost = Vec::new();
        for (position, change) in pending.iter().enumerate() {
            let in_journal = position < committed;
            let is_kept = match change {
                DiskChange::Write { .. } if forced[position] => {
                    loss.tree.apply(change);
                    true
                }
                DiskChange::Write { .. } => loss.data(change, in_journal),
                _ if in_journal => {
                    loss.tree.apply(change);
                    true
                }
                _ => {
                    loss.not_committed(change);
                    false
                }
            };
            if !is_kept {
                lost.push(position);
            }
        }
        loss.tree.collect();
        (loss.tree, lost)
    }
}

/// The tree that a power loss leaves, while it is built.
struct Loss<'a> {
    tree: Tree,
    fate: Fate,
    draws: &'a mut Draws,
    /// Files whose later new blocks were not allocated.
    ended: HashSet<Ino>,
    /// Pages of which a rewrite did not reach the disk.
    pages: HashMap<(Ino, u64), bool>,
    /// Files whose blocks a change that is not in the journal would have freed.
    freed: HashSet<Ino>,
}

impl Loss<'_> {
    /// Notes a change of metadata that is lost.
    fn not_committed(&mut self, change: &DiskChange) {
        if let DiskChange::Resize { ino, .. } | DiskChange::Punch { ino, .. } = change {
            self.freed.insert(*ino);
        }
    }

    /// Applies the part of a write that is on the disk. Returns true if that is all of it.
    fn data(&mut self, change: &DiskChange, in_journal: bool) -> bool {
        let DiskChange::Write { ino, offset, data, at_ns, .. } = change else { return true };
        let (ino, write) = (*ino, DataWrite { ino: *ino, offset: *offset, data, at_ns: *at_ns });
        let mut all = true;
        for part in write.pages() {
            let is_allocated = self
                .tree
                .content(ino)
                .is_some_and(|content| content.has_page(part.start) && part.end <= content.size());
            all &= match is_allocated {
                true => self.rewrite(write, part, in_journal),
                false if !in_journal || self.ends(ino) => false,
                false => {
                    write.apply_part(&mut self.tree, part);
                    true
                }
            };
        }
        all
    }

    /// Returns true if a file ends before new blocks, because the data was not written back.
    fn ends(&mut self, ino: Ino) -> bool {
        let ends = match self.fate {
            Fate::Everything => false,
            Fate::Nothing | Fate::NamesOnly => true,
            Fate::Some => self.ended.contains(&ino) || self.draws.chance(25),
        };
        if ends {
            self.ended.insert(ino);
        }
        ends
    }

    /// Applies a rewrite of allocated bytes in one page, as far as it is on the disk. Later rewrites of a page are on
    /// the disk only if the earlier ones are.
    fn rewrite(&mut self, write: DataWrite<'_>, part: std::ops::Range<u64>, in_journal: bool) -> bool {
        let ino = write.ino;
        let page = (ino, part.start / PAGE);
        let stale = self.pages.get(&page).copied().unwrap_or(false);
        let freed = !in_journal && self.freed.contains(&ino);
        let keep = match self.fate {
            Fate::Everything => true,
            Fate::Nothing | Fate::NamesOnly => false,
            Fate::Some => self.draws.chance(60),
        };
        if stale || freed || !keep {
            let torn = self.fate == Fate::Some && !stale && !freed && self.draws.chance(50);
            self.pages.insert(page, true);
            return torn && write.apply_sectors(&mut self.tree, part, self.draws);
        }
        write.apply_part(&mut self.tree, part);
        true
    }
}
