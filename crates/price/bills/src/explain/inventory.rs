//! Inventories of buckets: objects and bytes by prefix and storage class, in bounded memory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::ExplainError;
use plimsoll_inventory::Listed;

/// Maximum number of prefixes; the objects of others are counted together.
const MAX_PREFIXES: usize = 10_000;
/// Name under which the objects of further prefixes are counted.
pub const OTHERS: &str = "(others)";
/// Minimum bytes that infrequent-access classes of S3 bill for an object, and that Intelligent-Tiering monitors.
pub const SMALL: u64 = 128 << 10;

/// Objects and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Objects {
    /// Number of objects.
    pub objects: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Number of objects smaller than 128 KiB.
    pub small_objects: u64,
    /// Sum of the sizes of objects smaller than 128 KiB.
    pub small_bytes: u64,
}

impl Objects {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes < SMALL {
            self.small_objects += 1;
            self.small_bytes += bytes;
        }
    }

    /// Adds other objects.
    pub fn merge(&mut self, other: &Objects) {
        self.objects += other.objects;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.small_objects += other.small_objects;
        self.small_bytes += other.small_bytes;
    }
}

/// Objects of a class, by prefix.
type ByPrefix = BTreeMap<Vec<u8>, Objects>;

/// Objects of inventories.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    depth: usize,
    /// Objects by class, with the access tier of Intelligent-Tiering, and prefix.
    classes: BTreeMap<String, ByPrefix>,
    prefixes: usize,
    /// Class and prefix that were counted last, with their objects since then.
    recent: (String, Vec<u8>, Objects),
    /// Number of delete markers and of rows without a size.
    pub without_size: u64,
}

/// Returns the part of a bucket and key up to the `depth`-th slash.
fn prefix<'a>(listed: &Listed<'a>, depth: usize, into: &mut Vec<u8>) {
    into.clear();
    if !listed.bucket.is_empty() {
        into.extend_from_slice(listed.bucket);
        into.push(b'/');
    }
    let slashes = listed.key.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
    let end = slashes.take(depth).last().unwrap_or(0);
    into.extend_from_slice(&listed.key[..end]);
}

impl Inventory {
    /// Creates an empty inventory that counts by the first `depth` parts of keys.
    pub fn new(depth: usize) -> Inventory {
        Inventory { depth, ..Inventory::default() }
    }

    /// Adds an object.
    fn add(&mut self, listed: &Listed<'_>, name: &mut Vec<u8>) {
        let Some(bytes) = listed.bytes else {
            self.without_size += 1;
            return;
        };
        prefix(listed, self.depth, name);
        let class = class_of(listed);
        // Most neighbours have the same prefix and class.
        let same =
            self.recent.2.objects > 0 && self.recent.1 == *name && is_class(&self.recent.0, listed, class);
        if !same {
            self.settle();
            let class = match listed.tier {
                [] => class.to_string(),
                tier => format!("{class} {}", String::from_utf8_lossy(tier)),
            };
            self.recent = (class, name.clone(), Objects::default());
        }
        self.recent.2.add(bytes);
    }

    /// Moves the objects that were counted last to their prefix.
    fn settle(&mut self) {
        let (class, prefix, objects) = std::mem::take(&mut self.recent);
        if objects.objects == 0 {
            return;
        }
        let prefixes = self.classes.entry(class).or_default();
        if let Some(known) = prefixes.get_mut(&prefix) {
            return known.merge(&objects);
        }
        let name = if self.prefixes >= MAX_PREFIXES { OTHERS.as_bytes().to_vec() } else { prefix };
        if !prefixes.contains_key(&name) {
            self.prefixes += 1;
        }
        prefixes.entry(name).or_default().merge(&objects);
    }

    /// Returns the objects by class.
    pub fn classes(&self) -> BTreeMap<String, Objects> {
        let sum = |prefixes: &ByPrefix| {
            let mut all = Objects::default();
            prefixes.values().for_each(|objects| all.merge(objects));
            all
        };
        self.classes.iter().map(|(class, prefixes)| (class.clone(), sum(prefixes))).collect()
    }

    /// Returns the objects by class and prefix.
    pub fn by_prefix(&self) -> impl Iterator<Item = (&str, String, &Objects)> {
        self.classes.iter().flat_map(|(class, prefixes)| {
            let name = |prefix: &Vec<u8>| String::from_utf8_lossy(prefix).into_owned();
            prefixes.iter().map(move |(prefix, objects)| (class.as_str(), name(prefix), objects))
        })
    }
}

