//! Listings of existing buckets: files of S3 Inventory, output of `aws s3 ls --recursive`, or the bucket of a tier.

mod csv;
mod manifest;
mod text;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use plimsoll_base::files::{CountedReader, Expanded};

/// Maximum length of a line in bytes; a percent-encoded key has at most 3 KiB.
const MAX_LINE: usize = 64 * 1024;

/// An object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Name of the bucket; empty if the listing does not have it.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification in Unix milliseconds.
    pub modified_ms: i64,
}

/// Reason why a listing cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    /// A file cannot be read.
    #[error("{file}: {problem}")]
    Read {
        /// Name of the file.
        file: String,
        /// Message of the system.
        problem: std::io::Error,
    },
    /// A line is not that of a listing.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: u64,
        /// Description of what is wrong.
        problem: String,
    },
    /// The format is not supported.
    #[error("{file}: {problem}")]
    Format {
        /// Name of the file.
        file: String,
        /// Description of what is wrong.
        problem: String,
    },
}

/// Receiver of the objects of a listing.
pub type Receive<'a, E> = dyn FnMut(Listed) -> Result<(), E> + 'a;

/// Opens a file, which may be compressed with gzip.
fn open(path: &Path) -> Result<Box<dyn BufRead>, ListingError> {
    let fail = |problem| ListingError::Read { file: path.display().to_string(), problem };
    let (counted, bytes) = CountedReader::new(File::open(path).map_err(fail)?);
    let mut file = BufReader::with_capacity(1 << 20, counted);
    let is_compressed = file.fill_buf().map_err(fail)?.starts_with(&[0x1f, 0x8b]);
    if is_compressed {
        let expanded = Expanded::new(MultiGzDecoder::new(file), bytes);
        return Ok(Box::new(BufReader::with_capacity(1 << 20, expanded)));
    }
    Ok(Box::new(file))
}

/// Reads a listing: a manifest of S3 Inventory, a CSV file, or text as `aws s3 ls --recursive` prints it.
///
/// # Errors
/// If a file cannot be read, its format is unknown, or the receiver fails.
pub fn read<E: From<ListingError>>(path: &Path, receive: &mut Receive<'_, E>) -> Result<(), E> {
    let mut file = open(path)?;
    let fail = |problem| ListingError::Read { file: path.display().to_string(), problem };
    match file.fill_buf().map_err(fail)?.first() {
        Some(b'{') => {
            let mut text = String::new();
            file.take(16 << 20).read_to_string(&mut text).map_err(fail)?;
            let manifest = manifest::parse(path, &text)?;
            for file in manifest.files {
                csv::read(&file, open(&file)?, Some(&manifest.columns), receive)?;
            }
            Ok(())
        }
        Some(b'0'..=b'9' | b' ') => text::read(path, file, receive),
        Some(_) => csv::read(path, file, None, receive),
        None => Ok(()),
    }
}

