//! The local files of a synchronization: writes the source, empties the target, and compares the two.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_engine::driver::Control;
use plimsoll_workload::payload::Block;

/// Files that all contenders transfer, and the settings of the transfers.
pub struct Ground {
    /// Directory of the original files.
    pub source: PathBuf,
    /// Directory of the downloaded files.
    pub target: PathBuf,
    /// Number of files.
    pub count: u64,
    /// Size of each file, in bytes.
    pub bytes: u64,
    /// Size of a part, in bytes. Plimsoll uploads larger files in parts.
    pub part_size: u64,
    /// Number of files in flight.
    pub concurrency: usize,
    /// Seed of the generated contents.
    pub seed: u64,
    /// Timeout of the transfer of one file, in nanoseconds.
    pub timeout_ns: u64,
    /// Handle that stops the run.
    pub control: Arc<Control>,
    /// Start of second 0 of the interval log, in nanoseconds on the monotonic clock.
    pub origin_ns: u64,
}

/// Maximum number of files in one directory, because file systems are slow with very large directories.
const PER_DIRECTORY: u64 = 1000;

/// Returns the relative path of a file, in the form of the naming template `{dir}/{index}`.
pub fn name(index: u64) -> String {
    format!("{:05}/{index:08}", index / PER_DIRECTORY)
}

/// Writes the source files and creates the target directory.
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

/// Maximum total size, in bytes, of old targets that are kept until the end.
const MAX_ASIDE: u64 = 4 << 30;

/// Empties the target. Old targets of up to 4 GiB in total are renamed and deleted at the end of the
/// run: some file systems take long to find a free inode right after many were freed (ext4 does not reuse those
/// freed in the last seconds), and that time is not part of a synchronization.
pub fn empty_target(ground: &Ground) -> io::Result<()> {
    if ground.target.exists() {
        let aside = |n: u64| ground.target.with_extension(format!("old-{n}"));
        let kept = (0..).take_while(|n| aside(*n).exists()).count() as u64;
        if (kept + 1) * ground.count * ground.bytes <= MAX_ASIDE {
            fs::rename(&ground.target, aside(kept))?;
        } else {
            fs::remove_dir_all(&ground.target)?;
        }
    }
    fs::create_dir_all(&ground.target)
}

/// Creates the subdirectories of the target.
pub fn directories(ground: &Ground) -> io::Result<()> {
    (0..ground.count.div_ceil(PER_DIRECTORY))
        .try_for_each(|n| fs::create_dir_all(ground.target.join(format!("{n:05}"))))
}

/// Returns the paths and sizes of all files below a directory, as a synchronization tool lists them.
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

/// Describes the first file of the target that is missing or differs from its source; `None` if all are equal.
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
            return Ok(Some(format!("{name} has {} bytes instead of {}", content.len(), ground.bytes)));
        }
        if let Err(at) = cut.compare(0, &content) {
            return Ok(Some(format!("{name} differs from its source at byte {at}")));
        }
    }
    Ok(None)
}
