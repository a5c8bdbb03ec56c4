//! The disk of the operating system.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskFile};

/// A directory of the file system.
pub struct RealDisk {
    root: PathBuf,
}

/// Creates a directory and its missing parents, and makes their entries durable.
///
/// # Errors
/// If a directory cannot be created.
pub fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if path.exists() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_directory(parent)?;
    std::fs::create_dir(path)?;
    File::open(parent)?.sync_all()
}

impl RealDisk {
    /// Creates the directory `root` if it does not exist, and makes its entry durable.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn new(root: &Path) -> io::Result<RealDisk> {
        create_directory(root)?;
        Ok(RealDisk { root: root.to_path_buf() })
    }

    fn path(&self, directory: &str, name: &str) -> PathBuf {
        self.root.join(directory).join(name)
    }
}

impl DiskFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

impl Disk for RealDisk {
    fn create(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.root.join(directory);
        create_directory(&path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Arc::new(options.open(self.path(directory, name))?))
    }

    fn open(&self, directory: &str, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(self.path(directory, name))?))
    }

    fn rename(&self, directory: &str, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(directory, from), self.path(directory, to))
    }

    fn remove(&self, directory: &str, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path(directory, name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.root.join(directory)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        File::open(self.root.join(directory))?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.root)?;
        Ok(stat.f_bavail * stat.f_frsize)
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
