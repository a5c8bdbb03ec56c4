//! The rules of ext4 agree with a real ext4 whose journal is cut at the same point.
//!
//! Both file systems execute the same program. Then the image of the real one is copied while it is mounted, as a power
//! loss would leave it, and the copy is mounted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_disk::change::{Attributes, DirectoryEntry, Ino, NewKind};
use plimsoll_disk::disk::Replace;
use plimsoll_disk::mount::use_private_mounts;
use plimsoll_disk::rules::Fate;
use plimsoll_disk::tree::{ROOT, Tree};
use plimsoll_disk::{Disk, Model};
use rustix::io::Errno;

use crate::mount::{Scratch, skip};
use crate::script::{Listing, Step, program, read_all};

fn run(command: &str, arguments: &[&str], path: &[&Path]) -> bool {
    let mut command = Command::new(command);
    command.args(arguments).args(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A directory with an empty ext4 in an image; `None` where this system cannot mount one.
struct RealExt4 {
    scratch: Scratch,
}

impl RealExt4 {
    fn new(name: &str) -> Option<RealExt4> {
        let found = RealExt4 { scratch: Scratch::new(name) };
        std::fs::create_dir_all(found.mounted()).unwrap();
        std::fs::File::create(found.path("empty")).and_then(|file| file.set_len(16 << 20)).unwrap();
        if !run("mkfs.ext4", &["-q", "-b", "4096"], &[&found.path("empty")]) {
            skip("mkfs.ext4 is not installed");
            return None;
        }
        if !use_private_mounts() || !found.mount("empty") {
            skip("this system cannot mount an ext4");
            return None;
        }
        found.unmount();
        Some(found)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.0.join(name)
    }

    fn mounted(&self) -> PathBuf {
        self.path("mounted")
    }

    fn mount(&self, image: &str) -> bool {
        // The journal's timer must not commit in between.
        run("mount", &["-o", "loop,commit=600"], &[&self.path(image), &self.mounted()])
    }

    fn unmount(&self) {
        assert!(run("umount", &[], &[&self.mounted()]));
    }

    /// Executes a program, and returns what a power loss right after it leaves.
    fn after_power_loss(&self, steps: &[Step]) -> Listing {
        std::fs::copy(self.path("empty"), self.path("image")).unwrap();
        assert!(self.mount("image"));
        for step in steps {
            let _ = step.run(&self.mounted());
        }
        std::fs::copy(self.path("image"), self.path("cut")).unwrap();
        self.unmount();
        assert!(self.mount("cut"));
        let left = read_all(&self.mounted()).unwrap();
        self.unmount();
        left
    }
}

/// Returns the directory and the name of a path.
fn place<'a>(disk: &Disk, path: &'a str) -> Result<(Ino, &'a std::ffi::OsStr), Errno> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok((find(disk, directory)?, name.as_ref()))
}

fn entry(disk: &Disk, path: &str) -> Result<DirectoryEntry, Errno> {
    place(disk, path).map(|(parent, name)| DirectoryEntry { parent, name: name.into() })
}

fn find(disk: &Disk, path: &str) -> Result<Ino, Errno> {
    let names = path.split('/').filter(|name| !name.is_empty() && *name != ".");
    names.into_iter().try_fold(ROOT, |parent, name| disk.lookup(parent, name.as_ref()))
}

/// Executes a step on a disk.
pub fn execute(disk: &mut Disk, step: &Step) -> Result<(), Errno> {
    let create = |disk: &mut Disk, path: &str, kind: NewKind| {
        let (parent, name) = place(disk, path)?;
        disk.create(parent, name, kind, Attributes::default()).map(drop)
    };
    match step {
        Step::Create(path) => create(disk, path, NewKind::File),
        Step::Mkdir(path) => create(disk, path, NewKind::Directory),
        Step::Write(path, offset, data) => disk.write(find(disk, path)?, *offset, data, false),
        Step::Truncate(path, size) => disk.resize(find(disk, path)?, *size),
        Step::Rename(from, to) => {
            let (from, to) = (entry(disk, from)?, entry(disk, to)?);
            disk.rename(&from, &to, Replace::Yes)
        }
        Step::Link(from, to) => {
            let (ino, (parent, name)) = (find(disk, from)?, place(disk, to)?);
            disk.link(ino, parent, name)
        }
        Step::Unlink(path) => place(disk, path).and_then(|(parent, name)| disk.unlink(parent, name, false)),
        Step::Rmdir(path) => place(disk, path).and_then(|(parent, name)| disk.unlink(parent, name, true)),
        Step::Fsync(path) => disk.sync(find(disk, path)?, false),
        Step::Fdatasync(path) => disk.sync(find(disk, path)?, true),
    }
}

/// Returns a disk that executed a program.
pub fn disk_after(model: Model, steps: &[Step]) -> Disk {
    let mut disk = Disk::new(model, 1 << 30);
    for step in steps {
        let _ = execute(&mut disk, step);
    }
    disk
}

/// Returns everything in a tree with its content.
pub fn listing(tree: &Tree) -> Listing {
    let content = |ino| tree.content(ino).map(|content| content.read(0, u64::MAX));
    tree.paths().into_iter().map(|(path, ino)| (path, content(ino))).collect()
}

/// Parses a program such as `create a, write a 1, fsync a`. A write has 5,000 bytes at the beginning of the file, an
/// append 9,000 at offset 5,000.
pub fn parse(text: &str) -> Vec<Step> {
    let step = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = |at: usize| words[at].to_string();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "create" => Step::Create(name(1)),
            "mkdir" => Step::Mkdir(name(1)),
            "write" => Step::Write(name(1), 0, vec![number(2) as u8; 5_000]),
            "append" => Step::Write(name(1), 5_000, vec![number(2) as u8; 9_000]),
            "truncate" => Step::Truncate(name(1), number(2)),
            "rename" => Step::Rename(name(1), name(2)),
            "link" => Step::Link(name(1), name(2)),
            "unlink" => Step::Unlink(name(1)),
            "fsync" => Step::Fsync(name(1)),
            "fdatasync" => Step::Fdatasync(name(1)),
            other => panic!("unknown step {other}"),
        }
    };
    text.split(',').map(step).collect()
}

