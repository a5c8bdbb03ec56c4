//! Attaches a disk to a directory by FUSE.
//!
//! The kernel passes each `write` on at once, because the mount does not use its write-back cache. Stores to mapped
//! memory arrive with `msync`, or when the kernel writes them back. `sync` and `syncfs` of programs with the filter of
//! [`WholeSyncs`] reach the disk. `sync_file_range` makes nothing durable, as on ext4, where it commits no metadata and
//! does not empty the cache of the medium.

mod attributes;
mod file_system;
mod shared;
mod whole_sync;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use crate::disk::Disk;
use file_system::FileSystem;
pub use shared::SharedDisk;
pub use whole_sync::{Filter, WholeSyncs};

/// Error of a mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel or its permissions do not allow a mount.
    #[error(
        "cannot mount a file system in {0}: {1}; run as root, or install fusermount3 (package fuse3) and allow \
         access to /dev/fuse"
    )]
    Mount(PathBuf, io::Error),
    /// The mount could not be removed.
    #[error("cannot unmount {0}: {1}")]
    Unmount(PathBuf, io::Error),
}

/// A mounted disk. It is unmounted when this value is dropped.
#[derive(Debug)]
pub struct Mounted {
    disk: SharedDisk,
    path: PathBuf,
    session: Option<BackgroundSession>,
}

/// Gives the calling thread private mounts, so that they end with the process, whatever ends it. Returns false
/// without the permission.
#[allow(unsafe_code)]
pub fn use_private_mounts() -> bool {
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // SAFETY: the mounts and the working directory become those of this thread; no file descriptor changes its meaning.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    unshared.is_ok() && mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).is_ok()
}

impl Mounted {
    /// Mounts a disk in an empty directory.
    ///
    /// # Errors
    /// [`MountError::Mount`] if the system does not allow it.
    pub fn new(disk: SharedDisk, path: &Path) -> Result<Mounted, MountError> {
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("plimsoll".into()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
            MountOption::NoSuid,
            MountOption::NoDev,
        ];
        // A server may run as another user.
        if rustix::process::geteuid().is_root() {
            config.acl = SessionACL::All;
        }
        let session = Session::new(FileSystem::new(disk.clone()), path, &config).and_then(Session::spawn);
        let session = session.map_err(|e| MountError::Mount(path.to_path_buf(), e))?;
        Ok(Mounted { disk, path: path.to_path_buf(), session: Some(session) })
    }

    /// Returns the disk.
    pub fn disk(&self) -> &SharedDisk {
        &self.disk
    }

    /// Unmounts the disk and returns its state.
    ///
    /// # Errors
    /// [`MountError::Unmount`] if the kernel refuses.
    pub fn unmount(mut self) -> Result<Disk, MountError> {
        self.detach()?;
        Ok(self.disk.lock().clone())
    }

    fn detach(&mut self) -> Result<(), MountError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        // A process that is about to end may still have a file open, so the mount is only detached.
        let detached = match unmount(&self.path, UnmountFlags::DETACH) {
            Err(rustix::io::Errno::PERM) => {
                let mut command = Command::new("fusermount3");
                command.args(["-u", "-z"]).arg(&self.path).stdin(Stdio::null()).stderr(Stdio::null());
                command.status().and_then(|status| match status.success() {
                    true => Ok(()),
                    false => Err(io::Error::other("fusermount3 failed")),
                })
            }
            other => other.map_err(io::Error::from),
        };
        drop(session);
        detached.map_err(|e| MountError::Unmount(self.path.clone(), e))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}
