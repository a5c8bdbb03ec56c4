//! Attributes and errors in the form of FUSE.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyEmpty, Request, TimeOrNow};

use crate::change::Attributes;
use crate::disk::{Disk, now_ns};
use crate::tree::{Inode, InodeContent};

pub fn error(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

fn time(ns: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns.max(0) as u64)
}

pub fn nanoseconds(time: TimeOrNow) -> i64 {
    match time {
        TimeOrNow::Now => now_ns(),
        TimeOrNow::SpecificTime(at) => {
            at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
        }
    }
}

pub fn file_type(inode: &Inode) -> FileType {
    match inode.kind {
        InodeContent::File(_) => FileType::RegularFile,
        InodeContent::Directory(_) => FileType::Directory,
        InodeContent::Symlink(_) => FileType::Symlink,
        InodeContent::Special(of, _) => match rustix::fs::FileType::from_raw_mode(of) {
            rustix::fs::FileType::Socket => FileType::Socket,
            rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
            rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
            _ => FileType::NamedPipe,
        },
    }
}

pub fn attributes(disk: &Disk, ino: u64) -> Result<FileAttr, rustix::io::Errno> {
    let inode = disk.inode(ino)?;
    let size = match &inode.kind {
        InodeContent::File(content) => content.size(),
        InodeContent::Symlink(target) => target.len() as u64,
        _ => 4096,
    };
    let rdev = if let InodeContent::Special(_, device) = inode.kind { device } else { 0 };
    let of = &inode.attributes;
    Ok(FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: disk.blocks(ino),
        atime: time(of.atime_ns),
        mtime: time(of.mtime_ns),
        ctime: time(of.ctime_ns),
        crtime: UNIX_EPOCH,
        kind: file_type(inode),
        perm: (of.mode & 0o7777) as u16,
        nlink: inode.links,
        uid: of.uid,
        gid: of.gid,
        rdev,
        blksize: 4096,
        flags: 0,
    })
}

/// Returns the attributes of a new inode.
pub fn new_attributes(request: &Request, mode: u32) -> Attributes {
    let now = now_ns();
    Attributes {
        mode: mode & 0o7777,
        uid: request.uid(),
        gid: request.gid(),
        atime_ns: now,
        mtime_ns: now,
        ctime_ns: now,
        ..Attributes::default()
    }
}

/// Answers a request without a value.
pub fn answer(reply: ReplyEmpty, result: Result<(), rustix::io::Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(error(errno)),
    }
}
