//! Returns a bucket to an earlier state, which another catalog has: that of a backup.

mod bytes;
pub mod unshipped;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use plimsoll_server::conditions::DeleteConditions;
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::config::tags::Tags;
use plimsoll_server::error::ApiError;
use plimsoll_server::service::ObjectChange;

use super::retained::Retained;
use super::row::{Body, Head, Piece, Properties};
use super::undelete::{Returning, bring_back, visit_kept};
use super::version::ObjectAddress;
use super::{Bucket, Document, Store, keys};
use plimsoll_catalog::{Catalog, CatalogError, Row, Value, intact};

/// An earlier state of a bucket, and which part of it is wanted.
pub struct Earlier<'a, E> {
    /// Catalog of that time.
    pub catalog: &'a E,
    /// Name of the bucket.
    pub bucket: &'a str,
    /// Start of the keys of the objects.
    pub prefix: &'a str,
    /// Time of the state in Unix milliseconds.
    pub at_ms: u64,
    /// True if objects that did not exist then are deleted.
    pub is_exact: bool,
    /// True if nothing is changed.
    pub is_dry: bool,
}

/// Result of a return to an earlier state. Numbers are those of objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Returned {
    /// Objects that are as they were.
    pub unchanged: u64,
    /// Objects that are as they were again.
    pub restored: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Objects that did not exist then and were deleted.
    pub deleted: u64,
    /// Objects that did not exist then and stay.
    pub newer: u64,
    /// Objects whose bytes are not kept any more.
    pub lost: u64,
    /// Keys of the first ones.
    pub lost_keys: Vec<String>,
    /// Objects that could not be restored because of an error.
    pub failed: u64,
    /// Keys and errors of the first ones.
    pub failures: Vec<String>,
    /// True if the bucket did not exist any more.
    pub is_new_bucket: bool,
}

/// Maximum number of keys in the result.
const MAX_KEYS: usize = 100;

/// Time in milliseconds by which the removal of a version may be recorded too early.
const SLACK_MS: u64 = 3_600_000;

/// Place of the bytes of an object that is to be as it was.
enum Source {
    /// The version has left its bucket, and is kept.
    Kept(Returning),
    /// The version is still in the bucket, behind newer ones: its catalog key.
    Version(Vec<u8>),
    /// The earlier catalog has all of it.
    Inline(Box<Value>),
    /// The object has its bytes, and other tags or another access.
    Described(Box<Described>),
}

/// An object of the earlier state.
struct Then<'a> {
    catalog_key: &'a [u8],
    row: &'a Row,
    key: &'a str,
    head: &'a Head,
}

/// Difference of an object from what it was.
enum Difference {
    Nothing,
    /// Its tags or its access, with those that it had.
    Description(Box<Described>),
    Body,
}

/// Result for one object.
enum Outcome {
    Unchanged,
    Restored,
    /// Its bytes are not kept any more.
    Lost,
}

/// Returns the document of the bucket in the earlier state; `None` if there was no such bucket.
///
/// # Errors
/// If the catalog cannot be read.
pub fn document<E: Catalog>(earlier: &Earlier<'_, E>) -> Result<Option<Document>, CatalogError> {
    document_of(earlier.catalog, earlier.bucket)
}

fn document_of(catalog: &impl Catalog, bucket: &str) -> Result<Option<Document>, CatalogError> {
    let key = keys::bucket(bucket);
    let Some(row) = catalog.get(&key)? else { return Ok(None) };
    let properties = catalog.properties(&key, &row)?;
    intact(serde_json::from_slice(&properties).ok()).map(Some)
}

/// A return in progress.
struct Work<'a, C, E> {
    store: &'a Store<C>,
    earlier: &'a Earlier<'a, E>,
    /// Number of the bucket in the earlier state.
    number: u32,
    /// The bucket now; `None` if there is none and nothing is changed.
    bucket: Option<Arc<Bucket>>,
    /// Versions that have left the bucket and are kept, by key.
    kept: BTreeMap<String, Vec<(Head, Returning)>>,
    done: Returned,
}

