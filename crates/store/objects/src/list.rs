//! Listings of objects and versions.

use plimsoll_catalog::intact;
use std::ops::Bound;

use plimsoll_server::error::ApiError;
use plimsoll_server::paging::{EntryCursor, page};
use plimsoll_server::service::{ListEntry, ListPage, ListQuery};

use super::error::for_client;
use super::placement::{ListedBodies, ListedBody};
use super::row::parse_version_id;
use super::version::head_of;
use super::{Bucket, Store, keys};
use plimsoll_catalog::{Catalog, CatalogError, Scan};

/// The objects or versions of a bucket in the order of a listing.
struct InOrder<'a> {
    scan: Box<dyn Scan + 'a>,
    bucket: u32,
    versions: bool,
    /// Position to move to before the next read.
    from: Option<Bound<Vec<u8>>>,
    /// True if the next entries are versions of the key of the last one that are not the current one.
    at_end: bool,
    /// Bodies of the entries; `None` if nobody needs them.
    bodies: Option<ListedBodies>,
    /// Version id `null` of this key: entries up to it are skipped.
    skip_to_null: Option<String>,
}

impl InOrder<'_> {
    fn read(&mut self) -> Result<Option<ListEntry>, CatalogError> {
        if self.at_end {
            return Ok(None);
        }
        if let Some(from) = self.from.take() {
            self.scan.seek(from.as_ref().map(Vec::as_slice))?;
        }
        let prefix = keys::objects(self.bucket, "");
        while let Some((catalog_key, row)) = self.scan.next()? {
            if !catalog_key.starts_with(&prefix) {
                break;
            }
            let (key, latest) = intact(keys::parse_object(&catalog_key))?;
            if !self.versions && !latest {
                continue;
            }
            let head = head_of(&row)?;
            if !self.versions && head.marker {
                continue;
            }
            if let Some(marker) = &self.skip_to_null {
                let is_marker = *marker == key && head.null;
                let is_behind = key > *marker;
                if is_marker || is_behind {
                    self.skip_to_null = None;
                }
                if !is_behind {
                    continue;
                }
            }
            let entry = head.listed(key, latest);
            if let Some(bodies) = &mut self.bodies {
                let name = (entry.key.clone(), entry.version.clone());
                bodies.insert(name, ListedBody { catalog_key, row, body: head.body });
            }
            return Ok(Some(entry));
        }
        self.at_end = true;
        Ok(None)
    }
}

impl EntryCursor for InOrder<'_> {
    fn seek(&mut self, from: Bound<String>) {
        self.at_end = false;
        self.from = Some(match from {
            Bound::Included(key) => Bound::Included(keys::objects(self.bucket, &key)),
            // Behind the last possible version of the key.
            Bound::Excluded(key) => Bound::Excluded(keys::version(self.bucket, &key, 0)),
            Bound::Unbounded => Bound::Included(keys::objects(self.bucket, "")),
        });
    }

    fn seek_after_version(&mut self, key: &str, version: &str) {
        self.at_end = false;
        self.from = Some(match parse_version_id(version) {
            // The marker may be the current version, which comes before all others.
            Some(generation) => Bound::Excluded(keys::version(self.bucket, key, generation)),
            None => {
                // The id `null` does not show the place of the version in the order.
                self.skip_to_null = Some(key.to_string());
                Bound::Included(keys::current(self.bucket, key))
            }
        });
    }

    fn next(&mut self) -> Result<Option<ListEntry>, ApiError> {
        self.read().map_err(for_client)
    }
}

impl<C: Catalog> Store<C> {
    pub(super) fn list_page(&self, bucket: &Bucket, query: &ListQuery<'_>) -> Result<ListPage, ApiError> {
        let mut entries = InOrder {
            scan: self.catalog.scan(),
            bucket: bucket.number,
            versions: query.versions,
            from: None,
            at_end: false,
            skip_to_null: None,
            // Without classes, a page needs no look-ups of places (docs/decisions/0043).
            bodies: (!self.class_names.is_empty()).then(ListedBodies::new),
        };
        let mut page = page(&mut entries, query)?;
        if let Some(bodies) = entries.bodies.take() {
            self.add_classes(&mut page, &bodies)?;
        }
        Ok(page)
    }
}
