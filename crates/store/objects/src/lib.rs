//! S3 semantics over a catalog and blobs: the service behind the protocol.
//!
//! `keys` and `row` are the only places that know how objects are written in the catalog. `owner` proves that a tier
//! belongs to this catalog, `lease` lets one process work in the background. Uses `catalog` and `bodies`; `backup`,
//! `maintenance` and `gateway` use it.

pub mod body;
mod buckets;
pub mod clock;
pub mod delete;
pub mod discard;
pub mod earlier;
pub mod error;
pub mod garbage;
pub mod keys;
pub mod lease;
mod list;
pub mod live;
mod multipart;
pub mod owner;
pub mod placement;
pub mod queues;
pub mod read;
pub mod reads;
pub mod removal;
pub mod retained;
pub mod row;
mod service;
pub mod undelete;
pub mod version;
pub mod witness;
pub mod write;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use plimsoll_server::error::{ApiError, ErrorCode};
use plimsoll_server::reserve::Memory;

use self::buckets::Buckets;
pub use self::buckets::{Bucket, Document};
use self::error::{TransactionError, unavailable};
use self::placement::{ClassNames, Placement};
use self::reads::Reads;
use self::version::ObjectAddress;
use self::witness::Witnesses;
use crate::lease::Session;
use plimsoll_bodies::blob::Blobs;
use plimsoll_bodies::name::CatalogId;
use plimsoll_catalog::ambient::{set_shared_ms, shared_now_ms};
use plimsoll_catalog::guard::{self, Guard};
use plimsoll_catalog::liveness;
use plimsoll_catalog::{Catalog, CatalogError, Expected, KnownReads, Transaction};

/// Places of bodies.
pub struct Bodies {
    /// Bodies that are not in the catalog.
    pub blobs: Blobs,
    /// Places of new bodies.
    pub write: Placement,
    /// Storage classes that clients see.
    pub class_names: ClassNames,
    /// Counts of reads; `None` if no rule needs them.
    pub reads: Option<Arc<Reads>>,
    /// Numbers of the tiers of the storage classes that lifecycle rules may name.
    pub classes: BTreeMap<String, u16>,
    /// Time in milliseconds for which bytes are kept after they have become garbage.
    pub retain_ms: u64,
}

/// A store of objects over a catalog and blobs.
pub struct Store<C> {
    /// Catalog of buckets, objects and uploads.
    pub catalog: Arc<C>,
    /// Id of the catalog; zero if it has none.
    pub catalog_id: CatalogId,
    /// Bodies that are not in the catalog.
    pub blobs: Blobs,
    write: Placement,
    class_names: ClassNames,
    /// Counts of reads; `None` if no rule needs them.
    pub reads: Option<Arc<Reads>>,
    /// Numbers of the tiers of the storage classes that lifecycle rules may name.
    pub classes: BTreeMap<String, u16>,
    /// Time in milliseconds for which bytes are kept after they have become garbage.
    pub retain_ms: u64,
    memory: Arc<Memory>,
    buckets: RwLock<Buckets>,
    /// Number of the session of this process; 0 before it begins.
    session: AtomicU64,
    /// Last epoch in which this process has worked in the background; 0 before the first one.
    epoch: AtomicU64,
    /// True while this process works in the background.
    leads: AtomicBool,
    /// Milliseconds by which the clock of this machine is ahead of the clock that all gateways share.
    pub clock_ahead_ms: AtomicI64,
    /// True if the clock of this machine is in doubt.
    pub has_wrong_clock: AtomicBool,
    /// Witnesses of the time, if the catalog has no clock.
    pub witnesses: Witnesses,
    /// False if a tier has lost its record, or has that of another catalog, of a later state of this one, or of a copy.
    pub owns_tiers: AtomicBool,
    /// Number of transactions that the catalog has executed for this store, also of those that were refused.
    pub transactions: AtomicU64,
}

/// Result of the operation inside a transaction: an S3 error drops the transaction.
type Outcome<T> = Result<Result<T, ApiError>, CatalogError>;

