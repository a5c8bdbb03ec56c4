//! Files that others may have made: reads with limits, and writes that follow no link.
//!
//! A run directory may come from anybody. Its files are regular files with a limited length; a link in it could name
//! any file of this machine.

mod expanded;

pub use self::expanded::expanded;

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

fn refused(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

/// Opens a file, and fails if the path is a symbolic link.
fn without_links(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK, opening a pipe waits for its other end.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).map_err(|error| {
        let is_link = error.raw_os_error() == Some(libc::ELOOP);
        if is_link { refused("is a symbolic link; copy the file that it names") } else { error }
    })
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused("is not a regular file")) }
}

/// Opens a file of a directory that others may have made.
///
/// # Errors
/// If it cannot be opened, is a link, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    without_links(OpenOptions::new().read(true), path).and_then(regular)
}

/// Creates or empties a file of a directory that others may have made.
///
/// # Errors
/// If it cannot be created, is a link, or is not a regular file.
pub fn create(path: &Path) -> io::Result<File> {
    // An existing file is emptied only after it is known to be one.
    let file = without_links(OpenOptions::new().write(true).create(true).truncate(false), path)?;
    let file = regular(file)?;
    file.set_len(0)?;
    Ok(file)
}

/// Reads a text of at most `most` bytes from a file of a directory that others may have made.
///
/// # Errors
/// The errors of [`open`]; also if the file is longer or not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text_of(open(path)?, most)
}

/// Reads a text of at most `most` bytes from a regular file that the user named.
///
/// # Errors
/// If the file cannot be read, is not a regular file, is longer, or is not UTF-8.
pub fn read_named_text(path: &Path, most: u64) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    text_of(regular(file)?, most)
}

fn text_of(file: File, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = file.take(most + 1).read_to_string(&mut text)? as u64;
    if read > most {
        return Err(refused(&format!("is longer than {} MiB", most >> 20)));
    }
    Ok(text)
}

/// Reads a line, with its line ending, into a buffer. Returns false if it is longer than `most` bytes. The buffer is
/// empty at the end of the file.
///
/// # Errors
/// If the file cannot be read.
pub fn read_line(from: &mut impl BufRead, most: u64, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = from.take(most).read_until(b'\n', line)? as u64;
    Ok(read < most || line.last() == Some(&b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Regression test: `report RUN` read and wrote through links in a run directory, and waited for a pipe.
    #[test]
    fn links_and_pipes_are_neither_read_nor_written() {
        let dir = directory("links");
        let (own, link, pipe) = (dir.join("own"), dir.join("link"), dir.join("pipe"));
        fs::write(&own, "secret").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        assert_eq!(read_text(&own, 6).unwrap(), "secret");
        for (path, problem) in
            [(&link, "symbolic link"), (&pipe, "not a regular file"), (&dir, "not a regular")]
        {
            assert!(read_text(path, 6).unwrap_err().to_string().contains(problem), "{}", path.display());
        }
        assert!(create(&link).is_err() && create(&pipe).is_err());
        assert_eq!(fs::read_to_string(&own).unwrap(), "secret");
        assert_eq!(read_named_text(&link, 6).unwrap(), "secret");
        assert!(read_named_text(&pipe, 6).is_err());
        create(&own).unwrap();
        assert_eq!(fs::read_to_string(&own).unwrap(), "");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_text_has_a_largest_length() {
        let dir = directory("length");
        fs::write(dir.join("text"), "x".repeat(2 << 20)).unwrap();
        assert_eq!(read_text(&dir.join("text"), 2 << 20).unwrap().len(), 2 << 20);
        let error = read_text(&dir.join("text"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "is longer than 1 MiB");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_line_has_a_largest_length() {
        let (mut text, mut line) = (&b"ab\nabc\nabcd"[..], Vec::new());
        let mut next =
            || (read_line(&mut text, 4, &mut line).unwrap(), String::from_utf8(line.clone()).unwrap());
        assert_eq!(next(), (true, "ab\n".into()));
        assert_eq!(next(), (true, "abc\n".into()));
        assert_eq!(next(), (false, "abcd".into()));
        assert_eq!(next(), (true, String::new()));
    }
}
