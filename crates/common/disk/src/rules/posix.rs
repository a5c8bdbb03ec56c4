//! Promises of POSIX, and nothing more.
//!
//! - `fsync` of a file keeps its data and attributes, `fdatasync` its data and size (POSIX.1-2024, `fsync` and
//!   `fdatasync`). Neither keeps its name: for that, a program syncs the directory (fsync(2): "an explicit fsync() on a
//!   file descriptor for the directory is also needed").
//! - Changes without a sync are lost or kept independently of each other, in any order; data also in part, sector by
//!   sector.
//! - A rename is atomic: after a power loss an entry has its old inode or its new one. POSIX requires this of running
//!   programs only; no server is prepared for a file system without it.

use super::torn::DataWrite;
use super::{Fate, Rules};
use crate::change::{DiskChange, Ino};
use crate::draws::Draws;
use crate::tree::Tree;

/// Rules of POSIX.
pub struct Posix;

/// Returns true if a sync of the inode makes this change durable.
fn is_synced(change: &DiskChange, ino: Ino, data_only: bool) -> bool {
    match change {
        DiskChange::Set { ino: of, .. } => *of == ino && !data_only,
        _ => change.inode() == Some(ino) || change.is_in(ino),
    }
}

impl Rules for Posix {
    fn sync(&self, pending: &mut Vec<DiskChange>, durable: &mut Tree, ino: Ino, data_only: bool) {
        let mut left = Vec::new();
        for change in std::mem::take(pending) {
            if !is_synced(&change, ino, data_only) {
                left.push(change);
                continue;
            }
            settle(&mut left, durable, &change);
            durable.apply(&change);
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
        let (mut tree, mut lost) = (durable.clone(), Vec::new());
        for (position, change) in pending.iter().enumerate() {
            let is_kept = match (change, fate) {
                (_, Fate::Everything) | (DiskChange::New { .. }, _) => true,
                (_, Fate::Nothing) => false,
                (DiskChange::Write { .. }, Fate::NamesOnly) => false,
                (_, Fate::NamesOnly) => true,
                (DiskChange::Write { ino, offset, data, at_ns, .. }, Fate::Some) => {
                    let write = DataWrite { ino: *ino, offset: *offset, data, at_ns: *at_ns };
                    if !some_of(&mut tree, write, draws) {
                        lost.push(position);
                    }
                    continue;
                }
                (_, Fate::Some) => draws.chance(60),
            };
            match is_kept {
                true => tree.apply(change),
                false => lost.push(position),
            }
        }
        tree.collect();
        (tree, lost)
    }
}

/// Settles the earlier changes that a durable change needs or replaces: the inode of a new entry, earlier moves of its
/// entries, and everything else that happened to these entries.
fn settle(left: &mut Vec<DiskChange>, durable: &mut Tree, change: &DiskChange) {
    let entries = change.entries();
    if let DiskChange::Link { ino: of, .. } | DiskChange::Rename { ino: of, .. } = change {
        let is_needed = |other: &DiskChange| matches!(other, DiskChange::New { ino, .. } if ino == of);
        if let Some(position) = left.iter().position(is_needed) {
            durable.apply(&left.remove(position));
        }
    }
    left.retain(|other| {
        let shares = other.entries().iter().any(|entry| entries.contains(entry));
        if shares && matches!(other, DiskChange::Rename { .. }) {
            durable.apply(other);
        }
        !shares
    });
}

/// Applies a random part of a write. Returns true if that is all of it.
fn some_of(tree: &mut Tree, write: DataWrite<'_>, draws: &mut Draws) -> bool {
    let mut all = true;
    for part in write.pages() {
        all &= match draws.below(10) {
            0..6 => {
                write.apply_part(tree, part);
                true
            }
            6..8 => write.apply_sectors(tree, part, draws),
            _ => false,
        };
    }
    all
}
