//! Random programs of file operations, that run on a mounted directory or on any other.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use plimsoll_disk::draws::Draws;

/// One file operation. Names are paths below the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Create(String),
    Mkdir(String),
    Write(String, u64, Vec<u8>),
    Truncate(String, u64),
    Rename(String, String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Fsync(String),
    Fdatasync(String),
}

impl Step {
    /// Executes the operation below `root`.
    pub fn run(&self, root: &Path) -> io::Result<()> {
        let at = |name: &str| root.join(name);
        let write = |name: &str| OpenOptions::new().write(true).open(at(name));
        match self {
            Step::Create(name) => File::create_new(at(name)).map(drop),
            Step::Mkdir(name) => std::fs::create_dir(at(name)),
            Step::Write(name, offset, data) => write(name)?.write_all_at(data, *offset),
            Step::Truncate(name, size) => write(name)?.set_len(*size),
            Step::Rename(from, to) => std::fs::rename(at(from), at(to)),
            Step::Link(from, to) => std::fs::hard_link(at(from), at(to)),
            Step::Unlink(name) => std::fs::remove_file(at(name)),
            Step::Rmdir(name) => std::fs::remove_dir(at(name)),
            Step::Fsync(name) => File::open(at(name))?.sync_all(),
            Step::Fdatasync(name) => File::open(at(name))?.sync_data(),
        }
    }
}

fn name(draws: &mut Draws) -> String {
    let file = ["a", "b", "c", "d"][draws.below(4) as usize];
    match draws.below(3) {
        0 => file.into(),
        1 => format!("x/{file}"),
        _ => format!("y/{file}"),
    }
}

/// Draws a program of `count` operations. Many of them fail, for example because a file does not exist.
pub fn program(seed: u64, count: u64) -> Vec<Step> {
    let mut draws = Draws::new(seed, "program");
    let mut steps = vec![Step::Mkdir("x".into()), Step::Mkdir("y".into())];
    for number in 0..count {
        let of = name(&mut draws);
        steps.push(match draws.below(20) {
            0..4 => Step::Create(of),
            4..9 => {
                let data = vec![number as u8 + 1; 1 + draws.below(9_000) as usize];
                Step::Write(of, draws.below(3) * draws.below(6_000), data)
            }
            9 => Step::Truncate(of, draws.below(10_000)),
            10..13 => Step::Rename(of, name(&mut draws)),
            13 => Step::Link(of, name(&mut draws)),
            14 => Step::Unlink(of),
            15 => match draws.chance(50) {
                true => Step::Rmdir("x".into()),
                false => Step::Mkdir("x".into()),
            },
            16 => Step::Fsync(["x", "y", "."][draws.below(3) as usize].into()),
            17 => Step::Fdatasync(of),
            _ => Step::Fsync(of),
        });
    }
    steps
}

/// All files and directories below `root` with their content; `None` for directories.
pub type Listing = BTreeMap<String, Option<Vec<u8>>>;

/// Reads a directory with everything in it.
pub fn read_all(root: &Path) -> io::Result<Listing> {
    let (mut all, mut left) = (Listing::new(), vec![root.to_path_buf()]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.strip_prefix(root).map_err(io::Error::other)?.to_string_lossy().into_owned();
            if path.is_dir() {
                // A new ext4 has this directory.
                if name != "lost+found" {
                    all.insert(name, None);
                    left.push(path);
                }
            } else {
                assert_eq!(path.metadata()?.len(), std::fs::read(&path)?.len() as u64);
                all.insert(name, Some(std::fs::read(&path)?));
            }
        }
    }
    Ok(all)
}

/// Returns the numbers of links of all files below `root`.
pub fn links(root: &Path) -> io::Result<BTreeMap<String, u64>> {
    let files = read_all(root)?.into_iter().filter(|(_, content)| content.is_some());
    files.map(|(name, _)| Ok((name.clone(), root.join(name).metadata()?.nlink()))).collect()
}
