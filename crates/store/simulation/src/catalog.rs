//! The catalog of a simulation as one gateway sees it: transactions fail before or after they are durable. Checks after
//! each transaction who has changed what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::backend::{Shared, lock, pause};
use super::time;
use plimsoll_bodies::location::{BlobHead, Location, ObjectName, State};
use plimsoll_catalog::memory::MemoryCatalog;
use plimsoll_catalog::{Catalog, CatalogError, Expected, Row, Scan, Value, Work};
use plimsoll_objects::keys;
use plimsoll_objects::lease::{self, Session};

/// Time in milliseconds for which moves of the simulation keep their source.
pub const KEEP_MS: u64 = 3_600_000;

/// User of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// A gateway that may move objects if it is the leader.
    Gateway,
    /// A command that an operator executes; it may roll moves back at any time.
    Operator,
}

/// A catalog that all gateways of a simulation share.
pub struct SimulatedCatalog {
    inner: Arc<MemoryCatalog>,
    shared: Arc<Mutex<Shared>>,
    user: User,
    /// Session of the gateway; 0 before it has begun.
    pub session: Arc<Mutex<Session>>,
}

/// Blobs and intents in the catalog.
#[derive(Default, PartialEq, Eq)]
struct Moves {
    blobs: BTreeMap<Vec<u8>, BlobHead>,
    intents: Vec<Vec<u8>>,
}

/// Returns the rows whose keys start with a prefix.
pub fn rows(catalog: &impl Catalog, prefix: &[u8]) -> Vec<(Vec<u8>, Row)> {
    let mut scan = catalog.scan();
    scan.seek(std::ops::Bound::Included(prefix)).unwrap();
    std::iter::from_fn(|| scan.next().unwrap()).take_while(|(key, _)| key.starts_with(prefix)).collect()
}

/// Returns the tier and the name of the backend's object at a place.
pub fn object(place: &Location) -> (usize, String) {
    assert!(matches!(place.name, ObjectName::Own(_)));
    (usize::from(place.tier), place.path().to_string())
}

impl SimulatedCatalog {
    /// Creates the view of a user.
    pub fn new(inner: &Arc<MemoryCatalog>, shared: &Arc<Mutex<Shared>>, user: User) -> SimulatedCatalog {
        let (inner, shared) = (Arc::clone(inner), Arc::clone(shared));
        SimulatedCatalog { inner, shared, user, session: Arc::default() }
    }

    fn moves(&self) -> Moves {
        let blobs = rows(&*self.inner, keys::BLOBS);
        let blobs = blobs.into_iter().filter_map(|(key, row)| Some((key, BlobHead::decode(&row.head)?)));
        let intents = rows(&*self.inner, keys::INTENTS).into_iter().map(|(key, _)| key);
        Moves { blobs: blobs.collect(), intents: intents.collect() }
    }

    /// Checks a change of blobs and intents, and records the sources that moves keep.
    fn check(&self, before: &Moves, after: &Moves) {
        let mut shared = lock(&self.shared);
        let mut has_moved = before.intents != after.intents;
        for (key, head) in &after.blobs {
            let Some(old) = before.blobs.get(key) else { continue };
            if head.state == State::Discarded {
                for place in &head.locations {
                    shared.kept_until_ms.remove(&object(place));
                }
            }
            let is_switch = head.state == State::Complete
                && old.state == State::Complete
                && head.locations.first() != old.locations.first();
            if !is_switch {
                continue;
            }
            has_moved = true;
            shared.kept_until_ms.remove(&object(&head.locations[0]));
            // The destination of a move that was rolled back is not needed.
            let keep_ms = if self.user == User::Gateway { KEEP_MS } else { 0 };
            for place in &head.locations[1..] {
                shared.kept_until_ms.insert(object(place), time::now_ms() + keep_ms);
            }
        }
        let leader = lease::status(&*self.inner, 0).map_or(0, |status| status.leader.unwrap_or(0));
        let session = *self.session.lock().unwrap();
        if has_moved && self.user == User::Gateway && leader != session {
            shared.violate(format!("session {session} has moved blobs, but {leader} is the leader"));
        }
    }
}

impl Catalog for SimulatedCatalog {
    async fn commit(&self, work: Work, expected: impl Into<Expected>) -> Result<(), CatalogError> {
        pause().await;
        let (fails, is_durable) = {
            let mut shared = lock(&self.shared);
            let percent = shared.faults.transactions;
            (shared.random.chance(percent), shared.random.chance(50))
        };
        let unavailable = || CatalogError::Unavailable("simulated".into());
        if fails && !is_durable {
            return Err(unavailable());
        }
        let before = self.moves();
        self.inner.commit(work, expected).await?;
        let after = self.moves();
        if before != after {
            self.check(&before, &after);
        }
        pause().await;
        if fails { Err(unavailable()) } else { Ok(()) }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>, CatalogError> {
        self.inner.get(key)
    }

    fn properties(&self, key: &[u8], row: &Row) -> Result<Bytes, CatalogError> {
        self.inner.properties(key, row)
    }

    fn value(&self, key: &[u8], row: &Row) -> Result<Value, CatalogError> {
        self.inner.value(key, row)
    }

    fn scan(&self) -> Box<dyn Scan + '_> {
        self.inner.scan()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn clock_ms(&self) -> Result<Option<u64>, CatalogError> {
        Ok(Some(time::now_ms()))
    }
}
