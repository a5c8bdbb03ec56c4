//! The operations of a disk as the kernel requests them.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::attributes::{answer, attributes, error, file_type, nanoseconds, new_attributes};
use super::shared::SharedDisk;
use crate::change::{DirectoryEntry, NewKind};
use crate::disk::{MAX_EXTENDED, Replace, now_ns};
use crate::tree::InodeContent;

/// Time for which the kernel may keep what it knows. Nothing else changes the disk.
const FOREVER: Duration = Duration::from_secs(1 << 30);
/// Greatest size of one write, in bytes.
const MAX_WRITE: u32 = 1 << 20;

/// Entries of a directory, with their inodes.
type Entries = Vec<(OsString, u64)>;

/// The disk as FUSE sees it.
pub struct FileSystem {
    disk: SharedDisk,
    /// Entries of the open directories by their handles, as they were when the program began to read them: a removal
    /// meanwhile must not make it miss another entry.
    listings: Mutex<HashMap<u64, Entries>>,
    next_handle: AtomicU64,
}

impl FileSystem {
    /// Returns the file system of a disk.
    pub fn new(disk: SharedDisk) -> FileSystem {
        FileSystem { disk, listings: Mutex::default(), next_handle: AtomicU64::new(1) }
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<u64, Entries>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_entry(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: NewKind,
        mode: u32,
        reply: ReplyEntry,
    ) {
        let mut disk = self.disk.lock();
        let created = disk.create(parent.0, name, kind, new_attributes(request, mode));
        match created.and_then(|ino| attributes(&disk, ino)) {
            Ok(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            Err(errno) => reply.error(error(errno)),
        }
        drop(disk);
        self.disk.notice();
    }

    fn sync(&self, ino: u64, data_only: bool, reply: ReplyEmpty) {
        let mut disk = self.disk.lock();
        let takes = disk.sync_takes();
        match disk.begin_sync(ino) {
            Err(errno) => reply.error(error(errno)),
            Ok(count) if takes.is_zero() => {
                disk.end_sync(ino, data_only, count);
                reply.ok();
            }
            Ok(count) => {
                let shared = self.disk.clone();
                std::thread::spawn(move || {
                    let failed = shared.wait_for_failure(takes);
                    shared.lock().end_sync(ino, data_only, count);
                    match failed {
                        true => reply.error(Errno::EIO),
                        false => reply.ok(),
                    }
                });
            }
        }
        drop(disk);
        self.disk.notice();
    }

    fn open(&self, ino: INodeNo, reply: ReplyOpen) {
        let mut disk = self.disk.lock();
        match disk.inode(ino.0) {
            Ok(_) => {
                disk.opened(ino.0);
                let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
                reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(errno) => reply.error(error(errno)),
        }
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(MAX_WRITE);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = self.disk.lock();
        match disk.lookup(parent.0, name).and_then(|ino| attributes(&disk, ino)) {
            Ok(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(&self.disk.lock(), ino.0) {
            Ok(attributes) => reply.attr(&FOREVER, &attributes),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk.lock();
        let resized = size.map_or(Ok(()), |size| disk.resize(ino.0, size));
        let set = resized.and_then(|()| {
            disk.set(ino.0, |of| {
                of.mode = mode.map_or(of.mode, |mode| mode & 0o7777);
                of.uid = uid.unwrap_or(of.uid);
                of.gid = gid.unwrap_or(of.gid);
                of.atime_ns = atime.map_or(of.atime_ns, nanoseconds);
                of.mtime_ns = mtime.map_or(if size.is_some() { now_ns() } else { of.mtime_ns }, nanoseconds);
                of.ctime_ns = now_ns();
            })
        });
        match set.and_then(|()| attributes(&disk, ino.0)) {
            Ok(attributes) => reply.attr(&FOREVER, &attributes),
            Err(errno) => reply.error(error(errno)),
        }
        drop(disk);
        self.disk.notice();
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.disk.lock().inode(ino.0).map(|inode| &inode.kind) {
            Ok(InodeContent::Symlink(target)) => reply.data(target.as_encoded_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = match rustix::fs::FileType::from_raw_mode(mode) {
            rustix::fs::FileType::RegularFile => NewKind::File,
            _ => NewKind::Special(mode & !0o7777, rdev),
        };
        self.new_entry(request, parent, name, kind, mode & !umask, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.new_entry(request, parent, name, NewKind::Directory, mode & !umask, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let kind = NewKind::Symlink(target.as_os_str().into());
        self.new_entry(request, parent, name, kind, 0o777, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.disk.lock().unlink(parent.0, name, false);
        answer(reply, result);
        self.disk.notice();
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.disk.lock().unlink(parent.0, name, true);
        answer(reply, result);
        self.disk.notice();
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let replace = match flags {
            RenameFlags::RENAME_NOREPLACE => Replace::No,
            RenameFlags::RENAME_EXCHANGE => Replace::Exchange,
            flags if flags.is_empty() => Replace::Yes,
            _ => return reply.error(Errno::EINVAL),
        };
        let result = {
            let entry = |at: INodeNo, name: &OsStr| DirectoryEntry { parent: at.0, name: name.into() };
            self.disk.lock().rename(&entry(parent, name), &entry(to, new_name), replace)
        };
        answer(reply, result);
        self.disk.notice();
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut disk = self.disk.lock();
        match disk.link(ino.0, parent.0, name).and_then(|()| attributes(&disk, ino.0)) {
            Ok(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            Err(errno) => reply.error(error(errno)),
        }
        drop(disk);
        self.disk.notice();
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        FileSystem::open(self, ino, reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut disk = self.disk.lock();
        let of = new_attributes(request, mode & !umask);
        match disk.create(parent.0, name, NewKind::File, of).and_then(|ino| attributes(&disk, ino)) {
            Ok(attributes) => {
                disk.opened(attributes.ino.0);
                reply.created(
                    &FOREVER,
                    &attributes,
                    Generation(0),
                    FileHandle(0),
                    FopenFlags::FOPEN_KEEP_CACHE,
                );
            }
            Err(errno) => reply.error(error(errno)),
        }
        drop(disk);
        self.disk.notice();
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk.lock().read(ino.0, offset, u64::from(size)) {
            Ok(data) => reply.data(&data),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The flags of a write from the page cache are those of any handle. The kernel syncs after such a write itself.
        let is_cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let synchronous = !is_cached && flags.0 & rustix::fs::OFlags::DSYNC.bits() as i32 != 0;
        match self.disk.lock().write(ino.0, offset, data, synchronous) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(error(errno)),
        }
        self.disk.notice();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.disk.lock().closed(ino.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.sync(ino.0, datasync, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        FileSystem::open(self, ino, reply);
    }

    fn releasedir(&self, _: &Request, ino: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings().remove(&handle.0);
        self.disk.lock().closed(ino.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.sync(ino.0, datasync, reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let disk = self.disk.lock();
        let mut listings = self.listings();
        if offset == 0 || !listings.contains_key(&handle.0) {
            let dots = [(".".into(), ino.0), ("..".into(), ino.0)];
            match disk.list(ino.0) {
                Ok(entries) => listings.insert(handle.0, dots.into_iter().chain(entries).collect()),
                Err(errno) => return reply.error(error(errno)),
            };
        }
        let entries = listings.get(&handle.0).into_iter().flatten();
        for (position, (name, child)) in entries.enumerate().skip(offset as usize) {
            let kind = disk.inode(*child).map_or(FileType::RegularFile, file_type);
            if reply.add(INodeNo(*child), position as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (capacity, used) = self.disk.lock().space();
        let free = (capacity - used) / 4096;
        reply.statfs(capacity / 4096, free, free, 1 << 20, 1 << 20, 4096, 255, 4096);
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        use rustix::fs::XattrFlags;
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let mut disk = self.disk.lock();
        let exists = disk.inode(ino.0).is_ok_and(|inode| inode.attributes.extended.contains_key(name));
        if flags.contains(XattrFlags::CREATE) && exists {
            return reply.error(Errno::EEXIST);
        }
        if flags.contains(XattrFlags::REPLACE) && !exists {
            return reply.error(Errno::ENODATA);
        }
        if value.len() > MAX_EXTENDED {
            return reply.error(Errno::E2BIG);
        }
        let set = disk.set(ino.0, |of| {
            of.extended.insert(name.into(), value.to_vec());
        });
        answer(reply, set);
        drop(disk);
        self.disk.notice();
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let disk = self.disk.lock();
        match disk.inode(ino.0).map(|inode| inode.attributes.extended.get(name)) {
            Ok(Some(value)) if size == 0 => reply.size(value.len() as u32),
            Ok(Some(value)) if value.len() > size as usize => reply.error(Errno::ERANGE),
            Ok(Some(value)) => reply.data(value),
            Ok(None) => reply.error(Errno::ENODATA),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let disk = self.disk.lock();
        let names = disk.inode(ino.0).map(|inode| {
            let name = |name: &OsString| [name.as_encoded_bytes(), b"\0"].concat();
            inode.attributes.extended.keys().flat_map(name).collect::<Vec<u8>>()
        });
        match names {
            Ok(names) if size == 0 => reply.size(names.len() as u32),
            Ok(names) if names.len() > size as usize => reply.error(Errno::ERANGE),
            Ok(names) => reply.data(&names),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut disk = self.disk.lock();
        match disk.inode(ino.0).map(|inode| inode.attributes.extended.contains_key(name)) {
            Ok(true) => {
                let removed = disk.set(ino.0, |of| {
                    of.extended.remove(name);
                });
                answer(reply, removed);
            }
            Ok(false) => reply.error(Errno::ENODATA),
            Err(errno) => reply.error(error(errno)),
        }
        drop(disk);
        self.disk.notice();
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        use rustix::fs::FallocateFlags;
        let Some(end) = offset.checked_add(length) else { return reply.error(Errno::EFBIG) };
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let keep_size = flags.contains(FallocateFlags::KEEP_SIZE);
        let mut disk = self.disk.lock();
        let size = disk.tree().content(ino.0).map_or(0, |content| content.size());
        let done = match flags - FallocateFlags::KEEP_SIZE {
            flags if flags.is_empty() => disk.allocate(ino.0, offset..end, keep_size),
            FallocateFlags::PUNCH_HOLE => disk.punch(ino.0, offset..end, false),
            FallocateFlags::ZERO_RANGE => disk
                .punch(ino.0, offset..end.min(size.max(offset)), true)
                .and_then(|()| disk.allocate(ino.0, offset..end, keep_size)),
            _ => Err(rustix::io::Errno::OPNOTSUPP),
        };
        answer(reply, done);
        drop(disk);
        self.disk.notice();
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        // SEEK_DATA is 3 and SEEK_HOLE is 4 on Linux; the kernel answers all others itself.
        let disk = self.disk.lock();
        let found =
            disk.tree().content(ino.0).and_then(|content| content.seek(offset.max(0) as u64, whence == 3));
        match found {
            Some(at) if whence == 3 || whence == 4 => reply.offset(at as i64),
            Some(_) => reply.error(Errno::EINVAL),
            None => reply.error(Errno::ENXIO),
        }
    }
}
