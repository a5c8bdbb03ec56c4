//! Keys of the catalog.
//!
//! ```text
//! b NAME                            bucket
//! n                                 number of the next bucket
//! o BUCKET KEY 0                    current version of an object
//! o BUCKET KEY 1 ~GENERATION        other versions, from the newest to the oldest
//! u BUCKET KEY UPLOAD               unfinished upload
//! p UPLOAD PART                     part of an unfinished upload
//! x BLOB                            blob, and whether it is complete
//! s BLOB                            pack file, and its bodies in use
//! r TIME BUCKET KEY 1 ~GENERATION   version that has left its bucket at a time, and is kept
//! g TIME TIER NAME                  bytes of a blob that are garbage from a time on
//! i TIER NAME                       destination of an unfinished move
//! t NAME                            number of a tier
//! c                                 id and position of the catalog
//! d                                 budget of the day for moves
//! v                                 largest generation of a version that was deleted
//! q                                 progress of the verification in the background
//! w                                 time of the last backup
//! h                                 time of the last group of the log, if a backup follows it
//! l                                 leader and epoch of the background work
//! l SESSION                         session of a process
//! ```
//!
//! Numbers are big-endian. An object's key is escaped, so that the order of catalog keys is that of object keys: byte 0
//! becomes 0, 255, and 0, 1 ends the key.

use plimsoll_bodies::location::Location;
pub use plimsoll_bodies::name::BlobName;
pub use plimsoll_bodies::tier::keys::{TIERS, tier};
pub use plimsoll_catalog::keys::{BUCKETS, TIME};

/// Id of an upload.
pub type UploadId = [u8; 16];

/// Key of the number of the next bucket.
pub const NEXT_BUCKET: &[u8] = b"n";
/// Key of the largest generation of a version that was deleted.
pub const DELETED_GENERATION: &[u8] = b"v";
/// Key of the id and the position of the catalog.
pub const IDENTITY: &[u8] = b"c";
/// Key of the progress of the verification in the background.
pub const SCRUB: &[u8] = b"q";
/// Key of the time of the last backup of the catalog.
pub const BACKUP: &[u8] = b"w";
/// Key of what the moves of the day have cost.
pub const BUDGET: &[u8] = b"d";
/// Key of the leader, and prefix of the keys of sessions.
pub const LEASES: &[u8] = b"l";
/// Prefix of the keys of objects.
pub const OBJECTS: &[u8] = b"o";
/// Prefix of the keys of unfinished moves.
pub const INTENTS: &[u8] = b"i";
/// Prefix of the keys of blobs.
pub const BLOBS: &[u8] = b"x";
/// Prefix of the keys of pack files.
pub const PACK_FILES: &[u8] = b"s";
/// Prefix of the keys of versions that have left their buckets.
pub const RETAINED: &[u8] = b"r";
/// Prefix of the keys of blobs to delete.
pub const GARBAGE: &[u8] = b"g";

/// Returns the key of a bucket.
pub fn bucket(name: &str) -> Vec<u8> {
    [BUCKETS, name.as_bytes()].concat()
}

fn escape(out: &mut Vec<u8>, key: &str) {
    for byte in key.bytes() {
        out.push(byte);
        // Else a key with these bytes could look like the end of a shorter key.
        if byte == 0 {
            out.push(255);
        }
    }
}

fn start(kind: u8, bucket: u32, key: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 24);
    out.push(kind);
    out.extend_from_slice(&bucket.to_be_bytes());
    escape(&mut out, key);
    out
}

/// Returns the prefix of all versions of the objects in a bucket whose keys start with `prefix`.
pub fn objects(bucket: u32, prefix: &str) -> Vec<u8> {
    start(b'o', bucket, prefix)
}

