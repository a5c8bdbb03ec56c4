//! What an operation writes, or expects to read: slices of the run's own block, or a file.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;

use crate::store::{Body, Segments};
use crate::workload::payload::Cut;
use crate::workload::{Dataset, Operation};

/// The content of one object.
#[derive(Clone, Debug)]
pub enum Content {
    /// Cut from the run's block.
    Cut(Cut),
    /// Of which only the length is known.
    Unseen(u64),
    /// Made for this operation.
    Whole(Bytes),
    /// A file's.
    File(Rc<FileContent>),
}

/// A file that is read piece by piece, as it is sent.
#[derive(Debug)]
pub struct FileContent {
    file: File,
    path: PathBuf,
    size: u64,
    fault: RefCell<Option<io::Error>>,
}

impl FileContent {
    /// Opens a file; its length is taken now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> io::Result<FileContent> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(FileContent { file, path: path.to_path_buf(), size, fault: RefCell::new(None) })
    }

    fn read(&self, at: u64, len: usize) -> Option<Bytes> {
        let mut data = vec![0; len];
        match self.file.read_exact_at(&mut data, at) {
            Ok(()) => Some(data.into()),
            Err(error) => {
                self.fault.borrow_mut().get_or_insert(error);
                None
            }
        }
    }
}

impl Content {
    /// A content of which only the length is told.
    pub fn length(dataset: &Dataset, operation: &Operation) -> Content {
        Content::Unseen(dataset.size_of(operation.index, operation.version))
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        match self {
            Content::Cut(cut) => cut.total(),
            Content::Unseen(bytes) => *bytes,
            Content::Whole(data) => data.len() as u64,
            Content::File(file) => file.size,
        }
    }

    /// What lies from `at` to the end of its segment or to `end`, whichever comes first; `None` from `end` on, and where a file
    /// cannot be read.
    fn piece(&self, at: u64, end: u64) -> Option<Bytes> {
        match self {
            Content::Cut(cut) => cut.piece(at, end),
            Content::Unseen(_) => None,
            Content::Whole(data) => {
                let end = end.min(data.len() as u64);
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
    /// The offset of the first byte that differs, or of the first beyond the end.
    pub fn compare(&self, at: u64, piece: &[u8]) -> Result<(), u64> {
        match self {
            Content::Cut(cut) => cut.compare(at, piece),
            Content::Unseen(_) => Ok(()),
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

    /// All of it as a body.
    pub fn body(&self) -> Body {
        match self {
            // A small object leaves in one piece, without a box around it.
            Content::Cut(cut) if cut.segment(1).is_none() => Body::Whole(cut.segment(0).unwrap_or_default()),
            Content::Whole(data) => Body::Whole(data.clone()),
            _ => self.part(0, self.total()),
        }
    }

    /// The bytes `from..end` as a body.
    pub fn part(&self, from: u64, end: u64) -> Body {
        Body::Segmented(Rc::new(Part { content: self.clone(), from, end }))
    }

    /// Why a file could not be read, where that happened.
    pub fn fault(&self) -> Option<String> {
        let Content::File(file) = self else { return None };
        let fault = file.fault.borrow();
        fault.as_ref().map(|e| format!("{} could not be read while it was sent: {e}", file.path.display()))
    }
}

/// A stretch of a content, in segments.
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
        // The first piece ends where the object's own segment ends; the others are whole segments.
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
    use crate::workload::payload::Block;

    fn gathered(body: &Body) -> Vec<u8> {
        body.pieces().flatten().collect()
    }

    #[test]
    fn parts_put_together_are_the_object() {
        let size = 7 * Cut::SEGMENT + 12_345;
        let cut = Block::new(42).cut(1, 2, 3, size);
        let path = std::env::temp_dir().join(format!("plimsoll-content-{}", std::process::id()));
        let contents = [Content::Cut(cut.clone()), {
            std::fs::write(&path, gathered(&Content::Cut(cut.clone()).body())).unwrap();
            Content::File(Rc::new(FileContent::open(&path).unwrap()))
        }];
        for content in contents {
            for part_size in [5 * Cut::SEGMENT, 5 * Cut::SEGMENT + 777, 3_000_001] {
                let mut at = 0;
                while at < size {
                    let body = content.part(at, (at + part_size).min(size));
                    let data = gathered(&body);
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
    fn a_file_that_shrinks_is_told() {
        let path = std::env::temp_dir().join(format!("plimsoll-shrinks-{}", std::process::id()));
        std::fs::write(&path, vec![1; 100]).unwrap();
        let content = Content::File(Rc::new(FileContent::open(&path).unwrap()));
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        assert!(gathered(&content.body()).is_empty());
        assert!(content.fault().unwrap().contains("plimsoll-shrinks"));
        std::fs::remove_file(&path).unwrap();
    }
}
