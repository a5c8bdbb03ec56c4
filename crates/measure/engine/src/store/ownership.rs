//! Types that prove that Plimsoll may delete a key.
//!
//! Every request that deletes something takes an [`OwnedKey`], [`OwnedKeys`] or [`OwnedVersions`]. Only a
//! [`KeySpace`] creates them, and only for keys below its root. A key space is derived from a run ID, from the
//! name of a record table, or from the marker object of a bucket that `plimsoll bucket create` created.
//! Therefore even a wrong listing cannot make Plimsoll delete an object that it does not own.

use plimsoll_base::clock::wall_now;
use plimsoll_base::rng::entropy;
use plimsoll_s3::message::Version;

/// ID of a run: its start time to the second and 48 random bits, such as `20261121T120000-0123456789ab`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// Creates a new ID. The IDs of 100 hosts that start in the same second collide with a probability of 2 in
    /// 10^11.
    pub fn generate() -> RunId {
        RunId::at(wall_now(), entropy())
    }

    /// Creates the ID for a start time and the low 48 bits of a salt. Hosts with the same start and salt get
    /// the same ID.
    pub fn at(start: jiff::Timestamp, salt: u64) -> RunId {
        RunId(format!("{}-{:012x}", start.strftime("%Y%m%dT%H%M%S"), salt & 0xffff_ffff_ffff))
    }

    /// Parses an ID. The salt has 4 to 16 hexadecimal digits; new IDs have 12. Returns
    /// `None` for any other text.
    pub fn parse(text: &str) -> Option<RunId> {
        let (start, salt) = text.split_once('-')?;
        let (date, time) = start.split_once('T')?;
        let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
        let hex = (4..=16).contains(&salt.len()) && salt.bytes().all(|b| b.is_ascii_hexdigit());
        (digits(date, 8) && digits(time, 6) && hex).then(|| RunId(text.to_string()))
    }

    /// Returns the ID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Prefix of the directory names of record tables; no run ID begins with it.
const TABLE: &str = "records-";

/// The keys that Plimsoll may create and delete: all keys below one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpace {
    root: String,
}

impl KeySpace {
    /// Returns the key space of one run: `<URL prefix>plimsoll/<run-id>/`.
    pub fn of_run(prefix: &str, id: &RunId) -> KeySpace {
        KeySpace { root: format!("{prefix}plimsoll/{id}/") }
    }

    /// Returns the key space of a bucket that `plimsoll bucket create` created: all of its keys.
    pub fn of_bucket(_: &CreatedBucket) -> KeySpace {
        KeySpace { root: String::new() }
    }

    /// Parses the root of a key space that a run recorded: `.../plimsoll/<run-id>/`, or
    /// `.../plimsoll/records-<table>/` for a record table, which several runs can share. Returns `None` for any
    /// other root.
    pub fn recorded(root: &str) -> Option<KeySpace> {
        let (parent, id) = root.strip_suffix('/')?.rsplit_once('/')?;
        let below = parent == "plimsoll" || parent.ends_with("/plimsoll");
        let known = RunId::parse(id).is_some() || id.strip_prefix(TABLE).is_some_and(is_table);
        (below && known).then(|| KeySpace { root: root.to_string() })
    }

    /// Returns true if this is the key space of one run, not of a record table or a bucket.
    pub fn is_of_run(&self) -> bool {
        let id = self.root.strip_suffix('/').and_then(|root| root.rsplit('/').next());
        id.is_some_and(|id| RunId::parse(id).is_some())
    }

    /// Returns the prefix of all keys in the key space; empty or ending in `/`.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns proof for one key; `None` if the key is outside the key space.
    pub fn own<'a>(&self, key: &'a str) -> Option<OwnedKey<'a>> {
        key.starts_with(&self.root).then_some(OwnedKey(key))
    }

    /// Returns proof for several keys; `None` if any one of them is outside the key space.
    pub fn own_all<'a>(&self, keys: &'a [String]) -> Option<OwnedKeys<'a>> {
        keys.iter().all(|key| key.starts_with(&self.root)).then_some(OwnedKeys(keys))
    }
}

impl KeySpace {
    /// Returns proof for several object versions; `None` if any one of them is outside the key space.
    pub fn own_versions<'a>(&self, versions: &'a [Version]) -> Option<OwnedVersions<'a>> {
        versions.iter().all(|v| v.key.starts_with(&self.root)).then_some(OwnedVersions(versions))
    }
}