/// Returns the storage class of an object.
fn class_of<'a>(listed: &Listed<'a>) -> &'a str {
    match std::str::from_utf8(listed.class) {
        Ok("") | Err(_) => "STANDARD",
        Ok(class) => class,
    }
}

/// Returns true if a name consists of the class and the tier of an object.
fn is_class(name: &str, listed: &Listed<'_>, class: &str) -> bool {
    match (listed.tier, name.strip_prefix(class)) {
        ([], Some("")) => true,
        (tier, Some(rest)) => rest.as_bytes().strip_prefix(b" ") == Some(tier),
        (_, None) => false,
    }
}

/// Counts the objects of listings: see [`plimsoll_inventory::read`].
///
/// # Errors
/// If a file cannot be read or has another format, or there is no object.
pub fn read(paths: &[PathBuf], depth: usize) -> Result<Inventory, ExplainError> {
    let (mut inventory, mut name) = (Inventory::new(depth), Vec::new());
    plimsoll_inventory::read::<ExplainError>(paths, &mut |listed| {
        inventory.add(listed, &mut name);
        Ok(())
    })?;
    inventory.settle();
    Ok(inventory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, depth: usize) -> Result<Inventory, ExplainError> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plimsoll-inventory-{}-{number}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let result = read(std::slice::from_ref(&path), depth);
        std::fs::remove_file(&path).unwrap();
        result
    }

    #[test]
    fn an_inventory_of_s3_needs_no_names_of_columns() {
        let inventory = of(
            "\"b\",\"a/x+y%2F.txt\",\"300000\",\"2024-08-15T15:28:26.000Z\",\"STANDARD_IA\",\"\"\n\
             \"b\",\"a/z\",\"100\",\"2024-08-15T15:28:26.000Z\",\"STANDARD_IA\",\"\"\n\
             \"b\",\"c\",\"7\",\"2024-08-15T15:28:26.000Z\",\"INTELLIGENT_TIERING\",\"INFREQUENT\"\n\
             \"b\",\"d\",\"\",\"2024-08-15T15:28:26.000Z\",\"\",\"\"\n",
            1,
        )
        .unwrap();
        let classes = inventory.classes();
        let expected = Objects { objects: 2, bytes: 300_100, small_objects: 1, small_bytes: 100 };
        assert_eq!(classes["STANDARD_IA"], expected);
        assert_eq!(classes["INTELLIGENT_TIERING INFREQUENT"].bytes, 7);
        let prefixes: Vec<_> =
            inventory.by_prefix().map(|(_, prefix, objects)| (prefix, objects.objects)).collect();
        assert_eq!(prefixes, [("b/".to_string(), 1), ("b/a/".to_string(), 2)]);
        assert_eq!(inventory.without_size, 1);
    }

    #[test]
    fn a_listing_and_a_table_with_names_are_inventories() {
        let listing = "2020-11-02 15:48:28        146 tmp/meta data\n2020-11-02 15:48:26   11639123 tmp/test.sql\n\n\
                       Total Objects: 2\n   Total Size: 11639269\n";
        let inventory = of(listing, 1).unwrap();
        assert_eq!(inventory.classes()["STANDARD"].bytes, 11_639_269);
        assert_eq!(inventory.by_prefix().next().unwrap().1, "tmp/");
        let human = "2020-11-02 15:48:28  146 Bytes a\n2020-11-02 15:48:26   11.1 MiB b\n";
        let error = of(human, 0).unwrap_err().to_string();
        assert!(error.contains("without --human-readable"), "{error}");
        let google = "project,bucket,name,size,storageClass\n1,b,x/y/z,5,NEARLINE\n1,b,x/q,6,\n";
        let inventory = of(google, 2).unwrap();
        assert_eq!(inventory.classes()["NEARLINE"].bytes, 5);
        assert_eq!(
            inventory.by_prefix().map(|(_, prefix, _)| prefix).collect::<Vec<_>>(),
            ["b/x/y/", "b/x/"]
        );
        assert!(of("a,b\nc,d\n", 0).is_err() && of("", 0).is_err());
    }

    #[test]
    fn further_prefixes_are_counted_together() {
        let text: String =
            (0..MAX_PREFIXES + 5).map(|n| format!("\"b\",\"{n}/x\",\"1\",\"STANDARD\"\n")).collect();
        let inventory = of(&text, 1).unwrap();
        let others: u64 =
            inventory.by_prefix().filter(|(_, prefix, _)| prefix == OTHERS).map(|(_, _, o)| o.objects).sum();
        assert_eq!((others, inventory.classes()["STANDARD"].objects), (5, MAX_PREFIXES as u64 + 5));
    }
}
