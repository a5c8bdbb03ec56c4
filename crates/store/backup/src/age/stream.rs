//! Chunks of an age file, encrypted and decrypted while their bytes arrive.

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

use super::AgeError;
use super::header::{FileKey, random};
use super::keys::Keys;

/// Bytes of a chunk before it is encrypted.
pub const CHUNK: usize = 64 << 10;
/// Bytes that are added to a chunk.
const TAG: usize = 16;
/// Length of the nonce of a file in bytes.
const FILE_NONCE: usize = 16;

/// Key of the chunks, and the number of the next one.
struct Chunks {
    key: LessSafeKey,
    number: u64,
}

impl Chunks {
    fn new(key: LessSafeKey) -> Chunks {
        Chunks { key, number: 0 }
    }

    /// Returns the nonce of the next chunk: its number in 11 bytes, and 1 for the last one.
    fn nonce(&mut self, is_last: bool) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[3..11].copy_from_slice(&self.number.to_be_bytes());
        nonce[11] = u8::from(is_last);
        self.number += 1;
        // Each file has its own key, and no number is used twice.
        Nonce::assume_unique_for_key(nonce)
    }

    fn seal(&mut self, plain: &[u8], is_last: bool, out: &mut Vec<u8>) -> Result<(), AgeError> {
        let (nonce, start) = (self.nonce(is_last), out.len());
        out.extend_from_slice(plain);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut out[start..]);
        out.extend_from_slice(tag.map_err(|_| AgeError::Unusable)?.as_ref());
        Ok(())
    }

    fn open(&mut self, sealed: &[u8], is_last: bool, out: &mut Vec<u8>) -> Result<(), AgeError> {
        let (nonce, start) = (self.nonce(is_last), out.len());
        out.extend_from_slice(sealed);
        // This fails for a file that is cut off behind a chunk, which was not sealed as the last one.
        let opened = self.key.open_in_place(nonce, Aad::empty(), &mut out[start..]);
        let length = opened.map_err(|_| AgeError::Changed)?.len();
        out.truncate(start + length);
        Ok(())
    }
}

/// Encrypts bytes that arrive one part after the other.
pub struct Sealer {
    chunks: Chunks,
    start: Vec<u8>,
    /// Bytes of the next chunk.
    rest: Vec<u8>,
}

impl Sealer {
    /// Begins a file for the first of the keys.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(keys: &Keys) -> Result<Sealer, AgeError> {
        let recipient = keys.identities().first().ok_or(AgeError::Unusable)?;
        let (key, nonce) = (FileKey::new()?, random::<FILE_NONCE>()?);
        let start = [key.header(&recipient.public())?.as_bytes(), &nonce].concat();
        Ok(Sealer { chunks: Chunks::new(key.payload_key(&nonce)?), start, rest: Vec::new() })
    }

    /// Returns the bytes before the chunks.
    pub fn begin(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.start)
    }

    /// Encrypts further bytes into `out`.
    ///
    /// # Errors
    /// Never, for chunks of this length.
    pub fn add(&mut self, mut plain: &[u8], out: &mut Vec<u8>) -> Result<(), AgeError> {
        // A full chunk waits until it is known whether it is the last one.
        while self.rest.len() + plain.len() > CHUNK {
            let (now, later) = plain.split_at(CHUNK - self.rest.len());
            if self.rest.is_empty() {
                self.chunks.seal(now, false, out)?;
            } else {
                self.rest.extend_from_slice(now);
                self.chunks.seal(&self.rest, false, out)?;
                self.rest.clear();
            }
            plain = later;
        }
        self.rest.extend_from_slice(plain);
        Ok(())
    }

    /// Encrypts the last chunk into `out`.
    ///
    /// # Errors
    /// Never, for chunks of this length.
    pub fn end(&mut self, out: &mut Vec<u8>) -> Result<(), AgeError> {
        self.chunks.seal(&self.rest, true, out)
    }
}

/// Decrypts bytes that arrive one part after the other.
#[derive(Default)]
pub struct Opener {
    /// `None` until the header and the nonce are there.
    chunks: Option<Chunks>,
    rest: Vec<u8>,
}

impl Opener {
    /// Decrypts the chunks that further bytes complete into `out`.
    ///
    /// # Errors
    /// If the bytes are not what was encrypted, or none of the keys belongs to them.
    pub fn add(&mut self, keys: &Keys, sealed: &[u8], out: &mut Vec<u8>) -> Result<(), AgeError> {
        self.rest.extend_from_slice(sealed);
        if self.chunks.is_none() {
            let Some((key, length)) = FileKey::read(keys, &self.rest)? else { return Ok(()) };
            let Some(nonce) = self.rest.get(length..length + FILE_NONCE) else { return Ok(()) };
            self.chunks = Some(Chunks::new(key.payload_key(nonce)?));
            self.rest.drain(..length + FILE_NONCE);
        }
        let Some(chunks) = &mut self.chunks else { return Ok(()) };
        // The last chunk, which may be a full one, has at least one byte more behind its predecessor.
        let mut done = 0;
        while self.rest.len() - done > CHUNK + TAG {
            chunks.open(&self.rest[done..done + CHUNK + TAG], false, out)?;
            done += CHUNK + TAG;
        }
        self.rest.drain(..done);
        Ok(())
    }

    /// Decrypts the last chunk into `out`.
    ///
    /// # Errors
    /// If the file does not end here.
    pub fn end(self, out: &mut Vec<u8>) -> Result<(), AgeError> {
        let mut chunks = self.chunks.ok_or(AgeError::Changed)?;
        let is_empty = self.rest.len() == TAG;
        // Only a file without content has an empty chunk.
        if self.rest.len() < TAG || is_empty && chunks.number > 0 {
            return Err(AgeError::Changed);
        }
        chunks.open(&self.rest, true, out)
    }
}
