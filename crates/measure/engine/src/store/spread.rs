//! A store with several endpoints, which each connection slot uses in turn.
//!
//! An operation that fails to reach its endpoint fails, as a client of that endpoint would see it. Its slot then leaves
//! the endpoint out for a second, so that one that is gone costs few operations, and one that returns is used again.

use std::sync::Arc;

use super::{
    BackgroundRequest, Capabilities, Connection, Description, ErrorClass, Failure, Local, Observer, Reply,
    Request, Store,
};
use plimsoll_base::clock::{SECOND, now_ns};
use plimsoll_base::provider::Profile;
use plimsoll_recorder::store_facts::RelayFacts;

/// Time for which a connection slot leaves an endpoint out that it could not reach, in nanoseconds.
const AWAY_NS: u64 = SECOND;

/// One bucket at several endpoints.
pub struct Spread {
    first: Arc<dyn Store>,
    others: Vec<Arc<dyn Store>>,
}

impl Spread {
    /// Combines the same bucket at a first endpoint and at others.
    pub fn new(first: Arc<dyn Store>, others: Vec<Arc<dyn Store>>) -> Spread {
        Spread { first, others }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Spread {
    fn describe(&self) -> Description {
        let each: Vec<Description> = self.all().map(|store| store.describe()).collect();
        let endpoint = each.iter().map(|of| of.endpoint.as_str()).collect::<Vec<_>>().join(",");
        let addresses = each.iter().flat_map(|of| of.addresses.clone()).collect();
        Description { endpoint, addresses, ..self.first.describe() }
    }

    fn connection(&self, index: usize) -> Box<dyn Connection> {
        let count = self.others.len() + 1;
        let mut addresses = 0;
        let slot = |store: &Arc<dyn Store>| {
            let before = addresses;
            addresses += store.describe().addresses.len().max(1);
            Slot { connection: store.connection(index / count), addresses_before: before, away_until_ns: 0 }
        };
        let slots = self.all().map(slot).collect();
        Box::new(SpreadConnection { slots, next: index % count, last: 0, is_open: false })
    }

    fn prefix(&self) -> &str {
        self.first.prefix()
    }

    fn container(&self) -> &str {
        self.first.container()
    }

    fn capabilities(&self) -> Capabilities {
        self.first.capabilities()
    }

    fn only_object(&self) -> Option<&str> {
        self.first.only_object()
    }

    fn profile(&self) -> Option<&Profile> {
        self.first.profile()
    }

    fn relayed(&self) -> Option<RelayFacts> {
        self.first.relayed()
    }

    fn background_requests(&self) -> Vec<BackgroundRequest> {
        self.all().flat_map(|store| store.background_requests()).collect()
    }

    fn endpoints(&self) -> usize {
        self.others.len() + 1
    }

    fn remove_leftovers(&self, prefix: &str, process: u32) {
        self.first.remove_leftovers(prefix, process);
    }
}

/// A connection to one endpoint.
struct Slot {
    connection: Box<dyn Connection>,
    /// Number of addresses of the endpoints before this one.
    addresses_before: usize,
    /// Time until which it is left out, on the monotonic clock; 0 if it is not.
    away_until_ns: u64,
}

/// A connection slot, with a connection to each endpoint.
struct SpreadConnection {
    slots: Vec<Slot>,
    /// Number of the endpoint whose turn it is.
    next: usize,
    /// Number of the endpoint of the last operation.
    last: usize,
    /// True if the last operation has not ended: its caller dropped it, for example at a deadline.
    is_open: bool,
}

impl SpreadConnection {
    /// Leaves the endpoint of the last operation out for a time.
    fn leave(&mut self) {
        self.slots[self.last].away_until_ns = now_ns() + AWAY_NS;
    }

    /// Returns the number of the endpoint of the next operation: the next one in turn that is not left out, or the next
    /// one if all are.
    fn choose(&mut self) -> usize {
        if self.is_open {
            self.leave();
        }
        let count = self.slots.len();
        let is_used = |slot: &Slot| slot.away_until_ns == 0 || now_ns() >= slot.away_until_ns;
        let turn = (self.next..self.next + count).map(|number| number % count);
        let chosen =
            turn.into_iter().find(|number| is_used(&self.slots[*number])).unwrap_or(self.next % count);
        self.next = (chosen + 1) % count;
        chosen
    }
}

/// Returns true if a failure says that the endpoint cannot be reached.
fn is_unreachable(failure: &Failure) -> bool {
    matches!(failure.class, ErrorClass::Connect | ErrorClass::Tls | ErrorClass::Reset | ErrorClass::Timeout)
}

#[deny(clippy::missing_trait_methods)]
impl Connection for SpreadConnection {
    fn execute<'a>(
        &'a mut self,
        request: Request<'a>,
        observer: &'a mut dyn Observer,
    ) -> Local<'a, Result<Reply, Failure>> {
        Box::pin(async move {
            self.last = self.choose();
            self.is_open = true;
            let result = self.slots[self.last].connection.execute(request, observer).await;
            self.is_open = false;
            match result.as_ref().is_err_and(is_unreachable) {
                true => self.leave(),
                false => self.slots[self.last].away_until_ns = 0,
            }
            result
        })
    }

