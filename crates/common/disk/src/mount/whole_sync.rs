//! `sync` and `syncfs` of a program. The kernel does not pass them to a file system in user space, so a filter of the
//! program's system calls does (seccomp_unotify(2)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::{Mounted, SharedDisk};

/// Architecture of system calls (`AUDIT_ARCH_*`, `linux/audit.h`); 0 for none that the filter knows.
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else {
    0
};
/// Offset of the architecture in `struct seccomp_data`.
const AT_ARCHITECTURE: u32 = 4;
/// Offset of the number of the system call in `struct seccomp_data`.
const AT_NUMBER: u32 = 0;

/// Takes the syncs of whole file systems from a program that is about to start.
#[derive(Debug)]
pub struct WholeSyncs {
    parent: OwnedFd,
    child: OwnedFd,
    disk: SharedDisk,
    /// Root of the mounted disk.
    root: OwnedFd,
    /// Device number of the mounted disk.
    device: u64,
}

/// Sends the listener of a filter to the parent process.
#[derive(Debug)]
pub struct Filter(OwnedFd);

impl WholeSyncs {
    /// Prepares a filter for a program that has not started yet: later, the power of the disk may have failed.
    ///
    /// # Errors
    /// Without more file descriptors, or if the root of the disk cannot be opened.
    pub fn new(mounted: &Mounted) -> io::Result<WholeSyncs> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&mounted.path, flags, Mode::empty())?;
        let device = rustix::fs::fstat(&root)?.st_dev;
        let (parent, child) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        Ok(WholeSyncs { parent, child, disk: mounted.disk.clone(), root, device })
    }

    /// Returns the filter for the program.
    ///
    /// # Errors
    /// Without more file descriptors.
    pub fn filter(&self) -> io::Result<Filter> {
        Ok(Filter(self.child.try_clone()?))
    }

    /// Answers the syncs of a program that has started, and of its descendants, until the last of them ends: they reach
    /// the mounted disk. The command of the program must be dropped before, with its filter. Returns false if the
    /// system does not allow the filter.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn serve(self, _started: &Child) -> io::Result<bool> {
        let WholeSyncs { parent, child, disk, root, device } = self;
        drop(child);
        let Some(listener) = receive(&parent)? else { return Ok(false) };
        let server = Server { listener, disk, root, device };
        std::thread::Builder::new().name("syncs".into()).spawn(move || server.run())?;
        Ok(true)
    }
}

impl Filter {
    /// Installs the filter in the calling process, and sends its listener to the parent. It only makes system calls, so
    /// it may run between fork and exec. On a system that does not allow the filter, it does nothing.
    pub fn install(&self) {
        if let Some(listener) = install() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut message = SendAncillaryBuffer::new(&mut space);
            let listeners = [listener.as_fd()];
            message.push(SendAncillaryMessage::ScmRights(&listeners));
            let _ = sendmsg(&self.0, &[IoSlice::new(b"l")], &mut message, SendFlags::NOSIGNAL);
        }
    }
}

/// Adds a filter that asks a listener about `sync` and `syncfs`, and returns the listener.
#[allow(unsafe_code)]
fn install() -> Option<OwnedFd> {
    if ARCHITECTURE == 0 {
        return None;
    }
    let load = |at| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, [0, 0]);
    let equal = |value, jumps| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, jumps);
    let answer = |value| instruction(libc::BPF_RET | libc::BPF_K, value, [0, 0]);
    let mut program = [
        load(AT_ARCHITECTURE),
        equal(ARCHITECTURE, [0, 3]),
        load(AT_NUMBER),
        equal(libc::SYS_sync as u32, [2, 0]),
        equal(libc::SYS_syncfs as u32, [1, 0]),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_USER_NOTIF),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the arguments are those of seccomp(2), and the program outlives the call.
    let add = || unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    let mut listener = add();
    if listener < 0 {
        // Without CAP_SYS_ADMIN, a filter must not outlive a change of privileges.
        let _ = rustix::thread::set_no_new_privs(true);
        listener = add();
    }
    // SAFETY: the kernel has just opened this file descriptor for us.
    (listener >= 0).then(|| unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

fn instruction(code: u32, value: u32, jumps: [u8; 2]) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: jumps[0], jf: jumps[1], k: value }
}

/// Receives a listener; `None` if the program has started without one.
fn receive(parent: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut message, mut byte) = (RecvAncillaryBuffer::new(&mut space), [0]);
    recvmsg(parent, &mut [IoSliceMut::new(&mut byte)], &mut message, RecvFlags::CMSG_CLOEXEC)?;
    Ok(message.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut listeners) => listeners.next(),
        _ => None,
    }))
}

/// Answers the system calls that a filter passes on.
struct Server {
    listener: OwnedFd,
    disk: SharedDisk,
    /// Root of the mounted disk.
    root: OwnedFd,
    /// Device number of the mounted disk.
    device: u64,
}

impl Server {
    fn run(&self) {
        while self.waits_for_a_call() {
            let Some(call) = self.receive() else { continue };
            let is_syncfs = call.data.nr == libc::SYS_syncfs as i32;
            let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags: 0 };
            if is_syncfs && !self.is_of_disk(call.pid, call.data.args[0] as i32) {
                // Another file system, or no file: the kernel knows the answer.
                answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            } else if let Err(error) = self.sync() {
                // `sync` has no errors.
                answer.error = if is_syncfs { -error.raw_os_error() } else { 0 };
            }
            self.answer(answer);
        }
    }

    /// Returns false once the last process with the filter has ended.
    fn waits_for_a_call(&self) -> bool {
        let mut listener = [PollFd::new(&self.listener, PollFlags::IN)];
        loop {
            match poll(&mut listener, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => return listener[0].revents().contains(PollFlags::IN),
            }
        }
    }

    #[allow(unsafe_code)]
    fn receive(&self) -> Option<libc::seccomp_notif> {
        // SAFETY: the kernel fills the structure, which must be zero before; all of its values are valid.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        let listener = self.listener.as_raw_fd();
        // SAFETY: the structure is that of this request. It fails if the process has been killed meanwhile.
        let done = unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
        (done == 0).then_some(call)
    }

    #[allow(unsafe_code)]
    fn answer(&self, answer: libc::seccomp_notif_resp) {
        let listener = self.listener.as_raw_fd();
        // SAFETY: the structure is that of this request. It fails if the process has been killed meanwhile.
        unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    }

    /// Returns true if a file descriptor of a process is of the disk.
    fn is_of_disk(&self, process: u32, file: i32) -> bool {
        std::fs::metadata(format!("/proc/{process}/fd/{file}")).is_ok_and(|of| of.dev() == self.device)
    }

    /// Writes everything back and makes it durable.
    fn sync(&self) -> Result<(), rustix::io::Errno> {
        // Stores to mapped memory arrive first.
        rustix::fs::syncfs(&self.root)?;
        let mut disk = self.disk.lock();
        let takes = disk.sync_takes();
        let done = disk.sync_all();
        drop(disk);
        self.disk.notice();
        if !takes.is_zero() && self.disk.wait_for_failure(takes) {
            return Err(rustix::io::Errno::IO);
        }
        done
    }
}
