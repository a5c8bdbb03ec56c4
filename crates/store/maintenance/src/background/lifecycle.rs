//! Applies the lifecycle rules of all buckets.

use std::ops::Bound;
use std::sync::Arc;

use plimsoll_server::config::lifecycle::{Lifecycle, LifecycleRule};
use plimsoll_server::error::ApiError;
use plimsoll_server::expiry::{self, Now, VersionFacts};

use plimsoll_catalog::{Catalog, CatalogError};
use plimsoll_objects::delete::{expire_generation, remove_generation};
use plimsoll_objects::error::for_client;
use plimsoll_objects::row::{Head, Properties};
use plimsoll_objects::version::ObjectAddress;
use plimsoll_objects::{Bucket, Store, keys};

/// A version to remove or to hide.
struct Due {
    catalog_key: Vec<u8>,
    key: String,
    generation: u64,
    /// True to hide the current object behind a delete marker if the bucket is versioned.
    expires: bool,
}

/// The versions of one key, from the newest to the oldest.
struct Versions {
    key: String,
    versions: Vec<(Vec<u8>, Head)>,
}

/// Applies the rules of all buckets once, at a time in Unix milliseconds. A day of the rules has `day_ms` milliseconds.
///
/// Returns the number of versions and uploads that were removed.
///
/// # Errors
/// Returns the error of the catalog.
pub async fn apply<C: Catalog>(store: &Store<C>, day_ms: u64, now_ms: u64) -> Result<u64, ApiError> {
    let now = Now { ms: now_ms.cast_signed(), day_ms };
    let mut count = 0;
    for (_, bucket) in store.all_buckets().map_err(for_client)? {
        let Some(rules) = bucket.info.lifecycle.clone() else { continue };
        count += expire(store, &bucket, &rules, now).await?;
        count += abort_uploads(store, &bucket, &rules, now).await?;
    }
    Ok(count)
}

async fn expire<C: Catalog>(
    store: &Store<C>,
    bucket: &Arc<Bucket>,
    rules: &Lifecycle,
    now: Now,
) -> Result<u64, ApiError> {
    /// Number of versions that are examined before the due ones are removed.
    const BATCH: usize = 10_000;
    let prefix = keys::objects(bucket.number, "");
    let mut from = Bound::Included(prefix.clone());
    let mut count = 0;
    loop {
        let mut due = Vec::new();
        let mut examined = 0;
        let mut at_end = true;
        {
            // The scan ends before the removals, because it keeps old files of the index.
            let mut scan = store.catalog.scan();
            scan.seek(from.as_ref().map(Vec::as_slice)).map_err(for_client)?;
            let mut group: Option<Versions> = None;
            while let Some((catalog_key, row)) = scan.next().map_err(for_client)? {
                if !catalog_key.starts_with(&prefix) {
                    break;
                }
                let Some((key, _)) = keys::parse_object(&catalog_key) else { continue };
                // A malformed row does not end the expiry of all others. `scrub` reports it.
                let Some(head) = Head::decode(&row.head) else { continue };
                if group.as_ref().is_none_or(|group| group.key != key) {
                    if let Some(group) = group.take() {
                        find_due(store, &group, rules, now, &mut due)?;
                    }
                    // A batch ends between two keys, because the rules count the newer versions of a key.
                    if examined >= BATCH {
                        from = Bound::Included(catalog_key);
                        at_end = false;
                        break;
                    }
                    group = Some(Versions { key, versions: Vec::new() });
                }
                examined += 1;
                if let Some(group) = &mut group {
                    group.versions.push((catalog_key, head));
                }
            }
            if let Some(group) = group {
                find_due(store, &group, rules, now, &mut due)?;
            }
        }
        for one in due {
            count += u64::from(remove(store, bucket, one).await?);
        }
        if at_end {
            return Ok(count);
        }
    }
}

/// Removes a version. Returns false if a client has changed the object meanwhile.
async fn remove<C: Catalog>(store: &Store<C>, bucket: &Arc<Bucket>, due: Due) -> Result<bool, ApiError> {
    let target = ObjectAddress { bucket: Arc::clone(bucket), key: due.key };
    let (key, generation, expires) = (due.catalog_key, due.generation, due.expires);
    store
        // Not in an epoch: a version that was replaced since the scan has another generation, and stays.
        .transact(0, move |t| {
            t.use_reserve();
            let done = if expires {
                expire_generation(t, &target, generation)?
            } else {
                remove_generation(t, &target, &key, generation)?
            };
            Ok(Ok(done))
        })
        .await
}

/// Adds the versions of a key that are due.
fn find_due<C: Catalog>(
    store: &Store<C>,
    group: &Versions,
    rules: &Lifecycle,
    now: Now,
    into: &mut Vec<Due>,
) -> Result<(), ApiError> {
    let facts =
        |(_, head): &(Vec<u8>, Head)| VersionFacts { is_marker: head.marker, modified_ms: head.modified_ms };
    let versions: Vec<VersionFacts> = group.versions.iter().map(facts).collect();
    let applies = |rule: &LifecycleRule, version: usize| {
        let (key, head) = &group.versions[version];
        matches(store, rule, &group.key, key, head)
    };
    for expiry::Due { version, expires } in expiry::due(rules, &versions, now, applies)? {
        let (catalog_key, head) = &group.versions[version];
        let (catalog_key, key) = (catalog_key.clone(), group.key.clone());
        into.push(Due { catalog_key, key, generation: head.generation, expires });
    }
    Ok(())
}

/// Returns true if a rule applies to a version. The tags are read only if the rule has some.
fn matches<C: Catalog>(
    store: &Store<C>,
    rule: &LifecycleRule,
    key: &str,
    catalog_key: &[u8],
    head: &Head,
) -> Result<bool, ApiError> {
    if rule.filter.tags.is_empty() {
        return Ok(rule.filter.matches(key, head.size, &Properties::default().tags));
    }
    let read = || {
        let Some(row) = store.catalog.get(catalog_key)? else { return Ok(None) };
        store.catalog.properties(catalog_key, &row).map(|bytes| Properties::decode(&bytes))
    };
    match read() {
        Ok(properties) => Ok(rule.filter.matches(key, head.size, &properties.unwrap_or_default().tags)),
        // Without its tags, the version stays. The rules apply to those behind it nevertheless.
        Err(CatalogError::Damaged { .. } | CatalogError::Changed) => Ok(false),
        Err(error) => Err(for_client(error)),
    }
}

async fn abort_uploads<C: Catalog>(
    store: &Store<C>,
    bucket: &Arc<Bucket>,
    rules: &Lifecycle,
    now: Now,
) -> Result<u64, ApiError> {
    let mut due = Vec::new();
    store.visit_uploads(bucket, "", &mut |key, id, upload| {
        let initiated_ms = upload.initiated.as_millisecond();
        if expiry::aborts(rules, key, &upload.object.tags, initiated_ms, now) {
            due.push((key.to_string(), id));
        }
        true
    })?;
    let mut count = 0;
    for (key, id) in due {
        // The client may have ended the upload meanwhile.
        count += u64::from(store.end_upload(bucket, &key, id).await.is_ok());
    }
    Ok(count)
}
