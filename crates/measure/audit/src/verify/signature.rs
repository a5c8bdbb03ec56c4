//! Detached signature of a run: `SHA256SUMS.minisig`, a minisign signature of `SHA256SUMS`
//! (<https://jedisct1.github.io/minisign/>). `minisign -Sm SHA256SUMS` makes it.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minisign_verify::{PublicKey, Signature};
use plimsoll_base::files::{read_named_text, read_text};

use plimsoll_judge::run_dir::sums;

/// Name of the signature.
pub const NAME: &str = "SHA256SUMS.minisig";

/// Maximum length of a key or of a signature in bytes.
const MAX_TEXT: u64 = 4096;

/// Signature of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Key id as `minisign` prints it: 16 hexadecimal digits.
    pub key_id: String,
    /// Comment that the signature covers.
    pub comment: String,
    /// True if the signature was checked with a public key and is valid; false if no key was given.
    pub checked: bool,
}

/// Error of a public key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is no key, and no file has this path.
    #[error("{0}: neither a minisign public key nor a readable file ({1})")]
    Unreadable(String, io::Error),
    /// The file has no key.
    #[error("{0}: the file has no minisign public key; a line of it must be a key, such as RWQf6LRCGA9i...")]
    NoKey(String),
}

/// Reads a minisign public key: the key itself, or the path of a file that contains it.
///
/// # Errors
/// See [`KeyError`].
pub fn public_key(text: &str) -> Result<PublicKey, KeyError> {
    if let Ok(key) = PublicKey::from_base64(text.trim()) {
        return Ok(key);
    }
    let file = read_named_text(Path::new(text), MAX_TEXT);
    let file = file.map_err(|error| KeyError::Unreadable(text.into(), error))?;
    let key = file.lines().find_map(|line| PublicKey::from_base64(line.trim()).ok());
    key.ok_or_else(|| KeyError::NoKey(text.into()))
}

/// Returns the key id of a signature as `minisign` prints it; `None` if the text is no signature.
fn key_id(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text.lines().nth(1)?).ok()?;
    let id = bytes.get(2..10)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(id)))
}

/// Returns true if the text that no signature covers, the first line and the ends of lines, is what minisign, rsign2 or
/// the Go package of minisign writes by default.
fn is_usual(text: &str, id: &str) -> bool {
    let comments = [
        "signature from minisign secret key".to_string(),
        "signature from rsign secret key".to_string(),
        format!("signature from private key: {id}"),
    ];
    let first = text.lines().next().and_then(|line| line.strip_prefix("untrusted comment: "));
    first.is_some_and(|first| comments.iter().any(|comment| comment == first))
        && text.lines().count() == 4
        && text.ends_with('\n')
        && !text.contains('\r')
}

