//! Sets of objects, numbered from 0: those that a run writes, and those that were there before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::naming::{Naming, names_seed};
use super::payload::{Block, Cut};
use super::size::Size;
use crate::rng::{Stream, hash_name, mix};

/// A set of objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Name: the phase that writes it.
    pub name: String,
    /// Seed of the experiment: sizes and names are drawn from it.
    pub seed: u64,
    /// Objects in it.
    pub count: u64,
    /// Bytes of each.
    pub size: Size,
    /// How they are named.
    pub naming: Naming,
    /// How they are written.
    pub upload: Upload,
    /// Where the objects were before the run, when it did not write them.
    pub existing: Option<Existing>,
    /// Table of records, ending in `/`, and once the store is known what its keys begin with. The objects are kept, and found
    /// again by later runs. `None` for objects below the run's own prefix.
    pub at: Option<String>,
    /// How records are written, where they are no plain bytes.
    pub encoding: Option<Encoding>,
    /// Where their contents come from, when they are not made up.
    pub source: Option<Source>,
}

/// How objects are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Bytes of a part; 0 where each object is written by one request.
    pub part_size: u64,
    /// Parts on their way at once.
    pub in_flight: usize,
    /// The checksum that each request bears, by name; `None` leaves that to the store's own setting.
    pub checksum: Option<String>,
}

impl Default for Upload {
    fn default() -> Upload {
        Upload { part_size: 0, in_flight: 1, checksum: None }
    }
}

/// How records are written: a msgpack map from field names to their bytes, as go-ycsb writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// Fields of a record.
    pub fields: u32,
    /// Bytes of a field.
    pub length: u32,
    /// Whether an update writes all fields, or one and loses the others.
    pub writes_all: bool,
}

/// Where contents come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One file, the content of every object.
    File(PathBuf),
    /// A directory with one file per object, named as the object is.
    Directory(PathBuf),
}

/// Objects that were there before the run and are only read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// As written: `s3://bucket/prefix`, a prefix in the store's own bucket, or `keys:FILE`.
    pub location: String,
    /// What was found there; `None` until it was listed.
    pub found: Option<Arc<Found>>,
}

/// The size of an object of which nobody said how large it is.
pub const UNKNOWN_SIZE: u64 = u64::MAX;

/// Keys and sizes of objects, packed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    keys: String,
    ends: Vec<u64>,
    sizes: Vec<u64>,
}

impl Found {
    /// Adds an object.
    pub fn push(&mut self, key: &str, size: u64) {
        self.keys.push_str(key);
        self.ends.push(self.keys.len() as u64);
        self.sizes.push(size);
    }

    /// Number of objects.
    pub fn len(&self) -> u64 {
        self.sizes.len() as u64
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// The whole key of object `index`.
    pub fn key(&self, index: u64) -> &str {
        let index = index as usize;
        let begin = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.keys[begin..self.ends[index] as usize]
    }

    /// Bytes of object `index`.
    pub fn size(&self, index: u64) -> u64 {
        self.sizes[index as usize]
    }
}

impl Dataset {
    /// A dataset of objects of one size with sequential names.
    pub fn new(name: &str, seed: u64, count: u64, size: Size) -> Dataset {
        let (naming, name) = (Naming::default(), name.to_string());
        Dataset {
            name,
            seed,
            count,
            size,
            naming,
            upload: Upload::default(),
            existing: None,
            at: None,
            encoding: None,
            source: None,
        }
    }

    /// The same records below a store's own prefix: `<prefix>plimsoll/records-<table>/`.
    pub fn below(&self, prefix: &str) -> Dataset {
        Dataset { at: self.at.as_ref().map(|at| format!("{prefix}plimsoll/records-{at}")), ..self.clone() }
    }

    /// Identity from which payloads are cut.
    pub fn id(&self) -> u64 {
        hash_name(&self.name)
    }

    /// The objects that were there before, once they have been looked for.
    pub fn found(&self) -> Option<&Found> {
        self.existing.as_ref()?.found.as_deref()
    }

    /// Bytes of one version of object `index`.
    pub fn size_of(&self, index: u64, version: u64) -> u64 {
        match (self.found(), &self.size) {
            (Some(found), _) => found.size(index),
            (None, Size::Fixed(bytes)) => *bytes,
            (None, size) => match self.naming.record_number(index) {
                // As the content, a record's size depends on its key and version alone.
                Some(number) => size.draw(Stream::new(0, "record sizes"), mix(number).wrapping_add(version)),
                None => {
                    // The name's digest keeps the sizes of two datasets apart.
                    let stream = Stream::new(self.seed ^ self.id(), "sizes");
                    size.draw(stream, version.wrapping_mul(self.count.max(1)).wrapping_add(index))
                }
            },
        }
    }

