//! The files that are moved: written once, compared at the end.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::driver::Control;
use crate::workload::payload::Block;

/// What all contenders move.
pub struct Ground {
    /// The files.
    pub source: PathBuf,
    /// Where they come back to.
    pub target: PathBuf,
    /// Number of files.
    pub count: u64,
    /// Bytes of each.
    pub bytes: u64,
    /// Bytes of a part of larger ones.
    pub part_size: u64,
    /// Files in flight.
    pub concurrency: usize,
    /// Seed of the contents.
    pub seed: u64,
    /// Deadline of one file, in nanoseconds.
    pub timeout_ns: u64,
    /// How it is told to stop.
    pub control: Arc<Control>,
    /// Second 0 of the interval log.
    pub origin_ns: u64,
}

/// Files of one directory; large numbers of them in one place are no good to any file system.
const PER_DIRECTORY: u64 = 1000;

/// The template of names: every thousandth file begins a new directory.
pub fn name(index: u64) -> String {
    format!("{:05}/{index:08}", index / PER_DIRECTORY)
}

/// Writes the source.
pub fn write(ground: &Ground) -> io::Result<()> {
    let block = Block::new(ground.seed);
    fs::create_dir_all(&ground.target)?;
    for index in 0..ground.count {
        let path = ground.source.join(name(index));
        if index % PER_DIRECTORY == 0
            && let Some(parent) = path.parent()
        {
            fs::create_dir_all(parent)?;
        }
        let cut = block.cut(1, index, 0, ground.bytes);
        let mut file = io::BufWriter::with_capacity(1 << 20, fs::File::create(&path)?);
        let mut at = 0;
        while let Some(piece) = cut.piece(at, ground.bytes) {
            file.write_all(&piece)?;
            at += piece.len() as u64;
        }
        file.flush()?;
    }
    Ok(())
}

/// Most bytes of old targets that are kept until the end.
const MOST_ASIDE: u64 = 4 << 30;

/// Empties the target. Small files are put aside and deleted at the end: some file systems search long for a free inode right after
/// many were freed (ext4 leaves those of the last seconds alone), and that is no part of anybody's synchronisation.
pub fn empty_target(ground: &Ground) -> io::Result<()> {
    if ground.target.exists() {
        let aside = |n: u64| ground.target.with_extension(format!("old-{n}"));
        let kept = (0..).take_while(|n| aside(*n).exists()).count() as u64;
        if (kept + 1) * ground.count * ground.bytes <= MOST_ASIDE {
            fs::rename(&ground.target, aside(kept))?;
        } else {
            fs::remove_dir_all(&ground.target)?;
        }
    }
    fs::create_dir_all(&ground.target)
}

/// Makes the directories of the target.
pub fn directories(ground: &Ground) -> io::Result<()> {
    (0..ground.count.div_ceil(PER_DIRECTORY))
        .try_for_each(|n| fs::create_dir_all(ground.target.join(format!("{n:05}"))))
}

/// What is in a directory, with sizes, as a tool sees it that is to bring it up to date.
pub fn scan(directory: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let (mut found, mut left) = (Vec::new(), vec![directory.to_path_buf()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let facts = entry.metadata()?;
            if facts.is_dir() {
                left.push(entry.path());
            } else {
                found.push((entry.path(), facts.len()));
            }
        }
    }
    Ok(found)
}

/// The first file of the target that is missing or differs from its source.
pub fn difference(ground: &Ground) -> io::Result<Option<String>> {
    let block = Block::new(ground.seed);
    for index in 0..ground.count {
        let name = name(index);
        let content = match fs::read(ground.target.join(&name)) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(format!("{name} is missing")));
            }
            Err(error) => return Err(error),
        };
        let cut = block.cut(1, index, 0, ground.bytes);
        if content.len() as u64 != ground.bytes {
            return Ok(Some(format!("{name} has {} bytes of {}", content.len(), ground.bytes)));
        }
        if let Err(at) = cut.compare(0, &content) {
            return Ok(Some(format!("{name} differs from byte {at} on")));
        }
    }
    Ok(None)
}
