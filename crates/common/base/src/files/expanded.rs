//! Compressed files, decompressed while they are read, up to a ratio.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

/// Maximum ratio of decompressed to compressed size. Logs and listings compress less than this, so a file that expands
/// further contains something else.
const MAX_EXPANSION: u64 = 200;
/// Decompressed bytes that are allowed in any case.
const USUAL: u64 = 1 << 20;
/// Bytes that are read at a time: logs and listings have gigabytes.
const BUFFER: usize = 256 << 10;

/// A reader that counts its bytes.
struct CountedReader<R> {
    from: R,
    bytes: Rc<Cell<u64>>,
}

impl<R> CountedReader<R> {
    /// Counts the bytes of a reader. Returns the count, too.
    fn new(from: R) -> (CountedReader<R>, Rc<Cell<u64>>) {
        let bytes = Rc::new(Cell::new(0));
        (CountedReader { from, bytes: Rc::clone(&bytes) }, bytes)
    }
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

/// Decompressed bytes, at most [`MAX_EXPANSION`] times as many as the compressed ones that were read.
struct Limited<R> {
    from: R,
    compressed: Rc<Cell<u64>>,
    bytes: u64,
}

impl<R> Limited<R> {
    /// Limits the output of a decoder. `compressed` counts the bytes that it has read.
    fn new(from: R, compressed: Rc<Cell<u64>>) -> Limited<R> {
        Limited { from, compressed, bytes: 0 }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.bytes += read as u64;
        if self.bytes > self.compressed.get().saturating_mul(MAX_EXPANSION) + USUAL {
            let problem = format!("the file expands to more than {MAX_EXPANSION} times its size");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(read)
    }
}

/// Opens a file, which may be compressed with Zstandard or gzip. The expansion is limited.
///
/// # Errors
/// If the file cannot be read. Its reader fails if it cannot be decompressed, or expands too far.
pub fn expanded(file: &Path) -> io::Result<Box<dyn BufRead>> {
    let (counted, bytes) = CountedReader::new(File::open(file)?);
    let mut whole = BufReader::with_capacity(BUFFER, counted);
    let head = whole.fill_buf()?;
    // The magic number of a Zstandard frame (RFC 8878, 3.1.1).
    Ok(if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = zstd::Decoder::with_buffer(whole)
            .map_err(|e| io::Error::new(e.kind(), format!("invalid Zstandard file: {e}")))?;
        Box::new(BufReader::with_capacity(BUFFER, Limited::new(decoder, bytes)))
    // The magic number of gzip (RFC 1952, 2.3.1).
    } else if head.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::with_capacity(BUFFER, Limited::new(MultiGzDecoder::new(whole), bytes)))
    } else {
        Box::new(whole)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_does_not_expand_without_limit() {
        let (mut compressed, count) = CountedReader::new(&[0u8; 1000][..]);
        let mut expanded = Limited::new(io::repeat(b'x'), count).take(10 << 20);
        compressed.read_exact(&mut [0; 1000]).unwrap();
        let mut read = Vec::new();
        assert_eq!(expanded.read_to_end(&mut read).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(read.len() <= 1000 * 200 + (1 << 20), "{}", read.len());
    }
}