/// Gives the objects of a bucket back what they had at a time. `document` is that of the bucket then. A bucket that
/// does not exist any more is created as it was.
///
/// # Errors
/// If the catalog fails; what is done stays done.
pub async fn return_to<C: Catalog, E: Catalog>(
    store: &Store<C>,
    earlier: &Earlier<'_, E>,
    document: &Document,
) -> Result<Returned, ApiError> {
    let all = store.all_buckets().map_err(super::error::for_client)?;
    let now = all.into_iter().find(|(name, _)| name == earlier.bucket).map(|(_, bucket)| bucket);
    let is_new_bucket = now.is_none();
    let bucket = match now {
        None if !earlier.is_dry => Some(store.ensure_bucket(earlier.bucket, Some(document)).await?.0),
        now => now,
    };
    let number = document.number;
    // A version leaves its bucket before its group gets its time, and clocks of gateways differ.
    let since_ms = earlier.at_ms.saturating_sub(SLACK_MS);
    // A bucket that was created again has another number.
    let numbers: BTreeSet<u32> = [number].into_iter().chain(bucket.as_ref().map(|b| b.number)).collect();
    let mut by_key: BTreeMap<String, Vec<(Head, Returning)>> = BTreeMap::new();
    for number in numbers {
        let mut keep = |retained: Retained, one: Returning| {
            by_key.entry(one.key.clone()).or_default().push((retained.head, one));
        };
        visit_kept(store, number, earlier.prefix, since_ms, &mut keep).map_err(super::error::for_client)?;
    }
    let done = Returned { is_new_bucket, ..Returned::default() };
    let mut work = Work { store, earlier, number, bucket, kept: by_key, done };
    // Before anything is deleted: an error ends the return, and leaves the newer objects.
    work.restore_all().await?;
    work.newer().await?;
    Ok(work.done)
}

/// Returns the current object in a row; `None` for other versions and delete markers.
fn object(catalog_key: &[u8], row: &Row) -> Result<Option<(String, Head)>, CatalogError> {
    let Some((key, true)) = keys::parse_object(catalog_key) else { return Ok(None) };
    let head = intact(Head::decode(&row.head))?;
    Ok((!head.marker).then_some((key, head)))
}

/// Returns true if two versions have the same body, by its size, its digest and its parts.
fn has_same_body(one: &Head, other: &Head) -> bool {
    (one.size, one.md5, one.parts) == (other.size, other.md5, other.parts)
}

/// Headers, tags and access of an object, which clients see besides its body.
type Described = (Vec<(HeaderName, HeaderValue)>, Tags, CannedAcl);

/// Returns the headers, the tags and the access of an object.
fn described(catalog: &impl Catalog, key: &[u8], row: &Row) -> Result<Described, CatalogError> {
    let properties = intact(Properties::decode(&catalog.properties(key, row)?))?;
    Ok((properties.headers, properties.tags, properties.acl))
}

