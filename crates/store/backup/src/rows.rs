//! Rows of a log that name bodies.

use std::collections::BTreeMap;

use plimsoll_bodies::location::{BlobHead, State};
use plimsoll_catalog::embedded::reader::ReadGroup;
use plimsoll_objects::keys;

/// Rows of the catalog that name bodies, after the groups that were added.
#[derive(Default)]
pub struct Rows {
    /// Complete blobs by their keys.
    pub blobs: BTreeMap<Vec<u8>, BlobHead>,
    /// Names of tiers by their numbers.
    pub tiers: BTreeMap<u16, String>,
}

impl Rows {
    /// Applies the changes of a group.
    pub fn add(&mut self, group: &ReadGroup) {
        for (record, ..) in group.records() {
            let Some(record) = record else { continue };
            if record.key.starts_with(keys::BLOBS) {
                let head = record.head.and_then(|head| BlobHead::decode(&head));
                match head.filter(|head| head.state == State::Complete) {
                    Some(head) => self.blobs.insert(record.key, head),
                    // No object needs the bytes of a blob that is not complete.
                    None => self.blobs.remove(&record.key),
                };
            } else if let Some(name) = record.key.strip_prefix(keys::TIERS) {
                let number = record.head.and_then(|head| Some(u16::from_be_bytes(*head.first_chunk()?)));
                self.tiers.extend(number.map(|number| (number, String::from_utf8_lossy(name).into_owned())));
            }
        }
    }
}
