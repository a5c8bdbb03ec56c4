//! Listings of the objects in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::object::{Object, Objects};
use super::state::Bucket;
use super::versions::Noncurrent;
use plimsoll_base::net::encode::hex;
use plimsoll_s3::sign::sha256;
use plimsoll_server::error::ApiError;
use plimsoll_server::paging::{EntryCursor, page};
use plimsoll_server::service::{ListEntry, ListPage, ListQuery};

fn listed(key: &str, object: &Object, latest: bool) -> ListEntry {
    let info = &object.info;
    ListEntry {
        key: key.to_string(),
        size: info.size,
        etag: info.etag().to_string(),
        modified: info.modified,
        checksum: info.checksum.as_ref().map(|c| (c.algorithm, c.full_object)),
        version: object.version().to_string(),
        latest,
        marker: object.is_marker,
        storage_class: None,
    }
}

/// Objects in key order, and with `noncurrent` all their versions, the newest first.
struct InOrder<'a> {
    objects: &'a Objects,
    noncurrent: Option<&'a Noncurrent>,
    from: Bound<String>,
    /// Key whose noncurrent versions come next, from a position on.
    versions: Option<(String, usize)>,
}

impl<'a> InOrder<'a> {
    fn of(objects: &'a Objects, noncurrent: Option<&'a Noncurrent>) -> InOrder<'a> {
        InOrder { objects, noncurrent, from: Bound::Unbounded, versions: None }
    }

    /// Returns the next noncurrent version of a key; `None` if there is none.
    fn next_version(&mut self) -> Option<ListEntry> {
        let (key, at) = self.versions.take()?;
        let listed = listed(&key, self.noncurrent?.get(&key)?.get(at)?, false);
        self.versions = Some((key, at + 1));
        Some(listed)
    }
}

impl EntryCursor for InOrder<'_> {
    fn seek(&mut self, from: Bound<String>) {
        self.from = from;
        self.versions = None;
    }

    fn seek_after_version(&mut self, key: &str, version: &str) {
        self.from = Bound::Excluded(key.to_string());
        let others = self.noncurrent.and_then(|noncurrent| noncurrent.get(key));
        let is_current = self.objects.get(key).is_some_and(|current| current.version() == version);
        let at = match others.and_then(|others| others.iter().position(|object| object.version() == version))
        {
            _ if is_current => Some(0),
            Some(at) => Some(at + 1),
            None => None,
        };
        self.versions = at.map(|at| (key.to_string(), at));
    }

    fn next(&mut self) -> Result<Option<ListEntry>, ApiError> {
        if let Some(version) = self.next_version() {
            return Ok(Some(version));
        }
        let range = (self.from.clone(), Bound::Unbounded);
        let lists_markers = self.noncurrent.is_some();
        let mut objects = self.objects.range::<String, _>(range);
        let Some((key, object)) = objects.find(|(_, object)| lists_markers || !object.is_marker) else {
            return Ok(None);
        };
        self.from = Bound::Excluded(key.clone());
        self.versions = lists_markers.then(|| (key.clone(), 0));
        Ok(Some(listed(key, object, true)))
    }
}

/// Returns a page of the objects in a bucket. If listings are stale, some changes are not visible yet.
pub fn list(bucket: &Bucket, query: &ListQuery<'_>, is_stale: bool) -> Result<ListPage, ApiError> {
    if bucket.info.directory && !query.versions {
        return Ok(unordered(bucket, query));
    }
    let objects = bucket.objects();
    if is_stale {
        let objects = bucket.past().objects(&objects);
        return page(&mut InOrder::of(&objects, None), query);
    }
    let noncurrent = query.versions.then(|| bucket.noncurrent());
    page(&mut InOrder::of(&objects, noncurrent.as_deref()), query)
}

/// Returns the sort key of a key or common prefix in a directory bucket's listings: a digest, so that clients
/// cannot rely on the order.
fn position(name: &str) -> String {
    hex(&sha256(name.as_bytes())[..8])
}

/// Returns a page of a directory bucket, in no meaningful order. With a delimiter, the page also contains common
/// prefixes that occur only in unfinished uploads.
fn unordered(bucket: &Bucket, query: &ListQuery<'_>) -> ListPage {
    let (prefix, delimiter) = (query.prefix, query.delimiter);
    let common = |key: &str| {
        let rest = key.strip_prefix(prefix)?;
        let cut = rest.find(delimiter).filter(|_| !delimiter.is_empty())?;
        Some(format!("{prefix}{}", &rest[..cut + delimiter.len()]))
    };
    // Lock the uploads before the objects, as everywhere.
    let uploads = bucket.uploads();
    let objects = bucket.objects();
    let mut entries: BTreeMap<(String, String), Option<Arc<Object>>> = BTreeMap::new();
    for (key, object) in objects.range::<String, _>(prefix.to_string()..) {
        if !key.starts_with(prefix) {
            break;
        }
        match common(key) {
            Some(common) => entries.insert((position(&common), common), None),
            None => entries.insert((position(key), key.clone()), Some(Arc::clone(object))),
        };
    }
    for (key, _) in uploads.keys() {
        if let Some(common) = common(key) {
            entries.insert((position(&common), common), None);
        }
    }
    let mut rest = entries.into_iter().filter(|((position, _), _)| position.as_str() > query.after);
    let mut page = ListPage::default();
    let mut last = None;
    for ((position, name), object) in rest.by_ref().take(query.most) {
        match object {
            Some(object) => page.objects.push(listed(&name, &object, true)),
            None => page.prefixes.push(name),
        }
        last = Some(position);
    }
    page.next = last.filter(|_| rest.next().is_some());
    page
}
