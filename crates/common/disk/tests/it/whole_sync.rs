//! `sync` and `syncfs` of programs reach the disk.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use plimsoll_disk::mount::{Filter, Mounted, WholeSyncs};
use plimsoll_disk::{DiskFaults, Model};

use crate::mount::{Scratch, left_of, mounted, skip};

/// Starts a shell command with the filter.
#[allow(unsafe_code)]
fn start(line: &str, filter: Filter) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    // SAFETY: the filter only makes system calls.
    unsafe {
        command.pre_exec(move || {
            filter.install();
            Ok(())
        });
    }
    command.spawn().unwrap()
}

/// Executes a shell command in the directory of a disk, with the filter. `None` where this system does not allow it.
fn shell(mounted: &Mounted, scratch: &Scratch, line: &str) -> Option<ExitStatus> {
    let syncs = WholeSyncs::new(mounted).unwrap();
    let mut child = start(&format!("cd {}; {line}", scratch.0.display()), syncs.filter().unwrap());
    if !syncs.serve(&child).unwrap() {
        skip("the system allows no filter of system calls");
        child.kill().unwrap();
        child.wait().unwrap();
        return None;
    }
    Some(child.wait().unwrap())
}

/// Executes a command on an empty disk with faults, and returns its success and what a power loss leaves of `file`.
fn after(line: &str, faults: DiskFaults) -> Option<(bool, Option<Vec<u8>>)> {
    let (scratch, mounted) = mounted("whole", Model::Ext4)?;
    mounted.disk().lock().set_faults(faults);
    let status = shell(&mounted, &scratch, line)?;
    Some((status.success(), left_of(mounted, &scratch)))
}

#[test]
fn syncs_of_the_whole_disk_keep_everything() {
    let kept = Some(b"content".to_vec());
    let cases = [
        ("printf content > file; sync", kept.clone()),
        ("printf content > file; sync -f file", kept.clone()),
        ("mkdir x; printf content > file; (sync -f x; true)", kept),
        ("printf content > file; sync -f /proc", None),
        ("printf content > file", None),
    ];
    for (line, expected) in cases {
        let Some(found) = after(line, DiskFaults::default()) else { return };
        assert_eq!(found, (true, expected), "{line}");
    }
}

/// Regression test: if the power failed while a program started, its syncs could not be served, and this was an error.
#[test]
fn a_program_may_start_after_the_power_has_failed() {
    let Some((scratch, mounted)) = mounted("late", Model::Ext4) else { return };
    let syncs = WholeSyncs::new(&mounted).unwrap();
    mounted.disk().fail_power();
    let filter = syncs.filter().unwrap();
    let mut child = start("sync -f /proc; exec sleep 0", filter);
    syncs.serve(&child).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(std::fs::File::create(scratch.0.join("file")).is_err());
}

#[test]
fn stores_to_mapped_memory_are_synced_with_the_disk() {
    use rustix::fs::{Mode, OFlags};
    use rustix::mm::{MapFlags, ProtFlags};
    let Some((scratch, mounted)) = mounted("mapped", Model::Ext4) else { return };
    let flags = OFlags::CREATE | OFlags::RDWR;
    let file = rustix::fs::open(scratch.0.join("file"), flags, Mode::RUSR | Mode::WUSR).unwrap();
    rustix::fs::ftruncate(&file, 4096).unwrap();
    // SAFETY: the mapping has the length of the file, and nothing else refers to it.
    #[allow(unsafe_code)]
    unsafe {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let map = rustix::mm::mmap(std::ptr::null_mut(), 4096, access, MapFlags::SHARED, &file, 0).unwrap();
        map.cast::<u8>().write(b'b');
    }
    let Some(_) = shell(&mounted, &scratch, "sync") else { return };
    assert_eq!(left_of(mounted, &scratch).unwrap()[0], b'b');
}

#[test]
fn a_sync_of_the_whole_disk_that_fails_is_an_error_and_loses_data() {
    let failing = DiskFaults { failing_sync: Some(0), ..DiskFaults::default() };
    let Some((success, left)) = after("printf content > file; sync -f file", failing) else { return };
    assert_eq!((success, left), (false, None));
}

#[test]
fn ignored_paths_are_not_synced_with_the_whole_disk() {
    let ignored = DiskFaults { ignored_syncs: "file".into(), ..DiskFaults::default() };
    let Some((_, left)) = after("printf content > file; sync -f .", ignored) else { return };
    assert_ne!(left, Some(b"content".to_vec()));
}
