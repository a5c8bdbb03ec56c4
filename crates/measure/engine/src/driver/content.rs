//! Contents that operations write or expect to read: slices of the run's block, encoded records, or files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::store::{Body, Segments};
use plimsoll_workload::payload::Cut;
use plimsoll_workload::{Dataset, Operation};

/// Content of one object.
#[derive(Clone, Debug)]
pub enum Content {
    /// Content that is cut from the run's block.
    Cut(Cut),
    /// Unknown content of the given length in bytes.
    LengthOnly(u64),
    /// Content that was generated for one operation, such as an encoded record.
    Whole(Bytes),
    /// Content of a file.
    File(Arc<FileContent>),
}

/// A file that is read in pieces while it is sent.
#[derive(Debug)]
pub struct FileContent {
    file: File,
    path: PathBuf,
    /// Size when the file was opened, in bytes.
    size: u64,
    /// First error while reading the file; empty if there was none.
    read_error: OnceLock<io::Error>,
}

impl FileContent {
    /// Opens a file and determines its size.
    ///
    /// # Errors
    /// Returns the system error if the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<FileContent> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(FileContent { file, path: path.to_path_buf(), size, read_error: OnceLock::new() })
    }

    /// Reads `len` bytes at offset `at`. Stores the error and returns `None` if they cannot be read.
    fn read(&self, at: u64, len: usize) -> Option<Bytes> {
        let mut data = vec![0; len];
        match self.file.read_exact_at(&mut data, at) {
            Ok(()) => Some(data.into()),
            Err(error) => {
                let _ = self.read_error.set(error);
                None
            }
        }
    }
}

impl Content {
    /// Returns unknown content with the length of an operation's object.
    pub fn length_only(dataset: &Dataset, operation: &Operation) -> Content {
        Content::LengthOnly(dataset.size_of(operation.index, operation.version))
    }

    /// Returns the length, in bytes.
    pub fn total(&self) -> u64 {
        match self {
            Content::Cut(cut) => cut.total(),
            Content::LengthOnly(bytes) => *bytes,
            Content::Whole(data) => data.len() as u64,
            Content::File(file) => file.size,
        }
    }

    /// Returns the bytes from `at` to the end of its segment or to `end`, whichever is first. Returns `None`
    /// from `end` on, for unknown content, and if a file cannot be read.
    pub fn piece(&self, at: u64, end: u64) -> Option<Bytes> {
        match self {
            Content::Cut(cut) => cut.piece(at, end),
            Content::LengthOnly(_) => None,
            Content::Whole(data) => {
                // The next piece begins at the next segment.
                let end = end.min(data.len() as u64).min((at / Cut::SEGMENT + 1) * Cut::SEGMENT);
                (at < end).then(|| data.slice(at as usize..end as usize))
            }
            Content::File(file) => {
                let end = end.min(file.size).min((at / Cut::SEGMENT + 1) * Cut::SEGMENT);
                if at < end { file.read(at, (end - at) as usize) } else { None }
            }
        }
    }

    /// Compares `piece` with the content at `at`.
    ///
    /// # Errors
    /// Returns the offset of the first byte that differs, or of the first byte after the end of the content.
    /// Returns `at` if a file cannot be read.
    pub fn compare(&self, at: u64, piece: &[u8]) -> Result<(), u64> {
        match self {
            Content::Cut(cut) => cut.compare(at, piece),
            Content::LengthOnly(_) => Ok(()),
            Content::Whole(data) => {
                let expected = data.get(at as usize..).unwrap_or_default();
                let same = piece.iter().zip(expected).take_while(|(a, b)| a == b).count();
                if same == piece.len() { Ok(()) } else { Err(at + same as u64) }
            }
            Content::File(file) => {
                let within = file.size.saturating_sub(at).min(piece.len() as u64) as usize;
                let expected = file.read(at, within).ok_or(at)?;
                let differs = piece.iter().zip(&expected).position(|(a, b)| a != b);
                match differs {
                    Some(offset) => Err(at + offset as u64),
                    None if within < piece.len() => Err(at + within as u64),
                    None => Ok(()),
                }
            }
        }
    }

    /// Returns the whole content as a body.
    pub fn body(&self) -> Body {
        match self {
            // An object of one segment is sent whole, which saves an allocation.
            Content::Cut(cut) if cut.total() <= Cut::SEGMENT => Body::Whole(cut.whole()),
            Content::Whole(data) => Body::Whole(data.clone()),
            _ => self.part(0, self.total()),
        }
    }

    /// Returns the bytes `from..end` as a body.
    pub fn part(&self, from: u64, end: u64) -> Body {
        Body::Segmented(Arc::new(Part { content: self.clone(), from, end }))
    }

    /// Returns a message with the first error while reading a file; `None` if there was none.
    pub fn read_error(&self) -> Option<String> {
        let Content::File(file) = self else { return None };
        let error = file.read_error.get();
        error.map(|e| format!("cannot read {}: {e}", file.path.display()))
    }
}

/// The bytes `from..end` of a content, in segments.
struct Part {
    content: Content,
    from: u64,
    end: u64,
}

impl Segments for Part {
    fn total(&self) -> u64 {
        self.end - self.from
    }

    fn segment(&self, index: usize) -> Option<Bytes> {
        // Pieces end at the segment boundaries of the object, so the first and the last one may be shorter.
        let segment = self.from / Cut::SEGMENT + index as u64;
        self.content.piece(self.from.max(segment * Cut::SEGMENT), self.end)
    }

    fn slice(&self, from: u64, end: u64) -> Option<Body> {
        Some(self.content.part(self.from + from, self.from + end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_workload::payload::Block;

    fn bytes_of(body: &Body) -> Vec<u8> {
        body.pieces().flatten().collect()
    }

    #[test]
    fn concatenated_parts_equal_the_object() {
        let size = 7 * Cut::SEGMENT + 12_345;
        let cut = Block::new(42).cut(1, 2, 3, size);
        let path = std::env::temp_dir().join(format!("plimsoll-content-{}", std::process::id()));
        let whole = bytes_of(&Content::Cut(cut.clone()).body());
        let contents = [Content::Cut(cut.clone()), Content::Whole(whole.into()), {
            std::fs::write(&path, bytes_of(&Content::Cut(cut.clone()).body())).unwrap();
            Content::File(Arc::new(FileContent::open(&path).unwrap()))
        }];
        for content in contents {
            for part_size in [5 * Cut::SEGMENT, 5 * Cut::SEGMENT + 777, 3_000_001] {
                let mut at = 0;
                while at < size {
                    let body = content.part(at, (at + part_size).min(size));
                    let data = bytes_of(&body);
                    assert_eq!(data.len() as u64, body.len());
                    assert_eq!(cut.compare(at, &data), Ok(()), "part size {part_size}, offset {at}");
                    assert_eq!(content.compare(at, &data), Ok(()));
                    at += data.len() as u64;
                }
            }
            assert_eq!(content.compare(size - 1, &[7, 7]), cut.compare(size - 1, &[7, 7]));
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_shrinks_is_reported() {
        let path = std::env::temp_dir().join(format!("plimsoll-shrinks-{}", std::process::id()));
        std::fs::write(&path, vec![1; 100]).unwrap();
        let content = Content::File(Arc::new(FileContent::open(&path).unwrap()));
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert!(bytes_of(&content.body()).is_empty());
        assert!(content.read_error().unwrap().contains("plimsoll-shrinks"));
        std::fs::remove_file(&path).unwrap();
    }
}
