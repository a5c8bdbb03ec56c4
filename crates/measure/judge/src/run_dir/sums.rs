//! `SHA256SUMS`: the checksums of the files of a finished run, in the format of `sha256sum`, which can check them too.
//!
//! The list shows that a file has changed since the end of the run. Whoever changes a file can also write a new list,
//! so a publication states the checksum of the list itself, or the recomputed figures tell.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, Digest, SHA256};
use plimsoll_base::files::{open, read_text};
use plimsoll_base::net::encode::hex;

use super::size_log;
use super::write::write_whole;

/// Name of the list.
pub const NAME: &str = "SHA256SUMS";

/// Files of a run that have a checksum if they exist, in the order of the list.
pub const FILES: [&str; 6] = [
    "environment.json",
    "experiment.toml",
    "intervals.arrows",
    "operations.arrows",
    "result.json",
    size_log::NAME,
];

/// Maximum length of a list in bytes.
pub const MAX_LIST: u64 = 4096;

/// Size of a read in bytes.
const READ: usize = 1 << 17;

fn digest(mut from: impl Read) -> io::Result<Digest> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; READ];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(context.finish()),
            n => context.update(&buffer[..n]),
        }
    }
}

/// Returns the SHA-256 of a file in hexadecimal digits.
///
/// # Errors
/// If the file cannot be read.
pub fn sha256_of(file: &Path) -> io::Result<String> {
    Ok(hex(digest(File::open(file)?)?.as_ref()))
}

/// Returns the SHA-256 of the running program in hexadecimal digits. `None` in debug builds, whose files are large and
/// nobody publishes, and if the file cannot be read.
pub fn of_this_program() -> Option<String> {
    if cfg!(debug_assertions) {
        return None;
    }
    sha256_of(&std::env::current_exe().ok()?).ok()
}

/// Returns an error in reading a file of a run, with the path of the file.
fn named(run: &Path, name: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", run.join(name).display()))
}

/// Returns the line of a file; empty if the file does not exist.
fn line(run: &Path, name: &str) -> io::Result<String> {
    match open(&run.join(name)) {
        Ok(file) => Ok(format!("{}  {name}\n", hex(digest(file)?.as_ref()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(named(run, name, &error)),
    }
}

/// Writes the list of a run directory.
///
/// # Errors
/// If a file cannot be read, or the list cannot be written.
pub fn write(run: &Path) -> io::Result<()> {
    let lines = FILES.iter().map(|name| line(run, name)).collect::<io::Result<String>>()?;
    write_whole(&run.join(NAME), &lines)
}

/// Replaces the line of a file that was changed on purpose, and leaves the others as they are. Does nothing if there is
/// no list, because the run has not finished.
///
/// # Errors
/// The errors of [`write`].
pub fn renew(run: &Path, name: &str) -> io::Result<()> {
    let old = match read_text(&run.join(NAME), MAX_LIST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        old => old.map_err(|error| named(run, NAME, &error))?,
    };
    let renewed = line(run, name)?;
    let is_of = |line: &str| line.split_once("  ").is_some_and(|(_, file)| file.trim_end() == name);
    let lines = old.split_inclusive('\n').map(|line| if is_of(line) { renewed.as_str() } else { line });
    write_whole(&run.join(NAME), &lines.collect::<String>())
}

/// Comparison of the files of a run with its list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of files that match.
    pub files: usize,
    /// Differences, in words.
    pub problems: Vec<String>,
    /// SHA-256 of the list in hexadecimal digits; empty if there is none.
    pub digest: String,
}

/// Compares the files of a run with its list. Every byte of the list counts.
///
/// # Errors
/// If a file exists and cannot be read.
pub fn check(run: &Path) -> io::Result<Checked> {
    let list = match read_text(&run.join(NAME), MAX_LIST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let problem =
                format!("there is no {NAME}: the run did not finish, or an earlier version wrote it");
            return Ok(Checked { problems: vec![problem], ..Checked::default() });
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let problem = format!("{NAME} was changed ({error})");
            return Ok(Checked { problems: vec![problem], ..Checked::default() });
        }
        list => list.map_err(|error| named(run, NAME, &error))?,
    };
    let mut checked = Checked { digest: hex(digest(list.as_bytes())?.as_ref()), ..Checked::default() };
    let mut rest = list.as_str();
    for name in FILES {
        let expected = line(run, name)?;
        let stated = rest.split_inclusive('\n').next().filter(|line| line.contains(name)).unwrap_or("");
        match (expected == stated, expected.is_empty(), stated.is_empty()) {
            (true, false, _) => checked.files += 1,
            (true, true, _) => {}
            (_, true, _) => checked.problems.push(format!("{name} is missing")),
            (_, _, true) => checked.problems.push(format!("{NAME} has no line of {name}")),
            _ => checked.problems.push(format!("{name} does not match {NAME}")),
        }
        rest = &rest[stated.len()..];
    }
    if !rest.is_empty() {
        checked.problems.push(format!("{NAME} was changed: its last {} bytes are not of a run", rest.len()));
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-sums-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("result.json"), "abc").unwrap();
        fs::write(path.join("environment.json"), "").unwrap();
        path
    }

    #[test]
    fn the_list_is_that_of_sha256sum() {
        let run = directory("format");
        write(&run).unwrap();
        let list = fs::read_to_string(run.join(NAME)).unwrap();
        assert_eq!(
            list,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  environment.json\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  result.json\n"
        );
        let checked = check(&run).unwrap();
        assert_eq!((checked.files, checked.problems.len(), checked.digest.len()), (2, 0, 64));
        fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn every_changed_bit_of_the_list_is_found() {
        let run = directory("bits");
        write(&run).unwrap();
        let list = fs::read(run.join(NAME)).unwrap();
        for bit in 0..list.len() * 8 {
            let mut changed = list.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            fs::write(run.join(NAME), &changed).unwrap();
            assert!(!check(&run).unwrap().problems.is_empty(), "bit {bit}");
        }
        fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn a_renewed_line_does_not_hide_the_change_of_another_file() {
        let run = directory("renew");
        renew(&run, "environment.json").unwrap();
        assert!(!run.join(NAME).exists(), "the run has not finished");
        write(&run).unwrap();
        fs::write(run.join("environment.json"), "{}").unwrap();
        assert_eq!(check(&run).unwrap().problems, ["environment.json does not match SHA256SUMS"]);
        fs::write(run.join("result.json"), "abd").unwrap();
        renew(&run, "environment.json").unwrap();
        assert_eq!(check(&run).unwrap().problems, ["result.json does not match SHA256SUMS"]);
        fs::remove_file(run.join("result.json")).unwrap();
        assert_eq!(check(&run).unwrap().problems, ["result.json is missing"]);
        fs::write(run.join("operations.arrows"), "").unwrap();
        assert_eq!(
            check(&run).unwrap().problems,
            ["SHA256SUMS has no line of operations.arrows", "result.json is missing"]
        );
        fs::remove_dir_all(run).unwrap();
    }
}