impl<C: Catalog> Store<C> {
    /// Opens a store and loads its buckets.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub fn open(catalog: Arc<C>, bodies: Bodies, memory: Arc<Memory>) -> Result<Store<C>, CatalogError> {
        let Bodies { blobs, write, class_names, reads, classes, retain_ms } = bodies;
        let buckets = RwLock::new(Buckets::load(&*catalog, retain_ms > 0)?);
        let catalog_id = owner::read(&*catalog)?.map_or([0; 16], |identity| identity.id);
        let (session, epoch, leads, clock_ahead_ms, has_wrong_clock) = Default::default();
        Ok(Store {
            catalog,
            catalog_id,
            blobs,
            write,
            class_names,
            reads,
            classes,
            retain_ms,
            memory,
            buckets,
            session,
            epoch,
            leads,
            clock_ahead_ms,
            has_wrong_clock,
            witnesses: Witnesses::default(),
            // No tier has contradicted yet. The work in the background waits for `Keeper::claim` in any case.
            owns_tiers: AtomicBool::new(true),
            transactions: AtomicU64::new(0),
        })
    }

    /// Returns the number of the session of this process.
    pub fn session(&self) -> Session {
        self.session.load(Ordering::Acquire)
    }

    /// Begins the session of this process.
    ///
    /// # Errors
    /// Returns the error of the catalog.
    pub async fn begin_session(&self) -> Result<Session, ApiError> {
        // Before the session begins: its end must not depend on the clock of this machine, which may be wrong.
        if let Some(shared_ms) = self.catalog.clock_ms().map_err(|error| unavailable(&error))? {
            set_shared_ms(shared_ms);
        }
        let now_ms = shared_now_ms();
        let session = self.transact(64, move |t| Ok(Ok(lease::begin(t, now_ms)?))).await?;
        // Only now: a blob with a session that the catalog does not have would be given up (`discard_unfinished`).
        self.session.store(session, Ordering::Release);
        Ok(session)
    }

    /// Returns the last epoch in which this process has worked in the background; 0 before the first one. Moves and
    /// packing capture it at their start, and deletions read it for each transaction.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Begins to work in the background in an epoch; `None` ends this work.
    pub fn lead(&self, epoch: Option<u64>) {
        if let Some(epoch) = epoch {
            // The epoch comes first: who sees that this process leads must not see an earlier epoch.
            self.epoch.store(epoch, Ordering::Release);
        }
        self.leads.store(epoch.is_some(), Ordering::Release);
    }

    /// Returns true while this process works in the background.
    pub fn is_leader(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// Returns the name of a tier, or its number if it is not in the settings.
    pub fn tier_name(&self, number: u16) -> String {
        let tier = self.blobs.tiers().get(number);
        tier.map_or_else(|| format!("number {number}"), |tier| tier.name.clone())
    }

    /// Returns the numbers of the tiers that receive new blobs.
    pub fn write_tiers(&self) -> &[u16] {
        &self.write.tiers
    }

    /// Returns what a transaction on an object needs that writes about `bytes` bytes. `is_complete` is true if it reads
    /// nothing else, unless the object has more versions.
    fn expected(&self, bytes: usize, target: &ObjectAddress, is_complete: bool) -> Expected {
        // A catalog in a directory looks rows up in its own index, and has no use for known reads.
        if !self.catalog.is_shared() {
            return bytes.into();
        }
        let bucket = &target.bucket;
        // The rows that `Bucket::check`, `current` and `next_generation` read. Without a key that a transaction reads,
        // a database executes the group twice (docs/decisions/0052).
        let mut keys = vec![keys::bucket(&bucket.name), keys::current(bucket.number, &target.key)];
        if bucket.is_versioned() {
            keys.push(keys::DELETED_GENERATION.to_vec());
        }
        Expected { bytes, reads: KnownReads { keys, is_complete } }
    }

    /// Executes `operation` of the background work in a transaction, unless a later epoch has begun.
    ///
    /// # Errors
    /// As [`Store::transact`], and if the epoch has ended.
    pub async fn transact_in<T: Send + 'static>(
        &self,
        epoch: u64,
        expected: impl Into<Expected>,
        mut operation: impl FnMut(&mut dyn Transaction) -> Outcome<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.transact(expected, move |t| {
            // In the transaction itself: after an earlier look, another process could begin an epoch before the commit.
            if guard::is_made(Guard::Epoch) && lease::leader(t)?.epoch != epoch {
                let text = "Another gateway has taken over the work in the background.";
                return Ok(Err(ApiError::with(ErrorCode::OperationAborted, text)));
            }
            operation(t)
        })
        .await
    }

    /// Executes `operation` in a transaction.
    ///
    /// # Errors
    /// Returns the S3 error of the operation, or the error of the catalog.
    pub async fn transact<T: Send + 'static>(
        &self,
        expected: impl Into<Expected>,
        operation: impl FnMut(&mut dyn Transaction) -> Outcome<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        Ok(self.try_transact(expected, operation).await?)
    }

    /// Does the same as [`Store::transact`], for callers that must know whether a failed transaction has an effect.
    ///
    /// # Errors
    /// Returns the S3 error of the operation, or the error of the catalog.
    pub async fn try_transact<T: Send + 'static>(
        &self,
        expected: impl Into<Expected>,
        mut operation: impl FnMut(&mut dyn Transaction) -> Outcome<T> + Send + 'static,
    ) -> Result<T, TransactionError> {
        let result = Arc::new(Mutex::new(None));
        let of_transaction = Arc::clone(&result);
        let work = Box::new(move |transaction: &mut dyn Transaction| {
            let outcome = operation(transaction)?;
            // A refused operation must leave nothing behind, also no changes that it has made before its error.
            let commits = outcome.is_ok();
            // A catalog may execute the work several times (`Work`). Only the outcome of the last execution counts.
            *of_transaction.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            Ok(commits)
        });
        liveness::at("a transaction of the catalog");
        let committed = self.catalog.commit(work, expected).await;
        liveness::at("its next step");
        committed.map_err(TransactionError::Catalog)?;
        // After the commit: an announcement must not count changes that the catalog does not have yet.
        self.transactions.fetch_add(1, Ordering::Relaxed);
        let outcome = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The catalog has committed, so the operation has left its outcome.
        let outcome = outcome.unwrap_or_else(|| Err(ApiError::new(ErrorCode::InternalError)));
        outcome.map_err(TransactionError::Refused)
    }
}