impl<C: Catalog, E: Catalog> Work<'_, C, E> {
    /// Restores each object of the earlier state.
    async fn restore_all(&mut self) -> Result<(), ApiError> {
        let failed = super::error::for_client;
        let prefix = keys::objects(self.number, self.earlier.prefix);
        let mut scan = self.earlier.catalog.scan();
        scan.seek(Bound::Included(&prefix)).map_err(failed)?;
        while let Some((catalog_key, row)) = scan.next().map_err(failed)?
            && catalog_key.starts_with(&prefix)
        {
            let Some((key, head)) = object(&catalog_key, &row).map_err(failed)? else { continue };
            let then = Then { catalog_key: &catalog_key, row: &row, key: &key, head: &head };
            match self.restore_one(&then).await {
                Ok(Outcome::Unchanged) => self.done.unchanged += 1,
                Ok(Outcome::Restored) => {
                    self.done.restored += 1;
                    self.done.bytes += head.size;
                }
                Ok(Outcome::Lost) => {
                    self.done.lost += 1;
                    if self.done.lost_keys.len() < MAX_KEYS {
                        self.done.lost_keys.push(key);
                    }
                }
                // One object must not cost the others.
                Err(error) => {
                    self.done.failed += 1;
                    if self.done.failures.len() < MAX_KEYS {
                        self.done.failures.push(format!("{key}: {error}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Restores an object, if it is not as it was.
    async fn restore_one(&mut self, then: &Then<'_>) -> Result<Outcome, ApiError> {
        // Its settings may have changed since the last object.
        if !self.earlier.is_dry {
            self.bucket = Some(self.store.find_bucket(self.earlier.bucket).await?);
        }
        let failed = super::error::for_client;
        let source = match self.compare(then).map_err(failed)? {
            Difference::Nothing => return Ok(Outcome::Unchanged),
            Difference::Description(described) => Some(Source::Described(described)),
            Difference::Body => self.source(then).map_err(failed)?,
        };
        let Some(source) = source else { return Ok(Outcome::Lost) };
        let is_restored = self.restore(source, then).await?;
        Ok(if is_restored { Outcome::Restored } else { Outcome::Lost })
    }

    /// Compares an object with what it was. An object that was brought back has another generation.
    fn compare(&self, then: &Then<'_>) -> Result<Difference, CatalogError> {
        let Some(bucket) = &self.bucket else { return Ok(Difference::Body) };
        let catalog = &self.store.catalog;
        let now_key = keys::current(bucket.number, then.key);
        let Some(row) = catalog.get(&now_key)? else { return Ok(Difference::Body) };
        let now = intact(Head::decode(&row.head))?;
        if now.marker || !has_same_body(&now, then.head) {
            return Ok(Difference::Body);
        }
        let before = described(self.earlier.catalog, then.catalog_key, then.row)?;
        let after = described(&**catalog, &now_key, &row)?;
        Ok(match before == after {
            true => Difference::Nothing,
            // Headers only change together with the body.
            false if before.0 == after.0 => Difference::Description(Box::new(before)),
            false => Difference::Body,
        })
    }

    /// Takes the kept version that an object was; `None` if there is none. A version that was brought back and has left
    /// its bucket again has another generation.
    fn take_kept(&mut self, then: &Then<'_>) -> Result<Option<Returning>, CatalogError> {
        let Then { catalog_key: then_key, row: then_row, key, head } = *then;
        let Some(kept) = self.kept.get_mut(key) else { return Ok(None) };
        let mut at = kept.iter().position(|(_, one)| one.generation == head.generation);
        for (index, (other, one)) in
            kept.iter().enumerate().filter(|(_, (other, _))| has_same_body(other, head))
        {
            if at.is_some() {
                break;
            }
            let Some(row) = self.store.catalog.get(&one.catalog_key)? else { continue };
            let found = described(&*self.store.catalog, &one.catalog_key, &row)?;
            let is_same = !other.marker && found == described(self.earlier.catalog, then_key, then_row)?;
            at = is_same.then_some(index);
        }
        Ok(at.map(|at| kept.swap_remove(at).1))
    }

    /// Finds the bytes of an object; `None` if they are not kept any more.
    fn source(&mut self, then: &Then<'_>) -> Result<Option<Source>, CatalogError> {
        let Then { catalog_key: then_key, row: then_row, key, head } = *then;
        if let Some(one) = self.take_kept(then)? {
            return Ok(Some(Source::Kept(one)));
        }
        let is_same = self.bucket.as_ref().is_some_and(|bucket| bucket.number == self.number);
        let version = keys::version(self.number, key, head.generation);
        if is_same && self.store.catalog.get(&version)?.is_some() {
            return Ok(Some(Source::Version(version)));
        }
        let value = match &head.body {
            Body::Inline | Body::Pieces => self.earlier.catalog.value(then_key, then_row)?,
            // No row keeps these bytes, so they may be gone, or be deleted at any time.
            Body::Blob(_) | Body::Slice(_) => return Ok(None),
        };
        let pieces = intact(Properties::decode(&value.properties))?.pieces;
        let is_inline = pieces.iter().all(|piece| matches!(piece, Piece::Inline(_)));
        Ok(is_inline.then(|| Source::Inline(Box::new(value))))
    }

    /// Restores an object. Returns false if its bytes have gone meanwhile.
    async fn restore(&self, source: Source, then: &Then<'_>) -> Result<bool, ApiError> {
        let (Some(bucket), false) = (&self.bucket, self.earlier.is_dry) else { return Ok(true) };
        let target = ObjectAddress { bucket: Arc::clone(bucket), key: then.key.to_string() };
        match source {
            Source::Kept(one) => bring_back(self.store, bucket, one).await,
            Source::Version(row) => bytes::copy(self.store, target, row, then.head).await,
            Source::Inline(value) => {
                bytes::write(self.store, target, then.head.clone(), *value).await.map(|()| true)
            }
            Source::Described(described) => {
                let (_, tags, acl) = *described;
                self.store.change(target.clone(), None, ObjectChange::Tags(tags)).await?;
                self.store.change(target, None, ObjectChange::Acl(acl)).await.map(|_| true)
            }
        }
    }

    /// Deletes or counts the objects that did not exist in the earlier state.
    async fn newer(&mut self) -> Result<(), ApiError> {
        let failed = super::error::for_client;
        let Some(bucket) = self.bucket.clone() else { return Ok(()) };
        let prefix = keys::objects(bucket.number, self.earlier.prefix);
        let mut scan = self.store.catalog.scan();
        scan.seek(Bound::Included(&prefix)).map_err(failed)?;
        while let Some((catalog_key, row)) = scan.next().map_err(failed)?
            && catalog_key.starts_with(&prefix)
        {
            let Some((key, _)) = object(&catalog_key, &row).map_err(failed)? else { continue };
            // A bucket that was created again has another number now.
            let then = keys::current(self.number, &key);
            let was = self.earlier.catalog.get(&then).map_err(failed)?;
            let was = was.map(|row| object(&then, &row)).transpose().map_err(failed)?.flatten();
            if was.is_some() {
                continue;
            }
            if !self.earlier.is_exact {
                self.done.newer += 1;
                continue;
            }
            if !self.earlier.is_dry {
                let target = ObjectAddress { bucket: Arc::clone(&bucket), key };
                // As by a client: the object is kept for its time, and can come back.
                self.store.delete_object(target, None, DeleteConditions::default()).await?;
            }
            self.done.deleted += 1;
        }
        Ok(())
    }
}