    /// The content of one version of object `index`. That of a record depends on its key and version alone, because
    /// another run, with another seed and another first record, may have written it.
    pub fn content(&self, block: &Block, index: u64, version: u64) -> Cut {
        let size = self.size_of(index, version);
        match self.naming.record_number(index) {
            Some(number) => block.record(number, version, size),
            None => block.cut(self.id(), index, version, size),
        }
    }

    /// Writes the key of object `index` into `out`, which is cleared first; `root` is the run's own prefix.
    pub fn key_into(&self, out: &mut String, root: &str, index: u64) {
        out.clear();
        if let Some(found) = self.found() {
            out.push_str(found.key(index));
            return;
        }
        match &self.at {
            Some(at) => out.push_str(at),
            None => [root, &self.name, "/"].iter().for_each(|piece| out.push_str(piece)),
        }
        self.naming.name_into(out, names_seed(self.seed, self.id()), index);
    }

    /// The file that object `index` has its content from.
    pub fn file_of(&self, index: u64) -> Option<PathBuf> {
        match self.source.as_ref()? {
            Source::File(path) => Some(path.clone()),
            Source::Directory(path) => Some(self.file_in(path, index)),
        }
    }

    /// The file of a directory that is called as object `index`.
    pub fn file_in(&self, directory: &Path, index: u64) -> PathBuf {
        let mut name = String::new();
        self.naming.name_into(&mut name, names_seed(self.seed, self.id()), index);
        directory.join(name)
    }

    /// The prefix of all its keys.
    pub fn prefix(&self, root: &str) -> String {
        match (&self.existing, &self.at) {
            (Some(existing), _) => existing.prefix().to_string(),
            (None, Some(at)) => at.clone(),
            (None, None) => format!("{root}{}/", self.name),
        }
    }

    /// The number of the object with this key, when it is one that the dataset writes.
    pub fn index_of(&self, root: &str, key: &str) -> Option<u64> {
        let name = key.strip_prefix(root)?.strip_prefix(&self.name)?.strip_prefix('/')?;
        self.naming.index_of(names_seed(self.seed, self.id()), name)
    }
}

impl Existing {
    /// The file that names the keys, one a line, where one does.
    pub fn keys_file(&self) -> Option<&str> {
        self.location.strip_prefix("keys:")
    }

    /// The bucket, when the location names one.
    pub fn bucket(&self) -> Option<&str> {
        let place = self.location.split_once("://")?.1;
        Some(place.split_once('/').map_or(place, |(bucket, _)| bucket))
    }

    /// The prefix within the bucket.
    pub fn prefix(&self) -> &str {
        match self.location.split_once("://") {
            Some((_, place)) => place.split_once('/').map_or("", |(_, prefix)| prefix),
            None => &self.location,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_again_under_their_root_only() {
        let mut dataset = Dataset::new("objects", 42, 10, Size::Fixed(1));
        dataset.naming = Naming::hex();
        let mut key = String::new();
        dataset.key_into(&mut key, "p/plimsoll/r/", 7);
        assert!(key.starts_with("p/plimsoll/r/objects/") && key.ends_with("/00000007"));
        assert_eq!(dataset.index_of("p/plimsoll/r/", &key), Some(7));
        assert_eq!(dataset.index_of("p/plimsoll/r2/", &key), None);
        assert_eq!(dataset.index_of("p/plimsoll/r/", "p/plimsoll/r/objects2/00000007"), None);
    }

    #[test]
    fn what_was_there_before_keeps_its_keys_and_sizes() {
        let mut found = Found::default();
        [("a/x", 3), ("a/yy", 0), ("a/zzz", 1 << 40)].iter().for_each(|(key, size)| found.push(key, *size));
        let mut dataset = Dataset::new("there", 42, 3, Size::Fixed(1));
        dataset.existing = Some(Existing { location: "s3://b/a/".into(), found: Some(Arc::new(found)) });
        let mut key = String::new();
        dataset.key_into(&mut key, "root/", 1);
        assert_eq!((key.as_str(), dataset.size_of(1, 0), dataset.size_of(2, 0)), ("a/yy", 0, 1 << 40));
        assert_eq!(dataset.prefix("root/"), "a/");
        assert_eq!(dataset.existing.as_ref().and_then(Existing::bucket), Some("b"));
    }

    #[test]
    fn sizes_depend_on_object_and_version_alone() {
        let dataset = Dataset::new("d", 42, 100, Size::Uniform(1, 1 << 20));
        assert_eq!(dataset.size_of(5, 2), dataset.clone().size_of(5, 2));
        assert_ne!(dataset.size_of(5, 2), dataset.size_of(5, 3));
        assert_ne!(
            dataset.size_of(5, 0),
            Dataset::new("e", 42, 100, Size::Uniform(1, 1 << 20)).size_of(5, 0)
        );
    }
}
