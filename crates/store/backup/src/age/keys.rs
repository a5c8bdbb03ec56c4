//! Keys of age: a file with one or several identities, as `age-keygen` writes it.

use std::path::Path;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use bech32::primitives::decode::CheckedHrpstring;

use super::AgeError;
use plimsoll_server::credentials::only_for_owner;

/// Length of keys and shares of X25519 in bytes.
pub const LENGTH: usize = 32;
/// Largest file of keys in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A secret key, with its public key.
pub struct Identity {
    secret: PrivateKey,
    public: [u8; LENGTH],
}

impl Identity {
    /// Creates an identity from a secret key.
    ///
    /// # Errors
    /// If the key is unusable.
    pub fn new(secret: &[u8]) -> Result<Identity, AgeError> {
        let secret = PrivateKey::from_private_key(&X25519, secret).map_err(|_| AgeError::Unusable)?;
        let public = secret.compute_public_key().map_err(|_| AgeError::Unusable)?;
        let public = public.as_ref().try_into().map_err(|_| AgeError::Unusable)?;
        Ok(Identity { secret, public })
    }

    /// Returns the public key.
    pub fn public(&self) -> [u8; LENGTH] {
        self.public
    }

    /// Derives the key that encrypts the key of a file, from the public key of the other side. `share` is the public
    /// key that the file has, and `recipient` the public key of its reader.
    ///
    /// # Errors
    /// If the public key is unusable.
    pub fn wrap_key(
        &self,
        other: &[u8; LENGTH],
        share: &[u8; LENGTH],
        recipient: &[u8; LENGTH],
    ) -> Result<[u8; LENGTH], AgeError> {
        let salt = [*share, *recipient].concat();
        let other = UnparsedPublicKey::new(&X25519, other);
        agree(&self.secret, other, AgeError::Unusable, |shared| {
            derive(shared, &salt, b"age-encryption.org/v1/X25519")
        })
    }
}

/// Derives a key of 32 bytes with HKDF-SHA-256.
///
/// # Errors
/// Never, for keys of this length.
pub fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Result<[u8; LENGTH], AgeError> {
    /// The length of a key for HKDF.
    struct Length;

    impl KeyType for Length {
        fn len(&self) -> usize {
            LENGTH
        }
    }

    let mut key = [0; LENGTH];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    let expanded = extracted.expand(&[info], Length).and_then(|expanded| expanded.fill(&mut key));
    expanded.map(|()| key).map_err(|_| AgeError::Unusable)
}

/// The keys of a file. The first one encrypts, and each of them decrypts.
pub struct Keys(Vec<Identity>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

impl Keys {
    /// Reads the keys in a file, which only its owner may read.
    ///
    /// # Errors
    /// A message for the user, without any content of the file.
    pub fn load(path: &Path) -> Result<Keys, String> {
        // Who can read this file can decrypt each object of the backup.
        only_for_owner(path)?;
        if std::fs::metadata(path).map_err(|e| e.to_string())?.len() > MAX_BYTES {
            return Err("it is too large for a file of keys".into());
        }
        Keys::parse(&std::fs::read_to_string(path).map_err(|e| e.to_string())?)
    }

    /// Parses the content of a file of keys: one key per line, empty lines and comments.
    ///
    /// # Errors
    /// A message for the user, without any content of the file.
    pub fn parse(text: &str) -> Result<Keys, String> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (number, line) = (index + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let problem = match line {
                line if line.starts_with("age1") => "a public key; the file needs the secret one",
                line if line.starts_with("AGE-ENCRYPTED") || line.starts_with("age-encryption.org") => {
                    "the file is encrypted itself; decrypt it first"
                }
                _ => "not a key that `age-keygen` writes (AGE-SECRET-KEY-1…)",
            };
            // The message does not contain the line, which may be a secret key with a typing error.
            keys.push(decode(line).ok_or_else(|| format!("line {number}: {problem}"))?);
        }
        if keys.is_empty() { Err("it has no key; `age-keygen` writes one".into()) } else { Ok(Keys(keys)) }
    }

    /// Returns the keys, of which the first one encrypts.
    pub fn identities(&self) -> &[Identity] {
        &self.0
    }
}

/// Returns the identity that a line has; `None` if it has none.
fn decode(line: &str) -> Option<Identity> {
    const PREFIX: &str = "age-secret-key-";
    let text = CheckedHrpstring::new::<bech32::Bech32>(line).ok()?;
    let is_secret = text.hrp().to_lowercase() == PREFIX;
    let secret: Vec<u8> = text.byte_iter().collect();
    (is_secret && secret.len() == LENGTH).then(|| Identity::new(&secret).ok()).flatten()
}