    fn address(&self) -> Option<usize> {
        let slot = &self.slots[self.last];
        Some(slot.addresses_before + slot.connection.address().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::{Ignore, Timings};

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    /// An endpoint that counts its requests, and can be gone.
    struct Endpoint {
        name: &'static str,
        requests: AtomicUsize,
        is_gone: AtomicBool,
    }

    struct EndpointConnection(Arc<Endpoint>);

    impl Connection for EndpointConnection {
        fn execute<'a>(
            &'a mut self,
            _: Request<'a>,
            _: &'a mut dyn Observer,
        ) -> Local<'a, Result<Reply, Failure>> {
            Box::pin(async move {
                self.0.requests.fetch_add(1, Ordering::Relaxed);
                match self.0.is_gone.load(Ordering::Relaxed) {
                    true => Err(Failure::new(ErrorClass::Connect, "refused", Timings::default())),
                    false => Ok(Reply::default()),
                }
            })
        }
    }

    struct EndpointStore(Arc<Endpoint>);

    impl Store for EndpointStore {
        fn describe(&self) -> Description {
            let addresses = vec![format!("{}:1", self.0.name)];
            Description { endpoint: format!("http://{}", self.0.name), addresses, ..Description::default() }
        }

        fn connection(&self, _: usize) -> Box<dyn Connection> {
            Box::new(EndpointConnection(Arc::clone(&self.0)))
        }
    }

    fn endpoints() -> (Spread, [Arc<Endpoint>; 3]) {
        let all = ["a", "b", "c"].map(|name| {
            Arc::new(Endpoint { name, requests: AtomicUsize::new(0), is_gone: AtomicBool::new(false) })
        });
        let stores = all.iter().map(|one| Arc::new(EndpointStore(Arc::clone(one))) as Arc<dyn Store>);
        let mut stores: Vec<Arc<dyn Store>> = stores.collect();
        let first = stores.remove(0);
        (Spread::new(first, stores), all)
    }

    fn requests(all: &[Arc<Endpoint>; 3]) -> [usize; 3] {
        [0, 1, 2].map(|i| all[i].requests.load(Ordering::Relaxed))
    }

    #[test]
    fn each_slot_uses_the_endpoints_in_turn() {
        let (store, all) = endpoints();
        assert_eq!(store.describe().endpoint, "http://a,http://b,http://c");
        assert_eq!(store.describe().addresses, ["a:1", "b:1", "c:1"]);
        for index in 0..2 {
            let mut connection = store.connection(index);
            for turn in 0..4 {
                block_on(connection.execute(Request::CheckBucket, &mut Ignore)).unwrap();
                assert_eq!(connection.address(), Some((index + turn) % 3));
            }
        }
        assert_eq!(requests(&all), [3, 3, 2]);
    }

    #[test]
    fn a_slot_leaves_an_endpoint_out_that_is_gone() {
        let (store, all) = endpoints();
        all[1].is_gone.store(true, Ordering::Relaxed);
        let mut connection = store.connection(1);
        assert!(block_on(connection.execute(Request::CheckBucket, &mut Ignore)).is_err());
        assert_eq!(connection.address(), Some(1), "the endpoint that failed");
        for _ in 0..4 {
            block_on(connection.execute(Request::CheckBucket, &mut Ignore)).unwrap();
        }
        assert_eq!(requests(&all), [2, 1, 2]);
        all[0].is_gone.store(true, Ordering::Relaxed);
        all[2].is_gone.store(true, Ordering::Relaxed);
        for _ in 0..3 {
            assert!(block_on(connection.execute(Request::CheckBucket, &mut Ignore)).is_err(), "all are gone");
        }
    }

    #[test]
    fn a_slot_leaves_an_endpoint_out_whose_operation_was_dropped_and_returns_to_it() {
        let (store, _) = endpoints();
        let slot = || Slot { connection: store.connection(0), addresses_before: 0, away_until_ns: 0 };
        let mut connection =
            SpreadConnection { slots: vec![slot(), slot(), slot()], next: 1, last: 1, is_open: true };
        assert_eq!(connection.choose(), 2);
        connection.is_open = false;
        assert_eq!([connection.choose(), connection.choose()], [0, 2], "the second is left out");
        connection.slots[1].away_until_ns = 1;
        assert_eq!([connection.choose(), connection.choose()], [0, 1]);
    }

    #[test]
    fn a_single_store_has_the_facts_of_its_own() {
        let store = Spread::new(Arc::new(MemoryStore::named("memory:")), Vec::new());
        assert_eq!(store.describe(), MemoryStore::named("memory:").describe());
        assert_eq!(store.capabilities(), MemoryStore::named("memory:").capabilities());
    }
}
