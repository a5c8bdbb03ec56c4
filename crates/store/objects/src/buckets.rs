//! Buckets: their documents in the catalog, and a copy of all of them in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use plimsoll_server::config::acl::CannedAcl;
use plimsoll_server::config::cors::Cors;
use plimsoll_server::config::lifecycle::Lifecycle;
use plimsoll_server::config::tags::Tags;
use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::service::{BucketChange, BucketInfo, NewBucket, Versioning};
use serde::{Deserialize, Serialize};

use super::error::for_client;
use super::{Store, keys};
use plimsoll_catalog::ambient::wall_now;
use plimsoll_catalog::{Catalog, CatalogError, Row, Transaction, Value, intact, unless_in_doubt};

/// Document of a bucket in the catalog.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Document {
    /// Number of the bucket, which is never reused.
    pub number: u32,
    /// Time of its creation in Unix milliseconds.
    pub created_ms: i64,
    /// Region of the bucket.
    pub region: String,
    /// Access key of the account that created the bucket.
    pub owner: String,
    /// Access of other clients.
    pub acl: CannedAcl,
    /// Versioning state of the bucket.
    pub versioning: Versioning,
    /// Tags of the bucket.
    pub tags: Option<Tags>,
    /// CORS rules of the bucket.
    pub cors: Option<Cors>,
    /// Lifecycle rules of the bucket.
    pub lifecycle: Option<Lifecycle>,
}

impl Document {
    /// Creates the document of a new bucket.
    pub fn new(number: u32, region: String, owner: String, acl: CannedAcl) -> Document {
        Document {
            number,
            created_ms: wall_now().as_millisecond(),
            region,
            owner,
            acl,
            versioning: Versioning::Off,
            tags: None,
            cors: None,
            lifecycle: None,
        }
    }
}

/// A bucket in memory.
pub struct Bucket {
    /// Number of the bucket.
    pub number: u32,
    /// Properties of the bucket.
    pub info: BucketInfo,
    /// Name of the bucket.
    pub name: Arc<str>,
    /// The document as it is in the catalog.
    encoded: Bytes,
    /// True if the bucket was deleted. Transactions set and check it, one after the other.
    deleted: Arc<AtomicBool>,
    /// True if versions that leave the bucket are kept for a time.
    pub keeps_removed: bool,
}

impl AsRef<BucketInfo> for Bucket {
    fn as_ref(&self) -> &BucketInfo {
        &self.info
    }
}

impl Bucket {
    fn new(
        name: &str,
        encoded: Bytes,
        deleted: Arc<AtomicBool>,
        keeps_removed: bool,
    ) -> Result<Bucket, CatalogError> {
        let document: Document = intact(serde_json::from_slice(&encoded).ok())?;
        let info = BucketInfo {
            created: jiff::Timestamp::from_millisecond(document.created_ms).unwrap_or_default(),
            region: document.region,
            directory: false,
            owner: document.owner,
            acl: document.acl,
            versioning: document.versioning,
            tags: document.tags,
            cors: document.cors,
            lifecycle: document.lifecycle,
        };
        Ok(Bucket { number: document.number, info, name: name.into(), encoded, deleted, keeps_removed })
    }

    /// Checks that the bucket still exists. Transactions that write call it. Another process may have changed it, too.
    ///
    /// # Errors
    /// If the catalog cannot be read. The S3 error is `NoSuchBucket`, or `ServiceUnavailable` after a change.
    pub fn check(&self, t: &mut dyn Transaction) -> Result<Result<(), ApiError>, CatalogError> {
        if self.deleted.load(Ordering::Acquire) {
            return Ok(Err(no_bucket()));
        }
        // Only this process changes the buckets of a directory, so the flag shows each deletion.
        if !t.is_shared() {
            return Ok(Ok(()));
        }
        let Some(row) = t.get(&keys::bucket(&self.name))? else { return Ok(Err(no_bucket())) };
        let is_same = t.value(&row)?.properties == self.encoded;
        let text = "The settings of the bucket have changed during the request. Try again.";
        Ok(if is_same { Ok(()) } else { Err(ApiError::with(ErrorCode::ServiceUnavailable, text)) })
    }

    /// Returns true if responses contain version ids.
    pub fn is_versioned(&self) -> bool {
        self.info.versioning != Versioning::Off
    }
}

fn no_bucket() -> ApiError {
    ApiError::new(ErrorCode::NoSuchBucket)
}

/// All buckets by name. A bucket whose document is damaged has the error, which all requests for it get.
#[derive(Default)]
pub struct Buckets(BTreeMap<String, Result<Arc<Bucket>, CatalogError>>);

