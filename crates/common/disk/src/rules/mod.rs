//! The rules by which file systems make changes durable, one file for each.

mod ext4;
mod posix;
mod torn;

pub use ext4::Ext4;
pub use posix::Posix;

use crate::change::{DiskChange, Ino};
use crate::draws::Draws;
use crate::tree::Tree;

/// Rules of a file system.
pub trait Rules: Send + Sync {
    /// Applies the changes that a sync of an inode makes durable to the durable tree, and removes them from the pending
    /// changes. With `data_only`, the sync is an `fdatasync`.
    fn sync(&self, pending: &mut Vec<DiskChange>, durable: &mut Tree, ino: Ino, data_only: bool);

    /// Returns a tree that a power loss may leave, and the positions of the pending changes that it does not have or
    /// has only in part.
    fn after_power_loss(
        &self,
        durable: &Tree,
        pending: &[DiskChange],
        fate: Fate,
        draws: &mut Draws,
    ) -> (Tree, Vec<usize>);
}

/// Name of a file system's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// ext4 with its default mount options.
    Ext4,
    /// The promises of POSIX alone.
    Posix,
}

impl Model {
    /// All models with their names.
    pub const ALL: [Model; 2] = [Model::Ext4, Model::Posix];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Model::Ext4 => "ext4",
            Model::Posix => "posix",
        }
    }

    /// Returns the rules.
    pub fn rules(self) -> &'static dyn Rules {
        match self {
            Model::Ext4 => &Ext4,
            Model::Posix => &Posix,
        }
    }
}

/// Fate of the changes that nobody synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// None of them is on the disk.
    Nothing,
    /// Names, sizes and attributes are on the disk, and as little of the data as the rules allow.
    NamesOnly,
    /// A random selection that the rules allow.
    Some,
    /// All of them are on the disk, as after the end of the process alone.
    Everything,
}

impl Fate {
    /// Draws a fate.
    pub fn draw(draws: &mut Draws) -> Fate {
        match draws.below(10) {
            0..3 => Fate::Nothing,
            3..5 => Fate::NamesOnly,
            5 => Fate::Everything,
            _ => Fate::Some,
        }
    }
}