const RENAME_OVER: &str = "a rename over a file writes the data back";

/// Programs whose result after a power loss is the same on every ext4, because the journal commits only with a sync.
const CASES: [(&str, &str); 20] = [
    ("a new file without a sync", "create a, write a 1"),
    ("fsync keeps the entry of a new file", "mkdir x, create x/a, write x/a 1, fsync x/a"),
    ("fsync of the directory keeps names, not data", "create a, write a 1, create b, fsync ."),
    ("fsync of another file commits all names", "create a, write a 1, create b, write b 2, fsync b"),
    ("a rename after fsync is lost without another sync", "create a, write a 1, fsync a, rename a b"),
    (
        "a rename is kept by fsync of its directory",
        "mkdir x, mkdir y, create x/a, write x/a 1, fsync x/a, rename x/a y/b, fsync y",
    ),
    ("a rename is not kept by fdatasync", "create a, write a 1, fsync a, rename a b, fdatasync b"),
    ("a rename is kept by fsync of the file", "create a, write a 1, fsync a, rename a b, fsync b"),
    (RENAME_OVER, "create a, write a 1, fsync a, create b, write b 2, rename b a, create c, fsync c"),
    (
        "a rename to a free name does not write the data back",
        "create b, write b 2, rename b a, create c, fsync c",
    ),
    ("an append without a sync", "create a, write a 1, fsync a, append a 2"),
    ("an append with fdatasync", "create a, write a 1, fsync a, append a 2, fdatasync a"),
    ("an overwrite without a sync", "create a, write a 1, fsync a, write a 2"),
    ("an overwrite with fdatasync", "create a, write a 1, fsync a, write a 2, fdatasync a"),
    ("a hard link and fsync of the file", "mkdir x, create a, write a 1, fsync a, link a x/b, fsync a"),
    ("a removal without a sync", "create a, write a 1, fsync a, unlink a"),
    ("a removal with fsync of the directory", "create a, write a 1, fsync a, unlink a, fsync ."),
    ("a truncation with fsync", "create a, write a 1, fsync a, truncate a 100, fsync a"),
    (
        "a removed and created file",
        "create a, write a 1, fsync a, unlink a, create a, write a 2, fdatasync a",
    ),
    ("a moved directory", "mkdir x, mkdir y, create x/a, write x/a 1, fsync x/a, rename x y/x, fsync y"),
];