/// Returns the number of the bucket of an object; `None` if `catalog_key` is not that of an object.
pub fn bucket_number(catalog_key: &[u8]) -> Option<u32> {
    catalog_key.strip_prefix(OBJECTS)?.get(..4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Returns the prefix of all versions of an object.
fn object(bucket: u32, key: &str) -> Vec<u8> {
    let mut out = start(b'o', bucket, key);
    out.extend_from_slice(&[0, 1]);
    out
}

/// Returns the key of the current version of an object.
pub fn current(bucket: u32, key: &str) -> Vec<u8> {
    let mut out = object(bucket, key);
    // 0 sorts before 1, so the current version comes before the others.
    out.push(0);
    out
}

/// Returns the prefix of the noncurrent versions of an object.
pub fn noncurrent(bucket: u32, key: &str) -> Vec<u8> {
    let mut out = object(bucket, key);
    out.push(1);
    out
}

/// Returns the key of a noncurrent version of an object.
pub fn version(bucket: u32, key: &str, generation: u64) -> Vec<u8> {
    let mut out = noncurrent(bucket, key);
    out.extend_from_slice(&(!generation).to_be_bytes());
    out
}

/// Returns the key of an object and true for its current version; `None` if `catalog_key`, which must begin with
/// [`OBJECTS`], is malformed.
pub fn parse_object(catalog_key: &[u8]) -> Option<(String, bool)> {
    let (key, rest) = parse_escaped(catalog_key.get(5..)?)?;
    Some((key, rest == [0]))
}

/// Returns the unescaped key at the start of `bytes`, and the bytes behind its end.
fn parse_escaped(bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut key = Vec::new();
    let mut rest = bytes;
    loop {
        match rest {
            [0, 255, tail @ ..] => {
                key.push(0);
                rest = tail;
            }
            [0, 1, tail @ ..] => return Some((String::from_utf8(key).ok()?, tail)),
            [byte, tail @ ..] if *byte != 0 => {
                key.push(*byte);
                rest = tail;
            }
            _ => return None,
        }
    }
}

/// Returns the prefix of the uploads in a bucket of keys that start with `prefix`.
pub fn uploads(bucket: u32, prefix: &str) -> Vec<u8> {
    start(b'u', bucket, prefix)
}

/// Returns the key of an unfinished upload.
pub fn upload(bucket: u32, key: &str, id: &UploadId) -> Vec<u8> {
    let mut out = start(b'u', bucket, key);
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(id);
    out
}

/// Returns the object's key and the id of an upload.
pub fn parse_upload(catalog_key: &[u8]) -> Option<(String, UploadId)> {
    let (key, rest) = parse_escaped(catalog_key.get(5..)?)?;
    Some((key, rest.try_into().ok()?))
}

/// Returns the prefix of the parts of an upload.
pub fn parts(id: &UploadId) -> Vec<u8> {
    [b"p", id.as_slice()].concat()
}

/// Returns the key of a part.
pub fn part(id: &UploadId, number: u32) -> Vec<u8> {
    // The protocol allows at most 10,000 parts (`number_of_part` in server/ops/multipart.rs), so the number fits.
    [b"p", id.as_slice(), &(number as u16).to_be_bytes()].concat()
}

/// Returns the key of a blob.
pub fn blob(name: &BlobName) -> Vec<u8> {
    [BLOBS, name.as_slice()].concat()
}

/// Returns the key of the counts of a pack file.
pub fn pack_file(name: &BlobName) -> Vec<u8> {
    [PACK_FILES, name.as_slice()].concat()
}

/// Returns the key of a session.
pub fn lease(session: u64) -> Vec<u8> {
    [LEASES, &session.to_be_bytes()].concat()
}

/// Returns the number of a session.
pub fn parse_lease(catalog_key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(catalog_key.strip_prefix(LEASES)?.try_into().ok()?))
}

/// Returns the key of an unfinished move to a place.
pub fn intent(destination: &Location) -> Vec<u8> {
    [INTENTS, &destination.encode()].concat()
}

/// Returns the key of a version that has left its bucket at a time in Unix milliseconds.
pub fn retained(at_ms: u64, bucket: u32, key: &str, generation: u64) -> Vec<u8> {
    [RETAINED, &at_ms.to_be_bytes(), &version(bucket, key, generation)].concat()
}

/// Returns the time in Unix milliseconds at which a version has left its bucket.
pub fn retained_since(catalog_key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(catalog_key.get(1..9)?.try_into().ok()?))
}

/// Returns the time in Unix milliseconds at which a version has left its bucket, the number of that bucket, and the
/// object's key.
pub fn parse_retained(catalog_key: &[u8]) -> Option<(u64, u32, String)> {
    // Behind the time is the key of a noncurrent version, also for one that was current.
    let version = catalog_key.get(9..)?;
    Some((retained_since(catalog_key)?, bucket_number(version)?, parse_object(version)?.0))
}

/// Returns the key of bytes that are garbage from a time in Unix milliseconds on.
pub fn garbage(at_ms: u64, location: &Location) -> Vec<u8> {
    [GARBAGE, &at_ms.to_be_bytes(), &location.encode()].concat()
}

/// Returns the time in Unix milliseconds and the place of bytes that are garbage.
pub fn parse_garbage(catalog_key: &[u8]) -> Option<(u64, Location)> {
    let time = catalog_key.get(1..9)?.try_into().ok()?;
    Some((u64::from_be_bytes(time), Location::decode(catalog_key.get(9..)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn catalog_keys_sort_like_object_keys(a in "[\0-\x03a-c\u{ff}]{0,6}", b in "[\0-\x03a-c\u{ff}]{0,6}") {
            prop_assert_eq!(a.as_bytes().cmp(b.as_bytes()), current(1, &a).cmp(&current(1, &b)));
            prop_assert_eq!(parse_object(&current(1, &a)), Some((a.clone(), true)));
            prop_assert_eq!(parse_object(&version(1, &a, 7)), Some((a.clone(), false)));
            if a != b {
                prop_assert!(!current(1, &a).starts_with(&noncurrent(1, &b)));
                // All versions of a key are together.
                prop_assert_eq!(version(1, &a, 7).cmp(&current(1, &b)), a.as_bytes().cmp(b.as_bytes()));
            }
        }
    }

    #[test]
    fn newer_versions_come_first() {
        assert!(current(1, "k") < version(1, "k", 9) && version(1, "k", 9) < version(1, "k", 8));
        assert_eq!(parse_upload(&upload(3, "k", &[7; 16])), Some(("k".into(), [7; 16])));
        assert_eq!(parse_retained(&retained(5, 3, "a\0b", 7)), Some((5, 3, "a\0b".into())));
        let place = Location::new(3, [9; 16]);
        assert_eq!(parse_garbage(&garbage(5, &place)), Some((5, place)));
    }
}
