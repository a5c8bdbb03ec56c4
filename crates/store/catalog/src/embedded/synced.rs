//! The position up to which the log was synced, written after each sync and never synced itself. After the end of a
//! process it proves that a shorter log has lost acknowledged groups; after a power loss it may be older than the log.

use std::io::ErrorKind;
use std::sync::Arc;

use super::record::crc32c;
use super::segment::DIRECTORY;
use super::segment_list::Position;
use crate::disk::{Disk, DiskFile};

/// File name of the position.
pub const NAME: &str = "SYNCED";
/// Length of a slot in bytes: segment u32, offset u64, group u64, CRC-32C u32.
const SLOT: usize = 24;

fn encode(position: &Position) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    slot[..4].copy_from_slice(&position.segment.to_le_bytes());
    slot[4..12].copy_from_slice(&position.offset.to_le_bytes());
    slot[12..20].copy_from_slice(&position.group.to_le_bytes());
    let crc = crc32c(&slot[..20]);
    slot[20..].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn decode(slot: &[u8]) -> Option<Position> {
    let segment = u32::from_le_bytes(slot.get(..4)?.try_into().ok()?);
    let offset = u64::from_le_bytes(slot.get(4..12)?.try_into().ok()?);
    let group = u64::from_le_bytes(slot.get(12..20)?.try_into().ok()?);
    let position = Position { segment, offset, group };
    (encode(&position)[..] == *slot).then_some(position)
}

/// Reads the position; the start of the log if it is not known.
///
/// # Errors
/// If the disk fails.
pub fn load(disk: &dyn Disk) -> std::io::Result<Position> {
    let bytes = match crate::disk::read(disk, DIRECTORY, NAME) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Position::default()),
        bytes => bytes?,
    };
    // Damaged slots are no error: a power loss may leave anything in a file that is never synced. Positions only grow,
    // so the greatest intact one is the newest.
    Ok(bytes.chunks_exact(SLOT).filter_map(decode).max().unwrap_or_default())
}

/// Writer of the position. It fills two slots in turn, so that one is always intact.
pub struct SyncedMark {
    file: Arc<dyn DiskFile>,
    next: u64,
}

impl SyncedMark {
    /// Creates the file. The file of an earlier process is replaced.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(disk: &dyn Disk, position: &Position) -> std::io::Result<SyncedMark> {
        // The name is not synced either: without the file, the log alone says how long it is.
        let file = disk.create(DIRECTORY, NAME)?;
        let mut mark = SyncedMark { file, next: 0 };
        mark.set(position)?;
        Ok(mark)
    }

    /// Records that the log is synced up to a position. If the disk is full, the position is older, which is no error.
    ///
    /// # Errors
    /// If the disk takes no writes any more. The sync before may not have kept what it confirmed: ext4 confirms one
    /// during which it becomes read-only after an error.
    pub fn set(&mut self, position: &Position) -> std::io::Result<()> {
        let written = self.file.write_at(self.next * SLOT as u64, &encode(position));
        self.next = 1 - self.next;
        match written {
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Ok(()),
            written => written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_slot_leaves_the_position_before() {
        let (old, new) =
            (Position { segment: 1, offset: 50, group: 3 }, Position { segment: 1, offset: 80, group: 4 });
        let mut slots = [encode(&old), encode(&new)];
        let newest = |slots: &[[u8; SLOT]; 2]| slots.iter().filter_map(|slot| decode(slot)).max();
        assert_eq!(newest(&slots), Some(new));
        for byte in 0..SLOT {
            let intact = slots[1][byte];
            slots[1][byte] ^= 1;
            assert_eq!(newest(&slots), Some(old), "byte {byte}");
            slots[1][byte] = intact;
        }
    }
}