/// Checks the signature of a run. Returns `None` if it has none.
///
/// # Errors
/// The contradiction in words: the signature is damaged, is that of another list or of another key, or is missing
/// although a key was given.
pub fn check(run: &Path, key: Option<&PublicKey>) -> Result<Option<Signed>, String> {
    let text = match read_text(&run.join(NAME), MAX_TEXT) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing = || format!("there is no {NAME}: the run is not signed");
            return if key.is_some() { Err(missing()) } else { Ok(None) };
        }
        Err(error) => return Err(format!("{NAME}: {error}")),
    };
    let damaged = || format!("{NAME} was changed: it is no minisign signature");
    let id = key_id(&text).ok_or_else(damaged)?;
    let signature = Signature::decode(&text).map_err(|_| damaged())?;
    if !is_usual(&text, &id) {
        return Err(format!(
            "{NAME} has an unusual first line, or more than four lines, which no signature covers; sign without -c"
        ));
    }
    if let Some(key) = key {
        let list = read_text(&run.join(sums::NAME), sums::MAX_LIST);
        let list = list.map_err(|error| format!("{}: {error}", sums::NAME))?;
        key.verify(list.as_bytes(), &signature, true).map_err(|error| match error {
            minisign_verify::Error::UnexpectedKeyId => {
                format!("{NAME} is a signature of another key, {id}")
            }
            _ => format!("{NAME} does not match {} and the public key", sums::NAME),
        })?;
    }
    Ok(Some(Signed { key_id: id, comment: signature.trusted_comment().into(), checked: key.is_some() }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    const KEY: &str = "RWQHGKdU/YIZYaDU6fVOj3ATT72nxbCkfD/ZGKyYvuDoPrcIAvHO2HN6";
    const OTHER: &str = "RWTeRw5kHZtwSrtvKvdfbYWcXqdJ/u1ZC7HY4v02t56e9zNKero+bf/m";

    const LIST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  environment.json\n\
                        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  result.json\n";

    /// Made by minisign 0.10 with the secret key of [`KEY`].
    const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
        RUQHGKdU/YIZYRZgR12z225RCUcWo/7fpG77EPVVRRf6ejJpdAesLRatiuclo7xFljdXxZQ6Ug8s+5mZq6+348DYnliGui/QCAU=\n\
        trusted comment: run 7 of plimsoll\n\
        IyH9gEBg3nsl0pLICQt9u5Swf2t1amXt5JyyaRhIQSDKIefd+F+QR9p4k/Z2F9W3pmQpKOt3qXn+qmrrqdfdCQ==\n";

    /// Made by `minisign -l`, as versions before 0.8 did.
    const LEGACY: &str = "untrusted comment: signature from minisign secret key\n\
        RWQHGKdU/YIZYUVVl1FdwI+57fFzwUU5VQ/zLEaEN3u5BVmGNm8+NO2TUhndlgdkWzRM3UhF40ucdRIIkLmShhIh0YTn3452tAo=\n\
        trusted comment: timestamp:1795837465\tfile:SHA256SUMS\n\
        81pa1oEr+6Yfrr3LVjMVVMMpEJMkPZQsgBaJTliRiOb6PlVsBwbvvprLKm4MjztlhXAWLwQ8zF3sl9ei0K0+Bg==\n";

    fn signed(name: &str, signature: Option<&str>) -> PathBuf {
        let path = std::env::temp_dir().join(format!("plimsoll-signed-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(sums::NAME), LIST).unwrap();
        if let Some(signature) = signature {
            fs::write(path.join(NAME), signature).unwrap();
        }
        path
    }

    #[test]
    fn signatures_of_minisign_are_checked() {
        let (run, key) = (signed("minisign", Some(SIGNATURE)), public_key(KEY).unwrap());
        let found = check(&run, Some(&key)).unwrap().unwrap();
        let (id, comment) = ("611982FD54A71807".to_string(), "run 7 of plimsoll".to_string());
        assert_eq!(found, Signed { key_id: id, comment, checked: true });
        assert!(!check(&run, None).unwrap().unwrap().checked);
        let other = public_key(OTHER).unwrap();
        assert!(check(&run, Some(&other)).unwrap_err().contains("another key, 611982FD54A71807"));
        fs::write(run.join(sums::NAME), LIST.replace("environment", "environmenu")).unwrap();
        assert!(check(&run, Some(&key)).unwrap_err().contains("does not match SHA256SUMS"));
        fs::write(run.join(sums::NAME), LIST).unwrap();
        fs::write(run.join(NAME), LEGACY).unwrap();
        assert!(check(&run, Some(&key)).unwrap().unwrap().checked);
        fs::remove_dir_all(run).unwrap();
        let unsigned = signed("unsigned", None);
        assert_eq!(check(&unsigned, None), Ok(None));
        assert!(check(&unsigned, Some(&key)).unwrap_err().contains("not signed"));
        fs::remove_dir_all(unsigned).unwrap();
    }

    #[test]
    fn every_changed_bit_of_a_signature_is_found() {
        let (run, key) = (signed("bits", Some(SIGNATURE)), public_key(KEY).unwrap());
        for bit in 0..SIGNATURE.len() * 8 {
            let mut changed = SIGNATURE.as_bytes().to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            fs::write(run.join(NAME), &changed).unwrap();
            assert!(check(&run, Some(&key)).is_err(), "bit {bit}");
        }
        for changed in [&SIGNATURE[..SIGNATURE.len() - 1], &format!("{SIGNATURE}x\n"), &SIGNATURE[..60], ""] {
            fs::write(run.join(NAME), changed).unwrap();
            assert!(check(&run, Some(&key)).is_err(), "{changed}");
        }
        fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn a_key_is_a_text_or_a_file() {
        let run = signed("key", None);
        let file = run.join("plimsoll.pub");
        fs::write(&file, format!("untrusted comment: minisign public key 611982FD54A71807\n{KEY}\n"))
            .unwrap();
        assert_eq!(public_key(KEY).unwrap(), public_key(file.to_str().unwrap()).unwrap());
        assert!(matches!(public_key(run.join("none").to_str().unwrap()), Err(KeyError::Unreadable(..))));
        fs::write(&file, "no key\n").unwrap();
        assert!(matches!(public_key(file.to_str().unwrap()), Err(KeyError::NoKey(_))));
        fs::remove_dir_all(run).unwrap();
    }
}
