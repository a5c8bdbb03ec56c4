//! Tiers: the named backends of the bodies that are not in the catalog.

pub mod check;
pub mod counted;
pub mod details;
pub mod health;
pub mod http;
pub mod keys;
pub mod odd_keys;
pub mod open;
pub mod origin;
mod table;

pub use self::table::TierTable;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectStore, ObjectStoreExt};

use self::counted::{Counted, TierUsage};
use self::details::DetailedBucket;
use self::health::Health;
use plimsoll_catalog::embedded::head_only;
use plimsoll_catalog::{Catalog, CatalogError, Transaction};

/// Name of the object with the owner of a tier.
pub const OWNER_RECORD: &str = "plimsoll-owner.json";

/// A named backend of blobs.
#[derive(Debug, Clone)]
pub struct Tier {
    /// Name in the settings.
    pub name: String,
    /// Backend, which has immutable objects with unique names.
    pub store: Arc<dyn ObjectStore>,
    /// Directory of a local backend.
    pub directory: Option<PathBuf>,
    /// Storage class of new blobs; `None` for the default of the bucket.
    pub storage_class: Option<String>,
    /// Access to the details of foreign objects; `None` if they have none.
    pub details: Option<Arc<DetailedBucket>>,
    /// Requests since the start.
    pub usage: Arc<TierUsage>,
    /// State of the tier as its reads find it.
    pub health: Arc<Health>,
    /// State of the tier as writes of blobs find it: a tier may answer reads and refuse writes.
    pub writes: Arc<Health>,
    /// True after this process has seen the record of the owner there.
    pub has_record: Arc<AtomicBool>,
    counted: Arc<Counted>,
}

/// An open backend, and what is known about it.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Client of the backend.
    pub store: Arc<dyn ObjectStore>,
    /// Directory of a local backend.
    pub directory: Option<PathBuf>,
    /// Storage class of new blobs; `None` for the default of the bucket.
    pub storage_class: Option<String>,
    /// Access to the details of foreign objects; `None` if they have none.
    pub details: Option<Arc<DetailedBucket>>,
    /// Name of the provider; `None` if it is unknown.
    pub provider: Option<String>,
    /// Region of the store; `None` if it is unknown.
    pub region: Option<String>,
    /// Longest time of a request; zero without a limit.
    pub timeout: Duration,
    /// Place of the objects, ending in a slash: tiers with the same place, or one within the other, share objects.
    pub root: String,
}

impl Backend {
    /// Creates a backend about which nothing else is known.
    pub fn new(store: Arc<dyn ObjectStore>) -> Backend {
        Backend {
            store,
            directory: None,
            storage_class: None,
            details: None,
            provider: None,
            region: None,
            timeout: Duration::ZERO,
            root: String::new(),
        }
    }
}

impl Tier {
    /// Creates a tier over a backend, and counts its requests.
    pub fn new(name: &str, backend: Backend) -> Tier {
        let counted = Arc::new(Counted::new(backend.store, backend.timeout));
        let (usage, store) = (counted.usage(), Arc::clone(&counted) as Arc<dyn ObjectStore>);
        let Backend { directory, storage_class, details, .. } = backend;
        Tier {
            name: name.to_string(),
            store,
            directory,
            storage_class,
            details,
            usage,
            health: Arc::default(),
            writes: Arc::default(),
            has_record: Arc::default(),
            counted,
        }
    }

    /// Returns true if neither the last reads nor the last writes have failed.
    pub fn answers(&self) -> bool {
        !self.health.has_failed() && !self.writes.has_just_failed()
    }

    /// Uses another client of the same backend from the next request on.
    pub fn use_client(&self, client: Arc<dyn ObjectStore>) {
        self.counted.replace(client);
    }

    /// Returns the client, for requests that do not count as those of objects.
    pub fn uncounted(&self) -> Arc<dyn ObjectStore> {
        self.counted.client()
    }

    /// Returns true if the record of the owner was there, and is not any more.
    pub async fn has_lost_record(&self) -> bool {
        let found = async { self.uncounted().head(&Path::from(OWNER_RECORD)).await };
        self.has_record.load(Ordering::Relaxed)
            && matches!(found.await, Err(object_store::Error::NotFound { .. }))
    }

    /// Returns the attributes of new blobs.
    pub fn attributes(&self) -> Attributes {
        let class = self.storage_class.clone();
        class.map(|class| (Attribute::StorageClass, class)).into_iter().collect()
    }
}

/// All tiers by their numbers. The catalog has the numbers, so the order in the settings has no meaning.
#[derive(Debug, Clone, Default)]
pub struct Tiers(Arc<BTreeMap<u16, Tier>>);

impl Tiers {
    /// Creates the tiers with these numbers.
    pub fn new(tiers: BTreeMap<u16, Tier>) -> Tiers {
        Tiers(Arc::new(tiers))
    }

    /// Returns a tier; `None` if it is not in the settings.
    pub fn get(&self, number: u16) -> Option<&Tier> {
        self.0.get(&number)
    }

    /// Returns the number of a tier; `None` if it is not in the settings.
    pub fn number(&self, name: &str) -> Option<u16> {
        self.0.iter().find(|(_, tier)| tier.name == name).map(|(number, _)| *number)
    }

    /// Returns the tiers with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Tier)> {
        self.0.iter().map(|(number, tier)| (*number, tier))
    }
}

/// Name of the tier of a data directory, whose number is 0.
pub const BLOBS: &str = "blobs";

/// Returns the numbers of tiers, of those that the catalog has seen before, too. It records a number when it sees a
/// name for the first time.
///
/// # Errors
/// If the catalog fails.
pub async fn numbers<C: Catalog>(
    catalog: &C,
    names: Vec<String>,
) -> Result<BTreeMap<String, u16>, CatalogError> {
    let found = Arc::new(Mutex::new(BTreeMap::new()));
    let of_transaction = Arc::clone(&found);
    let work = Box::new(move |t: &mut dyn Transaction| {
        let mut known = BTreeMap::new();
        let mut from = keys::TIERS.to_vec();
        while let Some((key, row)) = t.first(keys::TIERS, &from)? {
            let name = String::from_utf8_lossy(&key[keys::TIERS.len()..]).into_owned();
            let number = row.head.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
            known.extend(number.map(|number| (name, number)));
            from = [key.as_slice(), &[0]].concat();
        }
        let mut next: u16 = known.values().max().map_or(1, |number| number + 1);
        for name in &names {
            if let Entry::Vacant(unknown) = known.entry(name.clone()) {
                let is_directory = unknown.key() == BLOBS;
                let number = if is_directory { 0 } else { next };
                t.put(keys::tier(unknown.key()), head_only(number.to_be_bytes().to_vec()));
                unknown.insert(number);
                next += u16::from(!is_directory);
            }
        }
        *of_transaction.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(true)
    });
    catalog.commit(work, 64).await?;
    Ok(std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner)))
}