/// Returns the sizes of files, and the number of bytes that are not zero.
pub fn sizes(listing: &Listing) -> Vec<(&str, Option<(usize, usize)>)> {
    let size = |content: &Vec<u8>| (content.len(), content.iter().filter(|byte| **byte != 0).count());
    listing.iter().map(|(path, content)| (path.as_str(), content.as_ref().map(size))).collect()
}

/// Describes a program without its data.
fn short(steps: &[Step]) -> String {
    let line = |step: &Step| match step {
        Step::Write(path, offset, data) => format!("write {path} {offset}..{}\n", offset + data.len() as u64),
        other => format!("{other:?}\n"),
    };
    steps.iter().map(line).collect()
}

#[test]
fn each_case_has_the_result_of_a_real_ext4() {
    let Some(real) = RealExt4::new("cases") else { return };
    for (name, steps) in CASES {
        let steps = parse(steps);
        let (left, _) = disk_after(Model::Ext4, &steps).after_power_loss(Fate::Nothing, 0);
        let (here, there) = (listing(left.tree()), real.after_power_loss(&steps));
        let lengths = |listing: &Listing| {
            let length = |content: &Option<Vec<u8>>| content.as_ref().map(Vec::len);
            listing.iter().map(|(path, content)| (path.clone(), length(content))).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&here), lengths(&there), "{name}");
        let may_have_zeros = name == RENAME_OVER && is_equal_apart_from_zeros(&here, &there);
        assert!(here == there || may_have_zeros, "{name}: {:?} instead of {:?}", sizes(&there), sizes(&here));
    }
}

/// Returns true if two states are equal, apart from files of which one has zeros instead of its bytes.
///
/// The documentation promises that a rename over a file writes the data back before the journal commits the rename.
/// ext4 of Linux 6.18 starts the writes, but does not wait for them (`dioread_nolock`, the default): if the power fails
/// at once, the file has its size and zeros. The rules follow the documentation, so that nobody is accused who relies
/// on it.
fn is_equal_apart_from_zeros(expected: &Listing, found: &Listing) -> bool {
    let is_zeros = |content: &Option<Vec<u8>>| content.iter().flatten().all(|byte| *byte == 0);
    let is_equal = |expected: &Option<Vec<u8>>, found: &Option<Vec<u8>>| {
        let sizes = (expected.as_ref().map(Vec::len), found.as_ref().map(Vec::len));
        expected == found || (sizes.0 == sizes.1 && is_zeros(found))
    };
    expected.keys().eq(found.keys()) && expected.values().zip(found.values()).all(|(a, b)| is_equal(a, b))
}

/// Returns true if the rules allow this state.
fn is_allowed(disk: &Disk, state: &Listing, has_renames: bool) -> bool {
    (0..4_000).any(|seed| {
        let fate = match seed {
            0 => Fate::Nothing,
            1 => Fate::NamesOnly,
            2 => Fate::Everything,
            _ => Fate::Some,
        };
        let allowed = listing(disk.after_power_loss(fate, seed).0.tree());
        allowed == *state || (has_renames && is_equal_apart_from_zeros(&allowed, state))
    })
}

#[test]
fn a_real_ext4_leaves_only_states_that_the_rules_allow() {
    let Some(real) = RealExt4::new("states") else { return };
    for seed in 0..60 {
        let steps = program(seed, 40);
        let left = real.after_power_loss(&steps);
        let disk = disk_after(Model::Ext4, &steps);
        let least = listing(disk.after_power_loss(Fate::Nothing, 0).0.tree());
        let message = || {
            format!("seed {seed}: {:?} instead of {:?} after {}", sizes(&left), sizes(&least), short(&steps))
        };
        let has_renames = steps.iter().any(|step| matches!(step, Step::Rename(..)));
        assert!(is_allowed(&disk, &left, has_renames), "{}", message());
    }
}