impl Buckets {
    /// Reads all buckets. `keeps_removed` is true if versions that leave them are kept for a time.
    pub fn load(catalog: &impl Catalog, keeps_removed: bool) -> Result<Buckets, CatalogError> {
        let mut buckets = Buckets::default();
        let mut scan = catalog.scan();
        scan.seek(Bound::Included(keys::BUCKETS))?;
        while let Some((key, row)) = scan.next()? {
            let Some(name) = key.strip_prefix(keys::BUCKETS) else { break };
            let name = String::from_utf8_lossy(name).into_owned();
            let document = catalog.value(&key, &row);
            let bucket = document
                .and_then(|value| Bucket::new(&name, value.properties, Arc::default(), keeps_removed));
            let bucket = match bucket {
                Ok(bucket) => Ok(Arc::new(bucket)),
                Err(error @ CatalogError::Damaged { .. }) => Err(error),
                Err(error) => return Err(error),
            };
            buckets.0.insert(name, bucket);
        }
        Ok(buckets)
    }

    /// Returns all intact buckets with their names.
    pub fn all(&self) -> Vec<(String, Arc<Bucket>)> {
        let intact = self.0.iter().filter_map(|(name, bucket)| Some((name.clone(), bucket.as_ref().ok()?)));
        intact.map(|(name, bucket)| (name, Arc::clone(bucket))).collect()
    }
}

/// Encodes a document. Bucket documents have no head, so that large rules do not burden listings.
fn encode(document: &Document) -> Value {
    Value { properties: serde_json::to_vec(document).unwrap_or_default().into(), ..Value::default() }
}

/// Returns the number of a new bucket. No object may have it.
fn next_number(t: &mut dyn Transaction) -> Result<u32, CatalogError> {
    let number = |row: Row| row.head[..].try_into().ok().map(u32::from_be_bytes);
    let mut next = match t.get(keys::NEXT_BUCKET) {
        Err(CatalogError::Damaged { .. }) => t.last_known(keys::NEXT_BUCKET)?.and_then(number).unwrap_or(1),
        row => return Ok(row?.and_then(number).unwrap_or(1)),
    };
    // A lost record may have given the number to a bucket.
    while let Some((key, _)) = t.first(keys::OBJECTS, &keys::objects(next, ""))? {
        next = keys::bucket_number(&key).unwrap_or(next) + 1;
    }
    // A bucket without objects shows its number only in its document.
    let mut from = keys::BUCKETS.to_vec();
    while let Some((key, row)) = t.first(keys::BUCKETS, &from)? {
        let document = unless_in_doubt(t.value(&row).map(Some))?;
        let document = document.and_then(|value| serde_json::from_slice::<Document>(&value.properties).ok());
        next = next.max(document.map_or(0, |document| document.number + 1));
        from = [key.as_slice(), &[0]].concat();
    }
    Ok(next)
}

impl<C: Catalog> Store<C> {
    /// Returns the bucket called `name`.
    pub(super) async fn find_bucket(&self, name: &str) -> Result<Arc<Bucket>, ApiError> {
        let known = self.known_bucket(name).transpose();
        if !self.catalog.is_shared() {
            let known = known.map_err(for_client)?;
            // After the look into memory: a read counts only if the lease has not ended since (docs/decisions/0050).
            self.catalog.confirm().map_err(for_client)?;
            // The record of a bucket may be lost, or the client of its creation has not waited for its end.
            let found = match known {
                None => self.refresh(name).map_err(for_client)?,
                known => known,
            };
            return found.ok_or_else(no_bucket);
        }
        let found = self.look_up_bucket(name, known.ok().flatten().as_ref()).await.map_err(for_client)?;
        if found.is_none() {
            self.remember(name, None);
        }
        found.ok_or_else(no_bucket)
    }

    fn known_bucket(&self, name: &str) -> Option<Result<Arc<Bucket>, CatalogError>> {
        let buckets = self.buckets.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        buckets.0.get(name).cloned()
    }

    /// Reads a bucket that other processes may have created, changed or deleted.
    async fn look_up_bucket(
        &self,
        name: &str,
        known: Option<&Arc<Bucket>>,
    ) -> Result<Option<Arc<Bucket>>, CatalogError> {
        let key = keys::bucket(name);
        let Some(row) = self.catalog.read(key.clone()).await? else { return Ok(None) };
        let encoded = self.catalog.properties(&key, &row)?;
        // Each request looks its bucket up. The document is decoded only after a change.
        if let Some(known) = known.filter(|known| known.encoded == encoded) {
            return Ok(Some(Arc::clone(known)));
        }
        let found = Arc::new(Bucket::new(name, encoded, Arc::default(), self.retain_ms > 0)?);
        self.remember(name, Some(Arc::clone(&found)));
        Ok(Some(found))
    }

