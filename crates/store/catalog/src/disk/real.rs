//! The disk of the operating system.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::ballast::Ballast;
use super::{Disk, DiskFile};

/// A directory of the file system.
pub struct RealDisk {
    root: PathBuf,
    ballast: Arc<Ballast>,
}

/// A file of a [`RealDisk`].
struct RealFile {
    file: File,
    ballast: Arc<Ballast>,
}

/// Returns the free bytes of the file system of a directory.
///
/// # Errors
/// If the directory does not exist.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(directory)?;
    // Without the blocks that only root may use.
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Creates a directory and its missing parents, and makes their entries durable.
///
/// # Errors
/// If a directory cannot be created.
pub fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // Else the creation would fail with `AlreadyExists`, which hides the reason.
    if path.exists() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // The parent of a relative path with one component is empty, and cannot be opened.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_directory(parent)?;
    // Another thread may have created it meanwhile.
    std::fs::create_dir(path).or_else(|error| if path.is_dir() { Ok(()) } else { Err(error) })?;
    // A power loss could otherwise remove the directory with the synced files in it.
    File::open(parent)?.sync_all()
}

impl RealDisk {
    /// Creates the directory `root` if it does not exist, and makes its entry durable.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn new(root: &Path) -> io::Result<RealDisk> {
        create_directory(root)?;
        Ok(RealDisk { root: root.to_path_buf(), ballast: Arc::new(Ballast::new(root)) })
    }

    /// Returns the space that is given up when the disk is full.
    pub fn ballast(&self) -> &Arc<Ballast> {
        &self.ballast
    }

    fn file(&self, file: File) -> Arc<dyn DiskFile> {
        Arc::new(RealFile { file, ballast: Arc::clone(&self.ballast) })
    }

    fn path(&self, directory: &str, name: &str) -> PathBuf {
        self.root.join(directory).join(name)
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.ballast.or_give_up(|| self.file.write_all_at(bytes, offset))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync writes the length as well, if a read needs it. Times of the file are not needed.
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}

impl Disk for RealDisk {
    fn create(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.root.join(directory);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        // On a full disk, the directory may have no space for a further entry.
        let create = || create_directory(&path).and_then(|()| options.open(path.join(name)));
        Ok(self.file(self.ballast.or_give_up(create)?))
    }

    fn open(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(OpenOptions::new().read(true).write(true).open(self.path(directory, name))?))
    }

    fn rename(&self, directory: &str, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path(directory, from), self.path(directory, to));
        self.ballast.or_give_up(|| std::fs::rename(&from, &to))
    }

    fn remove(&self, directory: &str, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path(directory, name)) {
            // An attempt that was cut off may have removed it, and the next one must succeed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.root.join(directory)) {
            // In a new catalog, the first file creates its directory.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        File::open(self.root.join(directory))?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.root)
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // Secret: with a known salt, clients could write bytes that look like a group of the log (decision 0022).
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Reads the next bytes of a file, at most `length`.
///
/// # Errors
/// If the file cannot be read.
pub fn read_some(file: &mut File, length: usize) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(length);
    // The last part of a file is shorter, which is no error.
    Read::read_to_end(&mut Read::take(file, length as u64), &mut bytes)?;
    Ok(bytes.into())
}
