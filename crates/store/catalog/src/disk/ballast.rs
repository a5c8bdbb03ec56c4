//! Space that is given up when the disk is full, so that the store still starts and clients can delete objects.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Name of the file in the data directory.
pub const FILE_NAME: &str = "ballast";
/// Largest size in bytes. A start after a kill writes at most four tables of about 10 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Bytes to give up at a time. The file system may hand them to any process.
const STEP: u64 = 1 << 20;

/// A file whose only purpose is its space.
pub struct Ballast {
    path: PathBuf,
    /// False if the file is not complete and there may be space for it later.
    is_complete: AtomicBool,
}

/// Returns true if a file system, or the quota of a user, has no space left.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl Ballast {
    /// Returns the ballast of a directory. The file may exist from an earlier process.
    pub fn new(root: &Path) -> Ballast {
        Ballast { path: root.join(FILE_NAME), is_complete: AtomicBool::new(false) }
    }

    /// Writes; while the disk is full, gives up a part of the ballast and writes again.
    ///
    /// # Errors
    /// If the write fails, or the disk is full and there is no ballast.
    pub fn or_give_up<T>(&self, write: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            // This ends: each turn makes the file shorter or removes it, or has nothing to give up.
            match write() {
                Err(error) if is_full(&error) && self.give_up().is_some() => {}
                result => return result,
            }
        }
    }

    /// Makes the file shorter, or removes it if that fails.
    fn give_up(&self) -> Option<()> {
        // First, also if the rest fails: the maintenance then allocates the space again when there is some.
        self.is_complete.store(false, Ordering::Release);
        let length = self.path.metadata().ok()?.len();
        let file = OpenOptions::new().write(true).open(&self.path).ok()?;
        // An empty file has nothing to give up: then the error of the write counts.
        let shorter = file.set_len(length.checked_sub(1)? / STEP * STEP);
        shorter.or_else(|_| std::fs::remove_file(&self.path)).ok()
    }

    /// Allocates the file: half of `reserve` bytes, at most 64 MiB, while `free` bytes are enough for both. File
    /// systems without allocation get none.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn hold(&self, reserve: u64, free: u64) -> io::Result<()> {
        let bytes = (reserve / 2).min(MAX_BYTES);
        let length = self.path.metadata().map_or(0, |file| file.len());
        // The ballast must not take what the reserve needs: writes would fail because of it.
        if length < bytes && free < reserve.saturating_add(bytes - length) {
            return Ok(());
        }
        // After an error, the next attempt follows when a part is given up, or at the next start.
        self.is_complete.store(true, Ordering::Release);
        if length < bytes {
            // Not truncated: a part that is still held stays, and no other process can take its space.
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
            // Allocated, and not only made longer: a file with holes has no space to give up.
            match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
                Err(Errno::OPNOTSUPP) => std::fs::remove_file(&self.path)?,
                allocated => allocated?,
            }
        }
        Ok(())
    }

    /// Returns true if the file is not complete and there may be space for it.
    pub fn is_incomplete(&self) -> bool {
        !self.is_complete.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use plimsoll_testing::directory::TempDir;

    #[test]
    fn the_ballast_is_given_up_in_steps_and_allocated_again_only_if_there_is_space() {
        let dir = TempDir::new("ballast");
        let ballast = Ballast::new(dir.path());
        let file = dir.path().join(FILE_NAME);
        let length = || file.metadata().map_or(0, |file| file.len());
        ballast.hold(5 * STEP, 7 * STEP).unwrap();
        assert!(!file.exists() && ballast.is_incomplete());
        ballast.hold(5 * STEP, 5 * STEP + 5 * STEP / 2).unwrap();
        assert_eq!(length(), 5 * STEP / 2);
        assert!(!ballast.is_incomplete());
        let attempts = Cell::new(0);
        let write = || {
            attempts.set(attempts.get() + 1);
            if length() > STEP { Err(io::Error::from(ErrorKind::QuotaExceeded)) } else { Ok(()) }
        };
        ballast.or_give_up(write).unwrap();
        assert_eq!((attempts.get(), length()), (3, STEP));
        assert!(ballast.or_give_up(|| Err::<(), _>(io::Error::other("broken"))).is_err());
        assert_eq!(length(), STEP, "an error other than a full disk costs no ballast");
        let full = || Err::<(), _>(io::Error::from(ErrorKind::StorageFull));
        assert!(is_full(&ballast.or_give_up(full).unwrap_err()));
        assert!(length() == 0 && ballast.is_incomplete());
        ballast.hold(5 * STEP, u64::MAX).unwrap();
        assert!(length() == 5 * STEP / 2 && !ballast.is_incomplete());
    }
}
