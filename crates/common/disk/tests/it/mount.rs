//! A mounted disk behaves like the file systems of Linux.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use plimsoll_disk::mount::{Mounted, SharedDisk, use_private_mounts};
use plimsoll_disk::rules::Fate;
use plimsoll_disk::{Disk, Model};

use crate::script::{links, program, read_all};

/// A directory that is removed with its value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("plimsoll-disk-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reports that a test is skipped on a system that does not allow mounts, unless it must.
pub fn skip(reason: &str) {
    let required = std::env::var_os("PLIMSOLL_REQUIRE_MOUNTS").is_some();
    assert!(!required, "PLIMSOLL_REQUIRE_MOUNTS is set, but {reason}");
    eprintln!("skipped: {reason}");
}

/// Mounts an empty disk; `None` where this system does not allow it.
pub fn mounted(name: &str, model: Model) -> Option<(Scratch, Mounted)> {
    use_private_mounts();
    let scratch = Scratch::new(name);
    match Mounted::new(SharedDisk::new(Disk::new(model, 1 << 30)), &scratch.0) {
        Ok(mounted) => Some((scratch, mounted)),
        Err(error) => {
            eprintln!("{error}");
            skip("this system does not allow mounts, or fusermount3 is not installed");
            None
        }
    }
}

#[test]
fn operations_have_the_results_of_a_real_directory() {
    let real = Scratch::new("real");
    for seed in 0..40 {
        let Some((scratch, mounted)) = mounted("same", Model::Ext4) else { return };
        let _ = std::fs::remove_dir_all(&real.0);
        std::fs::create_dir_all(&real.0).unwrap();
        for (position, step) in program(seed, 120).iter().enumerate() {
            let (here, there) = (step.run(&scratch.0), step.run(&real.0));
            let code = |result: &std::io::Result<()>| result.as_ref().err().map(std::io::Error::raw_os_error);
            assert_eq!(code(&here), code(&there), "seed {seed}, step {position}: {step:?}");
        }
        assert_eq!(read_all(&scratch.0).unwrap(), read_all(&real.0).unwrap(), "seed {seed}");
        assert_eq!(links(&scratch.0).unwrap(), links(&real.0).unwrap(), "seed {seed}");
        mounted.unmount().unwrap();
    }
}

/// Returns what is left of `file` if nothing that is not synced is kept.
pub fn left_of(mounted: Mounted, scratch: &Scratch) -> Option<Vec<u8>> {
    let (after, _) = mounted.unmount().unwrap().after_power_loss(Fate::Nothing, 0);
    let again = Mounted::new(SharedDisk::new(after), &scratch.0).unwrap();
    let content = std::fs::read(scratch.0.join("file")).ok();
    again.unmount().unwrap();
    content
}

#[test]
fn every_kind_of_sync_keeps_data() {
    use rustix::fs::{Mode, OFlags};
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
    type Sync = fn(&File);
    let syncs: [(&str, i32, Sync); 5] = [
        ("fsync", 0, |file| file.sync_all().unwrap()),
        ("fdatasync", 0, |file| file.sync_data().unwrap()),
        ("O_DSYNC", OFlags::DSYNC.bits() as i32, |_| {}),
        ("O_SYNC", OFlags::SYNC.bits() as i32, |_| {}),
        ("none", 0, |_| {}),
    ];
    for (name, flags, sync) in syncs {
        let Some((scratch, mounted)) = mounted("syncs", Model::Ext4) else { return };
        let path = scratch.0.join("file");
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = OpenOptions::new();
        options.create(true).read(true).write(true).truncate(true).custom_flags(flags);
        let file = options.open(path).unwrap();
        file.write_all_at(b"content", 0).unwrap();
        sync(&file);
        drop(file);
        let left = left_of(mounted, &scratch);
        assert_eq!(left.is_some_and(|content| content == b"content"), name != "none", "{name}");
    }
    let Some((scratch, mounted)) = mounted("msync", Model::Ext4) else { return };
    let file =
        rustix::fs::open(scratch.0.join("file"), OFlags::CREATE | OFlags::RDWR, Mode::RUSR | Mode::WUSR);
    let file = File::from(file.unwrap());
    file.write_all_at(&[b'a'; 4096], 0).unwrap();
    file.sync_all().unwrap();
    // SAFETY: the mapping has the length of the file, and nothing else refers to it.
    #[allow(unsafe_code)]
    unsafe {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let map = rustix::mm::mmap(std::ptr::null_mut(), 4096, access, MapFlags::SHARED, &file, 0).unwrap();
        map.cast::<u8>().write(b'b');
        rustix::mm::msync(map, 4096, MsyncFlags::SYNC).unwrap();
        map.cast::<u8>().add(1).write(b'c');
    }
    let left = left_of(mounted, &scratch).unwrap();
    assert_eq!(&left[..2], b"ba", "msync keeps what was stored before it, and nothing later");
}

#[test]
fn a_directory_is_read_completely_while_its_files_are_removed() {
    let Some((scratch, mounted)) = mounted("many", Model::Ext4) else { return };
    for number in 0..3_000 {
        File::create(scratch.0.join(format!("a long name of file number {number}"))).unwrap();
    }
    let removed =
        std::fs::read_dir(&scratch.0).unwrap().map(|entry| std::fs::remove_file(entry.unwrap().path()));
    assert_eq!(removed.map(Result::unwrap).count(), 3_000);
    mounted.unmount().unwrap();
}

#[test]
fn a_disk_without_power_answers_with_errors() {
    let Some((scratch, mounted)) = mounted("power", Model::Ext4) else { return };
    let path = scratch.0.join("file");
    std::fs::write(&path, b"x").unwrap();
    mounted.disk().fail_power();
    let file = OpenOptions::new().write(true).open(&path);
    assert!(file.and_then(|file| file.write_all_at(b"y", 0)).is_err());
    assert!(File::create(scratch.0.join("other")).is_err());
    assert!(mounted.disk().wait_for_failure(std::time::Duration::MAX));
    mounted.unmount().unwrap();
}
