//! The operations that the catalog needs from a disk, and their order: a file and its directory entry are durable only
//! after both were synced.

pub mod ballast;
pub mod real;

use std::io;
use std::sync::Arc;

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes all bytes at an offset. The bytes are durable after [`DiskFile::sync`].
    ///
    /// # Errors
    /// If the write fails; some bytes may then be written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills the buffer with the bytes at an offset.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Makes the content and the length of the file durable.
    ///
    /// # Errors
    /// If the disk reports an error. The state of unsynced bytes is then unknown, so a second attempt proves nothing.
    fn sync(&self) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// If the file system fails.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if the file has no bytes.
    ///
    /// # Errors
    /// If the file system fails.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file to a length.
    ///
    /// # Errors
    /// If the file system fails.
    fn truncate(&self, length: u64) -> io::Result<()>;
}

/// A directory tree of one level: `directory/name`.
pub trait Disk: Send + Sync {
    /// Creates an empty file, replacing an existing one. Its entry is durable after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// If the file system fails.
    fn create(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    fn open(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file within its directory, replacing an existing one.
    ///
    /// # Errors
    /// If the file system fails.
    fn rename(&self, directory: &str, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; a missing one is not an error.
    ///
    /// # Errors
    /// If the file system fails.
    fn remove(&self, directory: &str, name: &str) -> io::Result<()>;

    /// Returns the names of the files in a directory; none if it does not exist.
    ///
    /// # Errors
    /// If the file system fails.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// If the disk reports an error.
    fn sync_directory(&self, directory: &str) -> io::Result<()>;

    /// Returns the number of bytes that can still be written.
    ///
    /// # Errors
    /// If the file system fails.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Returns random bits that nobody can predict.
    ///
    /// # Errors
    /// If the system has no source of random numbers.
    fn random(&self) -> io::Result<u64>;
}

/// Reads a whole file.
///
/// # Errors
/// If the file does not exist or cannot be read.
pub fn read(disk: &dyn Disk, directory: &str, name: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(directory, name)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Replaces a file so that after a crash it has either its old or its new content.
///
/// # Errors
/// If the file system fails.
pub fn replace(disk: &dyn Disk, directory: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.new");
    let file = disk.create(directory, &temporary)?;
    file.write_at(0, bytes)?;
    // Before the rename: after a power loss, the name could refer to a file without its bytes.
    file.sync()?;
    disk.rename(directory, &temporary, name)?;
    // The caller may now delete what only the old content names. A power loss must not bring that content back.
    disk.sync_directory(directory)
}
