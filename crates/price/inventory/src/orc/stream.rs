//! Bytes of a stream, decompressed chunk by chunk, and the run-length encodings of bytes and bits.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::read::DeflateDecoder;

use super::Problem;

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Chunks without compression.
    None,
    /// Raw DEFLATE, without a header.
    Zlib,
    /// Frames of Zstandard.
    Zstandard,
}

/// Largest chunk of a stream after decompression, in bytes. Writers use 64 KiB to 1 MiB.
pub const MAX_BLOCK: u64 = 16 << 20;

/// A file with its compression.
pub struct OrcFile {
    /// File that is read.
    pub file: File,
    /// Compression of all streams.
    pub compression: Compression,
    /// Largest size of a chunk after decompression, in bytes.
    pub block: u64,
}

/// Part of a file: a stream.
pub struct Stream {
    source: Arc<OrcFile>,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    position: usize,
}

impl Stream {
    /// Opens the bytes from `at` to `end`.
    pub fn new(source: &Arc<OrcFile>, at: u64, end: u64) -> Stream {
        Stream { source: Arc::clone(source), at, end, buffer: Vec::new(), position: 0 }
    }

    fn raw(&mut self, bytes: u64) -> Result<Vec<u8>, Problem> {
        if bytes > self.end - self.at {
            return Err("a stream ends early".into());
        }
        let mut out = vec![0; usize::try_from(bytes).map_err(|e| e.to_string())?];
        self.source.file.read_exact_at(&mut out, self.at).map_err(|e| e.to_string())?;
        self.at += bytes;
        Ok(out)
    }

    /// Reads the next chunk; false at the end.
    fn fill(&mut self) -> Result<bool, Problem> {
        if self.at >= self.end {
            return Ok(false);
        }
        self.position = 0;
        if self.source.compression == Compression::None {
            self.buffer = self.raw((self.end - self.at).min(256 * 1024))?;
            return Ok(true);
        }
        let head = self.raw(3)?;
        let head = u64::from(head[0]) | u64::from(head[1]) << 8 | u64::from(head[2]) << 16;
        let (bytes, is_original) = (head >> 1, head & 1 == 1);
        let chunk = self.raw(bytes)?;
        self.buffer = match (is_original, self.source.compression) {
            (true, _) | (false, Compression::None) => chunk,
            (false, Compression::Zlib) => limited(DeflateDecoder::new(chunk.as_slice()), self.source.block)?,
            (false, Compression::Zstandard) => {
                let decoder = zstd::Decoder::new(chunk.as_slice()).map_err(|e| e.to_string())?;
                limited(decoder, self.source.block)?
            }
        };
        Ok(true)
    }

    /// Returns the next byte; `None` at the end.
    pub fn next_byte(&mut self) -> Result<Option<u8>, Problem> {
        while self.position >= self.buffer.len() {
            if !self.fill()? {
                return Ok(None);
            }
        }
        self.position += 1;
        Ok(Some(self.buffer[self.position - 1]))
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> Result<u8, Problem> {
        self.next_byte()?.ok_or_else(|| "a stream ends early".into())
    }

    /// Appends the next bytes to a buffer.
    pub fn append(&mut self, mut bytes: usize, into: &mut Vec<u8>) -> Result<(), Problem> {
        while bytes > 0 {
            if self.position >= self.buffer.len() && !self.fill()? {
                return Err("a stream ends early".into());
            }
            let here = bytes.min(self.buffer.len() - self.position);
            into.extend_from_slice(&self.buffer[self.position..self.position + here]);
            self.position += here;
            bytes -= here;
        }
        Ok(())
    }

    /// Reads everything, at most `limit` bytes.
    pub fn whole(mut self, limit: usize) -> Result<Vec<u8>, Problem> {
        let mut out = Vec::new();
        while self.fill()? {
            out.append(&mut self.buffer);
            if out.len() > limit {
                return Err("its metadata is too large".into());
            }
        }
        Ok(out)
    }

    /// Returns a number in the variable-length encoding of protocol buffers.
    pub fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is too long".into())
    }
}

/// Reads at most `block` bytes.
fn limited(decoder: impl Read, block: u64) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::new();
    decoder.take(block + 1).read_to_end(&mut out).map_err(|e| e.to_string())?;
    match out.len() as u64 > block {
        true => Err("a chunk expands beyond the size of chunks".into()),
        false => Ok(out),
    }
}

/// Bits in runs of bytes: the rows that have a value.
pub struct Bits {
    from: Stream,
    /// Bytes left in the run, and the byte that repeats; `None` for literal bytes.
    run: (usize, Option<u8>),
    byte: u8,
    left: u8,
}

impl Bits {
    /// Creates the reader of a stream.
    pub fn new(from: Stream) -> Bits {
        Bits { from, run: (0, None), byte: 0, left: 0 }
    }

    fn next_byte(&mut self) -> Result<u8, Problem> {
        if self.run.0 == 0 {
            let control = self.from.byte()?;
            self.run = match control {
                0..128 => (usize::from(control) + 3, Some(self.from.byte()?)),
                literal => (256 - usize::from(literal), None),
            };
        }
        self.run.0 -= 1;
        self.run.1.map_or_else(|| self.from.byte(), Ok)
    }

    /// Returns the next bit.
    pub fn next(&mut self) -> Result<bool, Problem> {
        if self.left == 0 {
            (self.byte, self.left) = (self.next_byte()?, 8);
        }
        self.left -= 1;
        Ok(self.byte >> self.left & 1 == 1)
    }
}
