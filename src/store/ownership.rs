//! Proof that a key is Plimsoll's to delete.
//!
//! Every request that removes something takes an [`OwnedKey`] or [`OwnedKeys`]. Only a [`KeySpace`] makes them, and only of keys
//! below its own root. A key space is made of a run id, of the name of a table of records, or of the marker of a bucket that
//! `plimsoll bucket create` made. So no listing, however wrong, can make the program delete a foreign object.

use crate::clock::wall_now;
use crate::rng::entropy;
use crate::s3::message::Version;

/// Identity of a run: the second of its start and 48 random bits, `20261121T120000-0123456789ab`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// A new identity. 100 hosts that start in one second collide with a probability of 2 in 10^11.
    pub fn fresh() -> RunId {
        RunId::at(wall_now(), entropy())
    }

    /// The identity of a start and a salt, of which 48 bits are used. Hosts that share both share the identity.
    pub fn at(start: jiff::Timestamp, salt: u64) -> RunId {
        RunId(format!("{}-{:012x}", start.strftime("%Y%m%dT%H%M%S"), salt & 0xffff_ffff_ffff))
    }

    /// Reads an identity; earlier versions wrote four hexadecimal digits. `None` for any other text.
    pub fn parse(text: &str) -> Option<RunId> {
        let (start, salt) = text.split_once('-')?;
        let (date, time) = start.split_once('T')?;
        let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
        let hex = (4..=16).contains(&salt.len()) && salt.bytes().all(|b| b.is_ascii_hexdigit());
        (digits(date, 8) && digits(time, 6) && hex).then(|| RunId(text.to_string()))
    }

    /// The identity as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Prefix of the directory names of record tables; no run id begins with it.
const TABLE: &str = "records-";

/// The keys that Plimsoll may create and delete: those below one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpace {
    root: String,
}

impl KeySpace {
    /// Keys of one run: `<URL prefix>plimsoll/<run-id>/`.
    pub fn of_run(prefix: &str, id: &RunId) -> KeySpace {
        KeySpace { root: format!("{prefix}plimsoll/{id}/") }
    }

    /// Keys of a bucket that `plimsoll bucket create` made: all of them.
    pub fn of_bucket(_: &CreatedBucket) -> KeySpace {
        KeySpace { root: String::new() }
    }

    /// The key space that a run recorded: `.../plimsoll/<run-id>/`, or that of a table of records, which several runs share:
    /// `.../plimsoll/records-<table>/`. `None` for any other root.
    pub fn recorded(root: &str) -> Option<KeySpace> {
        let (parent, id) = root.strip_suffix('/')?.rsplit_once('/')?;
        let below = parent == "plimsoll" || parent.ends_with("/plimsoll");
        let known = RunId::parse(id).is_some() || id.strip_prefix(TABLE).is_some_and(is_table);
        (below && known).then(|| KeySpace { root: root.to_string() })
    }

    /// Returns true if it is that of one run, not that of a table or a bucket.
    pub fn is_of_run(&self) -> bool {
        let id = self.root.strip_suffix('/').and_then(|root| root.rsplit('/').next());
        id.is_some_and(|id| RunId::parse(id).is_some())
    }

    /// The prefix of all its keys; empty or ending in `/`.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The proof for one key; `None` outside the key space.
    pub fn own<'a>(&self, key: &'a str) -> Option<OwnedKey<'a>> {
        key.starts_with(&self.root).then_some(OwnedKey(key))
    }

    /// The proof for several keys; `None` if one of them is outside the key space.
    pub fn own_all<'a>(&self, keys: &'a [String]) -> Option<OwnedKeys<'a>> {
        keys.iter().all(|key| key.starts_with(&self.root)).then_some(OwnedKeys(keys))
    }
}

impl KeySpace {
    /// The proof for several versions; `None` if one of them is outside the key space.
    pub fn own_versions<'a>(&self, versions: &'a [Version]) -> Option<OwnedVersions<'a>> {
        versions.iter().all(|v| v.key.starts_with(&self.root)).then_some(OwnedVersions(versions))
    }
}

/// Returns true if a table of records can have this name: one to 100 letters, digits, dots, underscores and hyphens.
fn is_table(name: &str) -> bool {
    let fit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=100).contains(&name.len()) && name.bytes().all(fit) && name.bytes().any(|b| b != b'.')
}

/// A key that may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedKey<'a>(&'a str);

impl<'a> OwnedKey<'a> {
    /// The key.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// Keys that may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedKeys<'a>(&'a [String]);

impl<'a> OwnedKeys<'a> {
    /// The keys.
    pub fn as_slice(self) -> &'a [String] {
        self.0
    }

    /// The proof for each of them.
    pub fn each(self) -> impl Iterator<Item = OwnedKey<'a>> {
        self.0.iter().map(|key| OwnedKey(key))
    }
}

/// Versions that may be deleted for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedVersions<'a>(&'a [Version]);

impl<'a> OwnedVersions<'a> {
    /// The versions.
    pub fn as_slice(self) -> &'a [Version] {
        self.0
    }
}

/// The marker object of a bucket that `plimsoll bucket create` made.
#[derive(Debug)]
pub struct CreatedBucket(());

impl CreatedBucket {
    /// Key of the marker.
    pub const MARKER: &str = "created-by-plimsoll/bucket";

    /// Content of a new marker.
    pub fn content(version: &str) -> String {
        format!("plimsoll {version} created this bucket at {}\n", wall_now())
    }

    /// The proof that a marker's content gives; `None` if it is not one.
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

    /// An edited environment.json made `clean` delete what was not the run's.
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

    /// Sixteen random bits let 100 hosts that started in one second collide with a probability of 7%.
    #[test]
    fn run_ids_of_one_second_differ() {
        let ids: HashSet<String> = (0..10_000).map(|_| RunId::fresh().0).collect();
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