    /// Returns all buckets with their names, sorted by name, except those whose document is damaged.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn all_buckets(&self) -> Result<Vec<(String, Arc<Bucket>)>, CatalogError> {
        if self.catalog.is_shared() {
            return Ok(Buckets::load(&*self.catalog, self.retain_ms > 0)?.all());
        }
        let all = self.buckets.read().unwrap_or_else(std::sync::PoisonError::into_inner).all();
        // As in `find_bucket`, after the look into memory.
        self.catalog.confirm()?;
        Ok(all)
    }

    /// Reads a bucket of a directory into memory, after a change of its row or if memory does not have it.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    fn refresh(&self, name: &str) -> Result<Option<Arc<Bucket>>, CatalogError> {
        let mut buckets = self.buckets.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        // While memory is locked: of two changes at the same time, the one that ends last may have been committed
        // first. Its own document would undo the other one in memory, such as the versioning of a bucket.
        let key = keys::bucket(name);
        let Some(row) = self.catalog.get(&key)? else {
            buckets.0.remove(name);
            return Ok(None);
        };
        let encoded = self.catalog.value(&key, &row)?.properties;
        let mut found = Bucket::new(name, encoded, Arc::default(), self.retain_ms > 0)?;
        // The new copy shares the flag: requests that hold the old one must see a deletion.
        if let Some(Ok(known)) = buckets.0.get(name)
            && known.number == found.number
        {
            found.deleted = Arc::clone(&known.deleted);
        }
        let found = Arc::new(found);
        buckets.0.insert(name.to_string(), Ok(Arc::clone(&found)));
        Ok(Some(found))
    }

    /// Takes the row of a bucket that this process has changed into memory; `None` if another client has deleted the
    /// bucket since.
    fn changed(&self, name: &str, new: Bucket) -> Result<Option<Arc<Bucket>>, ApiError> {
        if self.catalog.is_shared() {
            // Each request reads the row again.
            let new = Arc::new(new);
            self.remember(name, Some(Arc::clone(&new)));
            return Ok(Some(new));
        }
        self.refresh(name).map_err(for_client)
    }

    fn remember(&self, name: &str, bucket: Option<Arc<Bucket>>) {
        let mut buckets = self.buckets.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        match bucket {
            Some(bucket) => buckets.0.insert(name.to_string(), Ok(bucket)),
            None => buckets.0.remove(name),
        };
    }

    pub(super) async fn new_bucket(&self, name: &str, new: NewBucket<'_>) -> Result<(), ApiError> {
        let key = keys::bucket(name);
        if self.find_bucket(name).await.is_ok_and(|bucket| bucket.info.is_recreated_by(&new)) {
            return Ok(());
        }
        let (region, owner, acl) = (new.region.to_string(), new.owner.to_string(), new.acl);
        let encoded = self
            .transact(1024, move |t| {
                if t.get(&key)?.is_some() {
                    return Ok(Err(ApiError::new(ErrorCode::BucketAlreadyOwnedByYou)));
                }
                let number = next_number(t)?;
                let value = encode(&Document::new(number, region.clone(), owner.clone(), acl));
                let encoded = value.properties.clone();
                t.put(key.clone(), value);
                // In the transaction that uses the number, so that no other bucket gets it.
                let next = (number + 1).to_be_bytes().to_vec();
                t.put(keys::NEXT_BUCKET.to_vec(), plimsoll_catalog::embedded::head_only(next));
                Ok(Ok(encoded))
            })
            .await?;
        let bucket = Bucket::new(name, encoded, Arc::default(), self.retain_ms > 0).map_err(for_client)?;
        self.changed(name, bucket).map(|_| ())
    }

    /// Returns a bucket, and true if it is new. A new bucket gets the properties of a document, if there is one.
    ///
    /// # Errors
    /// Returns the error of the catalog.
    pub async fn ensure_bucket(
        &self,
        name: &str,
        document: Option<&Document>,
    ) -> Result<(Arc<Bucket>, bool), ApiError> {
        match self.find_bucket(name).await {
            Ok(bucket) => return Ok((bucket, false)),
            Err(error) if error.code != ErrorCode::NoSuchBucket => return Err(error),
            Err(_) => {}
        }
        let default = || Document::new(0, "us-east-1".into(), String::new(), CannedAcl::Private);
        let (mut document, key) = (document.cloned().unwrap_or_else(default), keys::bucket(name));
        let encoded = self.transact(4096, move |t| {
            // Somebody else may have created it meanwhile.
            if t.get(&key)?.is_some() {
                return Ok(Err(ApiError::new(ErrorCode::OperationAborted)));
            }
            // If the record of the bucket is lost, a new one with its name would hide its objects.
            t.check_absent(&key)?;
            let number = next_number(t)?;
            // The number in the document is that of another catalog, or of a bucket that was deleted.
            document.number = number;
            let value = encode(&document);
            let encoded = value.properties.clone();
            t.put(key.clone(), value);
            let next = (number + 1).to_be_bytes().to_vec();
            t.put(keys::NEXT_BUCKET.to_vec(), plimsoll_catalog::embedded::head_only(next));
            Ok(Ok(encoded))
        });
        let bucket = Bucket::new(name, encoded.await?, Arc::default(), self.retain_ms > 0);
        let bucket = self.changed(name, bucket.map_err(for_client)?)?;
        Ok((bucket.ok_or_else(no_bucket)?, true))
    }

    pub(super) async fn remove_bucket(&self, name: &str) -> Result<(), ApiError> {
        let bucket = self.find_bucket(name).await?;
        // Nothing removes the parts of an upload whose bucket is gone.
        for (upload, key) in self.upload_ids(&bucket)? {
            // Another request may have ended the upload.
            let _ = self.end_upload(&bucket, &key, upload).await;
        }
        let of_transaction = Arc::clone(&bucket);
        let key = keys::bucket(name);
        let result = self
            .transact(0, move |t| {
                if let Err(error) = of_transaction.check(t)? {
                    return Ok(Err(error));
                }
                // In the transaction: an object that is written at the same time must prevent the deletion.
                let prefix = keys::objects(of_transaction.number, "");
                if t.first(&prefix, &prefix)?.is_some() {
                    return Ok(Err(ApiError::new(ErrorCode::BucketNotEmpty)));
                }
                // A client may have begun an upload since, whose parts nobody would find without the bucket.
                let prefix = keys::uploads(of_transaction.number, "");
                if t.first(&prefix, &prefix)?.is_some() {
                    return Ok(Err(ApiError::new(ErrorCode::OperationAborted)));
                }
                t.delete(key.clone());
                // A shared catalog may execute this again, and its transactions read the row.
                of_transaction.deleted.store(!t.is_shared(), Ordering::Release);
                Ok(Ok(()))
            })
            .await;
        match &result {
            Ok(()) if self.catalog.is_shared() => self.remember(name, None),
            // Another client may have created it again.
            Ok(()) => drop(self.refresh(name).map_err(for_client)?),
            Err(error)
                if matches!(
                    error.code,
                    ErrorCode::BucketNotEmpty | ErrorCode::NoSuchBucket | ErrorCode::OperationAborted
                ) => {}
            // The deletion is not durable, so the bucket still exists.
            Err(_) => bucket.deleted.store(false, Ordering::Release),
        }
        result
    }

    /// Checks that the storage classes of all transitions belong to tiers.
    fn check_classes(&self, rules: &Lifecycle) -> Result<(), ApiError> {
        let mut transitions = rules.rules.iter().flat_map(|rule| &rule.transitions);
        let unknown = transitions.find(|transition| !self.classes.contains_key(&transition.storage_class));
        match unknown {
            None => Ok(()),
            Some(_) if self.classes.is_empty() => {
                let text = "This server has no tiers with storage classes for transitions";
                Err(ApiError::with(ErrorCode::NotImplemented, text))
            }
            Some(transition) => {
                let known: Vec<&str> = self.classes.keys().map(String::as_str).collect();
                let (class, known) = (&transition.storage_class, known.join(", "));
                let text = format!("No tier has the storage class {class}; the classes are {known}");
                Err(ApiError::with(ErrorCode::InvalidArgument, text))
            }
        }
    }

    pub(super) async fn change_bucket(&self, name: &str, change: BucketChange) -> Result<(), ApiError> {
        if let BucketChange::Lifecycle(Some(rules)) = &change {
            self.check_classes(rules)?;
        }
        let bucket = self.find_bucket(name).await?;
        let of_transaction = Arc::clone(&bucket);
        let key = keys::bucket(name);
        let encoded = self
            .transact(4096, move |t| {
                let is_deleted = of_transaction.deleted.load(Ordering::Acquire);
                let Some(row) = t.get(&key)?.filter(|_| !is_deleted) else { return Ok(Err(no_bucket())) };
                let value = t.value(&row)?;
                let mut document: Document = intact(serde_json::from_slice(&value.properties).ok())?;
                match change.clone() {
                    BucketChange::Acl(acl) => document.acl = acl,
                    BucketChange::Versioning(true) => document.versioning = Versioning::Enabled,
                    BucketChange::Versioning(false) => document.versioning = Versioning::Suspended,
                    BucketChange::Tags(tags) => document.tags = tags,
                    BucketChange::Cors(cors) => document.cors = cors,
                    BucketChange::Lifecycle(lifecycle) => document.lifecycle = lifecycle,
                }
                let value = encode(&document);
                let encoded = value.properties.clone();
                t.put(key.clone(), value);
                Ok(Ok(encoded))
            })
            .await?;
        let changed = Bucket::new(name, encoded, Arc::clone(&bucket.deleted), self.retain_ms > 0)
            .map_err(for_client)?;
        self.changed(name, changed).map(|_| ())
    }
}
