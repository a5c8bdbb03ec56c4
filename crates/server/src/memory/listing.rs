//! Listings of the objects in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::object::{Object, Objects};
use super::state::Bucket;
use crate::error::ApiError;
use crate::paging::{EntryCursor, page};
use crate::service::{ListPage, ListQuery, Listed};
use plimsoll_base::net::encode::hex;
use plimsoll_s3::sign::sha256;

fn listed(key: &str, object: &Object) -> Listed {
    let info = &object.info;
    Listed {
        key: key.to_string(),
        size: info.size,
        etag: info.etag().to_string(),
        modified: info.modified,
        checksum: info.checksum.as_ref().map(|c| (c.algorithm, c.full_object)),
        version: "null".into(),
        latest: true,
        marker: false,
        storage_class: None,
    }
}

/// Objects in key order.
struct InOrder<'a> {
    objects: &'a Objects,
    from: Bound<String>,
}

impl EntryCursor for InOrder<'_> {
    fn seek(&mut self, from: Bound<String>) {
        self.from = from;
    }

    fn seek_after_version(&mut self, key: &str, _: &str) {
        self.from = Bound::Excluded(key.to_string());
    }

    fn next(&mut self) -> Result<Option<Listed>, ApiError> {
        let range = (self.from.clone(), Bound::Unbounded);
        let Some((key, object)) = self.objects.range::<String, _>(range).next() else { return Ok(None) };
        self.from = Bound::Excluded(key.clone());
        Ok(Some(listed(key, object)))
    }
}

/// Returns a page of the objects in a bucket, as they were `stale_ns` ago if that is given.
pub fn list(bucket: &Bucket, query: &ListQuery<'_>, stale_ns: Option<u64>) -> Result<ListPage, ApiError> {
    if bucket.info.directory && !query.versions {
        return Ok(unordered(bucket, query));
    }
    let objects = bucket.objects();
    if let Some(stale_ns) = stale_ns {
        let objects = bucket.past().objects(&objects, stale_ns);
        return page(&mut InOrder { objects: &objects, from: Bound::Unbounded }, query);
    }
    page(&mut InOrder { objects: &objects, from: Bound::Unbounded }, query)
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
            Some(object) => page.objects.push(listed(&name, &object)),
            None => page.prefixes.push(name),
        }
        last = Some(position);
    }
    page.next = last.filter(|_| rest.next().is_some());
    page
}
