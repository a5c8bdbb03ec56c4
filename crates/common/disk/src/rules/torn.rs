//! Writes of which only a part reached the disk.

use std::ops::Range;

use crate::change::Ino;
use crate::content::{PAGE, SECTOR, split};
use crate::draws::Draws;
use crate::tree::Tree;

/// A write of data.
#[derive(Debug, Clone, Copy)]
pub struct DataWrite<'a> {
    /// Inode of the file.
    pub ino: Ino,
    /// Offset of the first byte.
    pub offset: u64,
    /// Bytes of the write.
    pub data: &'a [u8],
    /// Time of the write, in nanoseconds since the Unix epoch.
    pub at_ns: i64,
}

impl DataWrite<'_> {
    /// Applies a part of the write.
    pub fn apply_part(self, tree: &mut Tree, range: Range<u64>) {
        let part = &self.data[(range.start - self.offset) as usize..(range.end - self.offset) as usize];
        tree.write(self.ino, range.start, part, self.at_ns);
    }

    /// Applies a random selection of the sectors of a part. Returns true if it applied all of them.
    pub fn apply_sectors(self, tree: &mut Tree, range: Range<u64>, draws: &mut Draws) -> bool {
        let mut all = true;
        for sector in split(range, SECTOR) {
            if draws.chance(50) {
                self.apply_part(tree, sector);
            } else {
                all = false;
            }
        }
        all
    }

    /// Returns the parts of the write that lie in different pages.
    pub fn pages(self) -> impl Iterator<Item = Range<u64>> {
        split(self.offset..self.offset + self.data.len() as u64, PAGE)
    }
}