/// Decodes the percent encoding of a key.
fn decode(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        let digits = || {
            let mut ahead = rest.clone();
            let (high, low) = (ahead.next()?, ahead.next()?);
            let digit = |byte: u8| char::from(byte).to_digit(16);
            Some((ahead, (digit(high)? << 4 | digit(low)?) as u8))
        };
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match digits() {
                Some((ahead, decoded)) => {
                    rest = ahead;
                    bytes.push(decoded);
                }
                None => bytes.push(byte),
            },
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_testing::directory::TempDir;
    use std::io::Write;

    fn all(path: &Path) -> Result<Vec<Listed>, ListingError> {
        let mut found = Vec::new();
        read(path, &mut |listed| {
            found.push(listed);
            Ok(())
        })?;
        Ok(found)
    }

    fn listed(bucket: &str, key: &str, size: u64) -> Listed {
        let modified_ms = 1_767_323_045_000;
        Listed { bucket: bucket.into(), key: key.into(), size, modified_ms }
    }

    #[test]
    fn an_inventory_is_read_with_its_manifest() {
        let dir = TempDir::new("inventory");
        let rows = "\"b\",\"photos/a+b%2Fc.jpg\",\"v1\",\"true\",\"false\",\"120\",\"2026-01-02T03:04:05.000Z\"\n\
             \"b\",\"gone\",\"v2\",\"true\",\"true\",\"\",\"2026-01-02T03:04:05.000Z\"\n\
             \"b\",\"old, with comma\",\"v0\",\"false\",\"false\",\"7\",\"2026-01-02T03:04:05.000Z\"\n";
        let mut file = flate2::write::GzEncoder::new(
            File::create(dir.path().join("part.csv.gz")).unwrap(),
            flate2::Compression::fast(),
        );
        file.write_all(rows.as_bytes()).unwrap();
        file.finish().unwrap();
        let manifest = |format: &str| {
            format!(
                "{{\"sourceBucket\":\"b\",\"fileFormat\":\"{format}\",\"fileSchema\":\"Bucket, Key, VersionId, IsLatest, \
                 IsDeleteMarker, Size, LastModifiedDate\",\"files\":[{{\"key\":\"inventory/b/data/part.csv.gz\"}}]}}"
            )
        };
        let path = dir.path().join("manifest.json");
        std::fs::write(&path, manifest("CSV")).unwrap();
        assert_eq!(
            all(&path).unwrap(),
            [listed("b", "photos/a b/c.jpg", 120), listed("b", "old, with comma", 7)]
        );
        std::fs::write(&path, manifest("ORC")).unwrap();
        assert!(all(&path).unwrap_err().to_string().contains("use an inventory in the CSV format"));
    }

    #[test]
    fn text_and_plain_tables_are_read() {
        let dir = TempDir::new("listing");
        let path = dir.path().join("listing");
        let at = "2026-01-02 03:04:05";
        std::fs::write(
            &path,
            format!("{at}        120 photos/a b.jpg\n{at}          0 empty\n\nTotal Objects: 2\n"),
        )
        .unwrap();
        let found = all(&path).unwrap();
        assert_eq!(
            found.iter().map(|one| (one.key.as_str(), one.size)).collect::<Vec<_>>(),
            [("photos/a b.jpg", 120), ("empty", 0)]
        );
        std::fs::write(&path, "Key,Size,LastModified\na,5,2026-01-02T03:04:05Z\n").unwrap();
        assert_eq!(all(&path).unwrap(), [listed("", "a", 5)]);
        for (text, problem) in [
            ("Key,Size\na,5\n", "the first line must name the columns Key, Size and LastModified"),
            ("Key,Size,LastModified\na,many,2026-01-02T03:04:05Z\n", ":2: many is no size in bytes"),
            ("Key,Size,LastModified\na,5,yesterday\n", ":2: yesterday is no time"),
            ("2026-01-02 03:04:05 many key\n", ":1: "),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = all(&path).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    /// Regression test: one line of a small compressed file filled the memory.
    #[test]
    fn a_compressed_file_does_not_fill_the_memory() {
        let dir = TempDir::new("listing-bomb");
        let path = dir.path().join("listing.csv.gz");
        let header = "Key,Size,LastModified\n";
        let compressed = |text: String| {
            let file = File::create(&path).unwrap();
            let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::best());
            file.write_all(text.as_bytes()).unwrap();
            file.finish().unwrap();
            all(&path).unwrap_err().to_string()
        };
        for (text, problem) in [
            (format!("{header}{}", "a".repeat(30 << 20)), ":2: the line is longer than 64 KiB"),
            (format!("{header}\"{}", "a\n".repeat(15 << 20)), ":2: the line is longer than 64 KiB"),
            (format!("{header}{}", ",".repeat(30 << 20)), ":2: the line has more than 256 fields"),
            (
                format!("{header}{}", "\n".repeat(30 << 20)),
                "the file expands to more than 200 times its size",
            ),
            (format!("2026-01-02 {}", "0".repeat(30 << 20)), ":1: the line is longer than 64 KiB"),
            (format!("{{{}", " ".repeat(30 << 20)), "the file expands to more than 200 times its size"),
        ] {
            let error = compressed(text);
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn keys_are_decoded() {
        assert_eq!(decode("a%20b+c%2F%C3%A4"), "a b c/ä");
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz"), "%zz");
    }
}
