//! Encryption in the age format, version 1 (<https://age-encryption.org/v1>), with X25519 keys.
//!
//! An encrypted object is a usual age file, so that it can be read without this program: `age --decrypt -i KEYS FILE`.
//!
//! ```text
//! header     random key of the file, encrypted with a key that its recipient derives, and an HMAC of the header
//! nonce      16 random bytes
//! chunks     64 KiB each, the last one mostly less, with ChaCha20-Poly1305; nonces number them and mark the last one
//! ```

mod header;
pub mod keys;
pub mod stream;

use bytes::Bytes;

use self::keys::Keys;
use self::stream::{Opener, Sealer};

/// Reason why an object cannot be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AgeError {
    /// The object is not an age file.
    #[error("it is not encrypted in the age format")]
    NotEncrypted,
    /// No key of the file of keys belongs to it.
    #[error("it is encrypted for another key")]
    OtherKey,
    /// The object is not what was encrypted.
    #[error("it is cut off, or has changed since it was encrypted")]
    Changed,
    /// The system has no random numbers, or a key is unusable.
    #[error("it cannot be encrypted")]
    Unusable,
}

/// Encrypts an object for the first of the keys.
///
/// # Errors
/// If the system has no random numbers.
pub fn seal(keys: &Keys, plain: &[u8]) -> Result<Bytes, AgeError> {
    let mut sealer = Sealer::new(keys)?;
    let mut out = sealer.begin();
    sealer.add(plain, &mut out)?;
    sealer.end(&mut out)?;
    Ok(out.into())
}

/// Decrypts an object.
///
/// # Errors
/// If it is not what was encrypted, or none of the keys belongs to it.
pub fn open(keys: &Keys, sealed: &[u8]) -> Result<Bytes, AgeError> {
    let mut opener = Opener::default();
    let mut out = Vec::with_capacity(sealed.len());
    opener.add(keys, sealed, &mut out)?;
    opener.end(&mut out)?;
    Ok(out.into())
}

/// Decrypts the start of an object, of which `sealed` are the first bytes: all chunks that are complete. `is_whole` is
/// true if these are all its bytes.
///
/// # Errors
/// As [`open()`].
pub fn open_start(keys: &Keys, sealed: &[u8], is_whole: bool) -> Result<Bytes, AgeError> {
    if is_whole {
        return open(keys, sealed);
    }
    let mut opener = Opener::default();
    let mut out = Vec::with_capacity(sealed.len());
    opener.add(keys, sealed, &mut out)?;
    Ok(out.into())
}

#[cfg(test)]
mod tests;
