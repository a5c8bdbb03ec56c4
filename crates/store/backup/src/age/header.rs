//! Header of an age file: the key of the file, encrypted for its recipients.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::AgeError;
use super::keys::{Identity, Keys, LENGTH, derive};

/// First line of a file.
pub const VERSION: &str = "age-encryption.org/v1";
/// Length of the key of a file in bytes.
const FILE_KEY: usize = 16;
/// Length of the encrypted key: a tag is added.
const WRAPPED: usize = FILE_KEY + 16;
/// Longest line of the body of a stanza.
const LINE: usize = 64;
/// Largest header in bytes: a stanza of X25519 has about 100.
pub const MAX_BYTES: usize = 16 << 10;

/// Key of a file.
pub struct FileKey([u8; FILE_KEY]);

/// Creates a cipher from a key.
///
/// # Errors
/// Never, for keys of this length.
pub fn cipher(key: &[u8; LENGTH]) -> Result<LessSafeKey, AgeError> {
    UnboundKey::new(&CHACHA20_POLY1305, key).map(LessSafeKey::new).map_err(|_| AgeError::Unusable)
}

/// Returns random bytes.
///
/// # Errors
/// If the system has none.
pub fn random<const N: usize>() -> Result<[u8; N], AgeError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| AgeError::Unusable)?;
    Ok(bytes)
}

impl FileKey {
    /// Creates a random key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> Result<FileKey, AgeError> {
        Ok(FileKey(random()?))
    }

    /// Derives the key of the chunks.
    ///
    /// # Errors
    /// Never: keys of all lengths can be derived from.
    pub fn payload_key(&self, nonce: &[u8]) -> Result<LessSafeKey, AgeError> {
        cipher(&derive(&self.0, nonce, b"payload")?)
    }

    /// Returns the header of a file with this key for a recipient.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn header(&self, recipient: &[u8; LENGTH]) -> Result<String, AgeError> {
        let ephemeral = Identity::new(&random::<LENGTH>()?)?;
        let share = ephemeral.public();
        let wrap = cipher(&ephemeral.wrap_key(recipient, &share, recipient)?)?;
        let mut wrapped = self.0.to_vec();
        // The key is used only once.
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        wrap.seal_in_place_append_tag(nonce, Aad::empty(), &mut wrapped).map_err(|_| AgeError::Unusable)?;
        let encode = |bytes: &[u8]| STANDARD_NO_PAD.encode(bytes);
        let text = format!("{VERSION}\n-> X25519 {}\n{}\n---", encode(&share), encode(&wrapped));
        let tag = hmac::sign(&self.mac_key()?, text.as_bytes());
        Ok(format!("{text} {}\n", encode(tag.as_ref())))
    }

    fn mac_key(&self) -> Result<hmac::Key, AgeError> {
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &derive(&self.0, &[], b"header")?))
    }

    /// Decrypts the key in a stanza; `None` if the stanza is for another recipient.
    fn unwrap(identity: &Identity, share: &[u8; LENGTH], wrapped: &[u8; WRAPPED]) -> Option<FileKey> {
        let wrap = cipher(&identity.wrap_key(share, share, &identity.public()).ok()?).ok()?;
        let mut key = wrapped.to_vec();
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let key = wrap.open_in_place(nonce, Aad::empty(), &mut key).ok()?;
        Some(FileKey((&*key).try_into().ok()?))
    }

    /// Reads the header at the start of a file. Returns the key of the file and the length of the header; `None` if the
    /// header is not complete.
    ///
    /// # Errors
    /// If it is not a header of age, none of the keys belongs to it, or it has changed.
    pub fn read(keys: &Keys, bytes: &[u8]) -> Result<Option<(FileKey, usize)>, AgeError> {
        let version = format!("{VERSION}\n");
        // An object that is not encrypted fails at its first bytes. Of a short part, only the start of the line can be
        // compared.
        if !bytes.starts_with(&version.as_bytes()[..version.len().min(bytes.len())]) {
            return Err(AgeError::NotEncrypted);
        }
        let Some(length) = length(bytes) else {
            return if bytes.len() > MAX_BYTES { Err(AgeError::Changed) } else { Ok(None) };
        };
        let text = std::str::from_utf8(&bytes[..length]).map_err(|_| AgeError::Changed)?;
        let (stanzas, tag) = text.rsplit_once("\n--- ").ok_or(AgeError::Changed)?;
        // The HMAC covers the header with these dashes, but without its own text.
        let signed = [stanzas, "\n---"].concat();
        let tag = STANDARD_NO_PAD.decode(tag.trim_end_matches('\n')).map_err(|_| AgeError::Changed)?;
        let shares = shares(stanzas).ok_or(AgeError::Changed)?;
        // With each key: after a change of keys, older objects are still encrypted for the older one.
        let each = shares.iter().flat_map(|stanza| keys.identities().iter().map(move |key| (key, stanza)));
        let mut found = each.filter_map(|(key, stanza)| FileKey::unwrap(key, &stanza.share, &stanza.wrapped));
        let key = found.next().ok_or(AgeError::OtherKey)?;
        // Only now, because the key of the HMAC is derived from the key of the file.
        hmac::verify(&key.mac_key()?, signed.as_bytes(), &tag).map_err(|_| AgeError::Changed)?;
        Ok(Some((key, length)))
    }
}

/// Returns the length of the header at the start of a file; `None` if its last line is not complete.
fn length(bytes: &[u8]) -> Option<usize> {
    let start = &bytes[..bytes.len().min(MAX_BYTES)];
    let last = start.windows(5).position(|window| window == b"\n--- ")? + 1;
    let end = start[last..].iter().position(|byte| *byte == b'\n')?;
    Some(last + end + 1)
}

/// Stanza of X25519.
struct Stanza {
    share: [u8; LENGTH],
    wrapped: [u8; WRAPPED],
}

/// Returns the stanzas of X25519 in a header; `None` if it is malformed. Stanzas of other kinds are for others.
fn shares(stanzas: &str) -> Option<Vec<Stanza>> {
    let mut lines = stanzas.split('\n').skip(1).peekable();
    let mut found = Vec::new();
    while let Some(first) = lines.next() {
        let mut words = first.strip_prefix("-> ")?.split(' ');
        let mut body = String::new();
        // A line that is shorter than others is the last one of a body.
        loop {
            let line = lines.next()?;
            body.push_str(line);
            match line.len() {
                LINE => {}
                ..LINE => break,
                _ => return None,
            }
        }
        let body = STANDARD_NO_PAD.decode(body).ok()?;
        if words.next()? != "X25519" {
            continue;
        }
        let share = STANDARD_NO_PAD.decode(words.next()?).ok()?;
        let stanza = Stanza { share: share.try_into().ok()?, wrapped: body.try_into().ok()? };
        words.next().is_none().then(|| found.push(stanza))?;
    }
    Some(found)
}