/// Returns true if the name is valid for a record table: 1 to 100 letters, digits, dots, underscores and
/// hyphens, and not only dots.
fn is_table(name: &str) -> bool {
    let fit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=100).contains(&name.len()) && name.bytes().all(fit) && name.bytes().any(|b| b != b'.')
}

/// A key that Plimsoll may delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedKey<'a>(&'a str);

impl<'a> OwnedKey<'a> {
    /// Returns the key as text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// Keys that Plimsoll may delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedKeys<'a>(&'a [String]);

impl<'a> OwnedKeys<'a> {
    /// Returns the keys as text.
    pub fn as_slice(self) -> &'a [String] {
        self.0
    }

    /// Returns an iterator over the individual keys, each with its proof.
    pub fn each(self) -> impl Iterator<Item = OwnedKey<'a>> {
        self.0.iter().map(|key| OwnedKey(key))
    }
}

/// Object versions that Plimsoll may permanently delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedVersions<'a>(&'a [Version]);

impl<'a> OwnedVersions<'a> {
    /// Returns the versions as a slice.
    pub fn as_slice(self) -> &'a [Version] {
        self.0
    }
}

/// Proof that `plimsoll bucket create` created a bucket, obtained from the bucket's marker object.
#[derive(Debug)]
pub struct CreatedBucket(());

impl CreatedBucket {
    /// Key of the marker object.
    pub const MARKER: &str = "created-by-plimsoll/bucket";

    /// Returns the content of a new marker object.
    pub fn content(version: &str) -> String {
        format!("plimsoll {version} created this bucket at {}\n", wall_now())
    }

    /// Returns the proof if `content` is the content of a marker object; otherwise `None`.
    pub fn proven_by(content: &[u8]) -> Option<CreatedBucket> {
        let text = std::str::from_utf8(content).ok()?;
        (text.starts_with("plimsoll ") && text.contains(" created this bucket at "))
            .then_some(CreatedBucket(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Regression test: with an edited environment.json, `clean` deleted objects that the run had not written.
    #[test]
    fn only_the_prefix_of_a_run_is_a_recorded_key_space() {
        for own in [
            "some/prefix/plimsoll/20261121T040505-21d7/",
            "plimsoll/20261121T040505-21d7/",
            "plimsoll/20261121T040505-0123456789ab/",
            "p/plimsoll/records-usertable/",
        ] {
            let space = KeySpace::recorded(own).unwrap();
            assert_eq!((space.root(), space.is_of_run()), (own, !own.contains("records")));
        }
        for foreign in [
            "",
            "/",
            "victim/",
            "plimsoll/",
            "plimsoll/20261121T040505-21d7",
            "victim/20261121T040505-21d7/",
            "notplimsoll/20261121T040505-21d7/",
            "plimsoll/20261121T040505-/",
            "plimsoll/../20261121T040505-21d7/x/",
            "plimsoll/usertable/",
            "plimsoll/records-/",
            "plimsoll/records-a b/",
            "plimsoll/records-a/../b/",
        ] {
            assert_eq!(KeySpace::recorded(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_key_space_owns_the_keys_below_its_root_and_no_others() {
        let id = RunId::parse("20261121T040505-0123456789ab").unwrap();
        let space = KeySpace::of_run("mine/", &id);
        assert_eq!(space.root(), "mine/plimsoll/20261121T040505-0123456789ab/");
        let ours = format!("{}d/00000001", space.root());
        assert_eq!(space.own(&ours).map(OwnedKey::as_str), Some(ours.as_str()));
        for foreign in ["", "mine/thesis.txt", "mine/plimsoll/20261121T040505-0123456789ac/d/1"] {
            assert_eq!(space.own(foreign), None, "{foreign}");
            assert_eq!(space.own_all(&[ours.clone(), foreign.to_string()]), None, "{foreign}");
        }
        assert_eq!(space.own_all(&[ours]).map(|keys| keys.as_slice().len()), Some(1));
    }

    /// With only 16 random bits, the IDs of 100 hosts that start in the same second would collide with a
    /// probability of 7%.
    #[test]
    fn run_ids_of_one_second_differ() {
        let ids: HashSet<String> = (0..10_000).map(|_| RunId::generate().0).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| RunId::parse(id).is_some()));
    }

    #[test]
    fn a_marker_proves_a_bucket_by_its_content() {
        assert!(CreatedBucket::proven_by(CreatedBucket::content("0.1.0").as_bytes()).is_some());
        for foreign in ["", "thesis", "created this bucket"] {
            assert!(CreatedBucket::proven_by(foreign.as_bytes()).is_none(), "{foreign}");
        }
    }
}
