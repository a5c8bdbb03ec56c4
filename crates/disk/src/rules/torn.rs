//! Writes of which only a part reached the disk.

use crate::content::{PAGE, SECTOR, split};
use crate::draws::Draws;
use crate::tree::Tree;
use std::ops::Range;

/// Applies a random selection of the sectors of `range`, a part of a write that starts at `offset`. Returns true if it
/// applied all of them.
pub fn apply_sectors(
    tree: &mut Tree,
    (ino, offset, data, at_ns): (u64, u64, &[u8], i64),
    range: Range<u64>,
    draws: &mut Draws,
) -> bool {
    let mut all = true;
    for sector in split(range, SECTOR) {
        if draws.chance(50) {
            apply_part(tree, (ino, offset, data, at_ns), sector);
        } else {
            all = false;
        }
    }
    all
}

/// Applies a part of a write that starts at `offset`.
pub fn apply_part(tree: &mut Tree, (ino, offset, data, at_ns): (u64, u64, &[u8], i64), range: Range<u64>) {
    tree.write(
        ino,
        range.start,
        &data[(range.start - offset) as usize..(range.end - offset) as usize],
        at_ns,
    );
}

/// Returns the parts of a write that lie in different pages.
pub fn pages(offset: u64, data: &[u8]) -> impl Iterator<Item = Range<u64>> {
    split(offset..offset + data.len() as u64, PAGE)
}
