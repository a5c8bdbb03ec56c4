//! Datasets: sets of objects, numbered from 0, that a run writes or that existed before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::naming::{Naming, names_seed};
use super::payload::{Block, Cut};
use super::reduction::Reduction;
use super::size::Size;
use plimsoll_base::rng::{Stream, hash_name, mix};

/// A set of objects, numbered from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Name of the dataset: the name of the phase that writes it.
    pub name: String,
    /// Seed of the experiment, from which sizes and names are drawn.
    pub seed: u64,
    /// Number of objects.
    pub count: u64,
    /// Size of the objects, fixed or a distribution.
    pub size: Size,
    /// Naming scheme of the objects.
    pub naming: Naming,
    /// Settings of uploads.
    pub upload: Upload,
    /// Location of objects that existed before the run; `None` for records and for objects that the run writes.
    pub existing: Option<Existing>,
    /// Table of records, ending in `/`. Once the store is known, this is the prefix of the table's keys. Later runs
    /// can use the records again. `None` for objects below the run's own prefix.
    pub at: Option<String>,
    /// Encoding of records; `None` for plain bytes.
    pub encoding: Option<Encoding>,
    /// Source of the contents; `None` if they are generated.
    pub source: Option<ContentSource>,
    /// Savings of compression and deduplication; `None` for contents that are cut from one block.
    pub reduction: Option<Reduction>,
}

/// Settings of uploads: parts and checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Part size, in bytes; 0 if each object is written by one request.
    pub part_size: u64,
    /// Number of parts of one object in flight at the same time.
    pub in_flight: usize,
    /// Name of the checksum sent with each upload; `None` for the setting of the store.
    pub checksum: Option<String>,
}

impl Default for Upload {
    fn default() -> Upload {
        Upload { part_size: 0, in_flight: 1, checksum: None }
    }
}

/// Encoding of a record as a msgpack map from field names to bytes, as go-ycsb writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// Number of fields in a record.
    pub fields: u32,
    /// Length of a field, in bytes.
    pub length: u32,
    /// True if an update writes all fields; false if it writes one field, which removes the others from the record.
    pub writes_all: bool,
}

/// Source of the contents of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentSource {
    /// One file, which is the content of every object.
    File(PathBuf),
    /// A directory with one file per object, named like the object.
    Directory(PathBuf),
}

/// Objects that existed before the run and are only read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// Location as written: `s3://bucket/prefix`, a prefix in the store's own bucket, or `keys:FILE`.
    pub location: String,
    /// Objects found at the location; `None` until it has been listed.
    pub found: Option<Arc<FoundObjects>>,
}

/// Keys and sizes of existing objects, stored compactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundObjects {
    keys: String,
    ends: Vec<u64>,
    sizes: Vec<u64>,
}

impl FoundObjects {
    /// Adds an object.
    pub fn push(&mut self, key: &str, size: u64) {
        self.keys.push_str(key);
        self.ends.push(self.keys.len() as u64);
        self.sizes.push(size);
    }

    /// Returns the number of objects.
    pub fn len(&self) -> u64 {
        self.sizes.len() as u64
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Returns the full key of object `index`.
    pub fn key(&self, index: u64) -> &str {
        let index = index as usize;
        let begin = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.keys[begin..self.ends[index] as usize]
    }

    /// Returns the size of object `index` in bytes, or [`UNKNOWN_SIZE`].
    pub fn size(&self, index: u64) -> u64 {
        self.sizes[index as usize]
    }
}

impl Dataset {
    /// Creates a dataset with sequential names and generated contents.
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
            reduction: None,
        }
    }

    /// Returns the dataset with contents of which compression can remove the share `compressible`, and of which `dedup`
    /// objects have the same.
    pub fn reducible(self, compressible: f64, dedup: f64) -> Dataset {
        Dataset { reduction: Some(Reduction::new(compressible, dedup, self.count)), ..self }
    }

    /// Returns a copy whose records are below the prefix of a store: `<prefix>plimsoll/records-<table>/`.
    pub fn below(&self, prefix: &str) -> Dataset {
        Dataset { at: self.at.as_ref().map(|at| format!("{prefix}plimsoll/records-{at}")), ..self.clone() }
    }

    /// Returns the number that identifies the dataset when payloads are cut.
    pub fn id(&self) -> u64 {
        hash_name(&self.name)
    }

    /// Returns the objects that existed before the run; `None` if the run writes the objects, or if they
    /// have not been listed yet.
    pub fn found(&self) -> Option<&FoundObjects> {
        self.existing.as_ref()?.found.as_deref()
    }

    /// Returns the size of one version of object `index`, in bytes.
    pub fn size_of(&self, index: u64, version: u64) -> u64 {
        match (self.found(), &self.size) {
            (Some(found), _) => found.size(index),
            (None, Size::Fixed(bytes)) => *bytes,
            (None, Size::Recorded(trace)) => trace.size(index, version),
            (None, Size::List(list)) => {
                let index = self.reduction.as_ref().map_or(index, |reduction| reduction.first_like(index));
                list[index as usize % list.len()]
            }
            (None, size) => match self.naming.record_number(index) {
                // Like the content, the size of a record depends only on its key and version.
                Some(number) => size.draw(Stream::new(0, "record sizes"), mix(number).wrapping_add(version)),
                None => {
                    // The digest of the name makes the sizes of two datasets differ.
                    let stream = Stream::new(self.seed ^ self.id(), "sizes");
                    // Objects with the same content have the same size.
                    let (index, count) = match &self.reduction {
                        Some(reduction) => (reduction.first_like(index), reduction.distinct()),
                        None => (index, self.count.max(1)),
                    };
                    let position = ((index % count) as f64 + 0.5) / count as f64;
                    size.draw_at(stream, version.wrapping_mul(count).wrapping_add(index), position)
                }
            },
        }
    }

    /// Returns the content of one version of object `index`. The content of a record depends only on its key and
    /// version, because a run with another seed and another first record may have written it.
    pub fn content(&self, block: &Block, index: u64, version: u64) -> Cut {
        let size = self.size_of(index, version);
        match (self.naming.record_number(index), &self.reduction) {
            (Some(number), _) => block.record(number, version, size),
            (None, Some(reduction)) => {
                let cut = block.cut(self.id(), reduction.first_like(index), version, size);
                cut.generated(reduction.compressible)
            }
            (None, None) => block.cut(self.id(), index, version, size),
        }
    }

    /// Replaces the content of `out` with the key of object `index`; `root` is the prefix of the run.
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

    /// Returns the file with the content of object `index`; `None` if the content is generated.
    pub fn file_of(&self, index: u64) -> Option<PathBuf> {
        match self.source.as_ref()? {
            ContentSource::File(path) => Some(path.clone()),
            ContentSource::Directory(path) => Some(self.file_in(path, index)),
        }
    }

    /// Returns the file in a directory that has the name of object `index`.
    pub fn file_in(&self, directory: &Path, index: u64) -> PathBuf {
        let mut name = String::new();
        self.naming.name_into(&mut name, names_seed(self.seed, self.id()), index);
        directory.join(name)
    }

    /// Returns the common prefix of all keys; `root` is the prefix of the run.
    pub fn prefix(&self, root: &str) -> String {
        match (&self.existing, &self.at) {
            (Some(existing), _) => existing.prefix().to_string(),
            (None, Some(at)) => at.clone(),
            (None, None) => format!("{root}{}/", self.name),
        }
    }

    /// Returns the number of the object with this key; `None` if the key does not belong to the dataset.
    pub fn index_of(&self, root: &str, key: &str) -> Option<u64> {
        let name = key.strip_prefix(root)?.strip_prefix(&self.name)?.strip_prefix('/')?;
        self.naming.index_of(names_seed(self.seed, self.id()), name)
    }
}

impl Existing {
    /// Returns the path of the file with the keys, one per line; `None` if the location is not a file.
    pub fn keys_file(&self) -> Option<&str> {
        self.location.strip_prefix("keys:")
    }

    /// Returns the bucket; `None` if the location does not name one.
    pub fn bucket(&self) -> Option<&str> {
        let place = self.location.split_once("://")?.1;
        Some(place.split_once('/').map_or(place, |(bucket, _)| bucket))
    }

    /// Returns the prefix within the bucket.
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
    fn keys_are_recognised_only_below_their_root() {
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
    fn existing_objects_keep_their_keys_and_sizes() {
        let mut found = FoundObjects::default();
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
