//! The store of a canary, and the operations on its object.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_base::clock::{SECOND, Timer, now_ns};
use plimsoll_engine::driver::Control;
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_engine::store::{Body, Connection, ErrorClass, Failure, Observer, Reply, Request, Timings};
use plimsoll_session::RunError;
use plimsoll_session::lifecycle::require_writes;
use plimsoll_session::open::{self, Opened};
use plimsoll_workload::OperationKind;
use plimsoll_workload::payload::{Block, Cut};

/// Time after which the store is opened again, in nanoseconds, for new addresses and credentials.
const OPEN_NS: u64 = 600 * SECOND;

/// An operation that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Kind of operation: put, get or delete.
    pub kind: OperationKind,
    /// Address of the store that it used; `None` if the store has only one, or if it is unknown.
    pub address: Option<String>,
    /// Object bytes that were sent or received.
    pub bytes: u64,
    /// Time from its start to its end, in nanoseconds.
    pub service_ns: u64,
    /// Time from its intended start to its end, in nanoseconds.
    pub response_ns: u64,
    /// Class and message of its failure; `None` if it succeeded.
    pub failure: Option<(String, String)>,
}

/// An open store with a connection.
struct Link {
    opened: Opened,
    connection: Box<dyn Connection>,
    space: KeySpace,
    key: String,
    opened_ns: u64,
    /// Addresses of the store.
    addresses: Vec<String>,
}

/// The store of a canary.
pub struct CanaryStore {
    written: String,
    ca_bundle: Option<PathBuf>,
    timeout: Duration,
    size: u64,
    id: RunId,
    block: Block,
    runtime: tokio::runtime::Runtime,
    link: Option<Link>,
    /// Name of the store in metrics and in the history.
    name: String,
    /// Number of operations so far.
    count: u64,
    /// Version of the object that the store has; `None` if it has none, or if it is unknown.
    version: Option<u64>,
    /// True if the store may have the object.
    may_exist: bool,
    /// Number of consecutive operations without an answer.
    unanswered: usize,
}

/// Compares received content with the expected one.
struct Compare<'a> {
    expected: Option<&'a Cut>,
    at: u64,
}

impl Observer for Compare<'_> {
    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        if let Some(expected) = self.expected {
            expected.compare(self.at, data)?;
        }
        self.at += data.len() as u64;
        Ok(())
    }

    fn expected_size(&self) -> Option<u64> {
        self.expected.map(Cut::total)
    }
}

impl CanaryStore {
    /// Creates the target in the key space of `id`, without opening the store.
    ///
    /// # Errors
    /// [`RunError::Store`] if the runtime cannot be created.
    pub fn new(
        written: &str,
        ca_bundle: Option<PathBuf>,
        timeout: Duration,
        size: u64,
        id: RunId,
    ) -> Result<CanaryStore, RunError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RunError::store)?;
        Ok(CanaryStore {
            written: written.to_string(),
            ca_bundle,
            timeout,
            size,
            id,
            block: Block::new(0),
            runtime,
            link: None,
            name: written.to_string(),
            count: 0,
            version: None,
            may_exist: true,
            unanswered: 0,
        })
    }

    /// Returns the name of the store, without secrets.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens the store.
    ///
    /// # Errors
    /// [`RunError::Input`] if the URL is invalid or the store is read-only; [`RunError::Store`] if it cannot be opened.
    pub fn open(&mut self) -> Result<(), RunError> {
        let opened = open::open(&self.written, self.ca_bundle.as_deref())?;
        require_writes(std::slice::from_ref(&opened))?;
        self.name.clone_from(&opened.written);
        let connection = opened.store.connection(0);
        let space = KeySpace::of_run(opened.store.prefix(), &self.id);
        let key = format!("{}canary", space.root());
        let addresses = opened.store.describe().addresses;
        self.link = Some(Link { opened, connection, space, key, opened_ns: now_ns(), addresses });
        Ok(())
    }

    /// Waits until a time on the monotonic clock; returns false if the control is stopped before.
    pub fn wait_until(&self, at_ns: u64, control: &Control) -> bool {
        if now_ns() < at_ns {
            self.runtime.block_on(control.unless_stopped(async {
                if let Ok(mut timer) = Timer::new() {
                    let _ = timer.until(at_ns).await;
                }
            }));
        }
        control.stopped_at().is_none()
    }

    /// Returns the kind of the next operation: put, get and delete in turn, and only puts while there is no object.
    fn next_kind(&self) -> OperationKind {
        match (self.version, self.count % 3) {
            (None, _) | (_, 0) => OperationKind::Put,
            (_, 1) => OperationKind::Get,
            _ => OperationKind::Delete,
        }
    }

    /// Executes the next operation.
    pub fn next(&mut self, intended_ns: u64) -> Ended {
        let kind = self.next_kind();
        let start_ns = now_ns();
        let result = self.linked().and_then(|()| self.execute(kind));
        self.count += 1;
        let address = self.address();
        let mut ended = Ended { kind, address, bytes: 0, service_ns: 0, response_ns: 0, failure: None };
        let timings = match result {
            Ok(reply) => {
                (self.unanswered, ended.bytes) = (0, reply.bytes);
                reply.timings
            }
            Err(failure) => {
                self.after(&failure);
                ended.failure = Some((failure.class.to_string(), failure.message.clone()));
                failure.timings
            }
        };
        let started_ns = if timings.start_ns > 0 { timings.start_ns } else { start_ns };
        let end_ns = if timings.end_ns > 0 { timings.end_ns } else { now_ns() };
        ended.service_ns = end_ns.saturating_sub(started_ns);
        ended.response_ns = end_ns.saturating_sub(intended_ns);
        ended
    }

    /// Returns the address of the last operation, if the store has several.
    fn address(&self) -> Option<String> {
        let link = self.link.as_ref().filter(|link| link.addresses.len() > 1)?;
        link.addresses.get(link.connection.address()?).cloned()
    }

    /// Opens the store if it is not open, or has been for long.
    fn linked(&mut self) -> Result<(), Failure> {
        if self.link.as_ref().is_some_and(|link| now_ns() < link.opened_ns + OPEN_NS) {
            return Ok(());
        }
        (self.link, self.unanswered) = (None, 0);
        let failed =
            |error: RunError| Failure::new(ErrorClass::Connect, error.to_string(), Timings::default());
        self.open().map_err(failed)
    }

    /// Executes an operation, with its deadline.
    fn execute(&mut self, kind: OperationKind) -> Result<Reply, Failure> {
        let unopened = || Failure::new(ErrorClass::Connect, "the store is not open", Timings::default());
        let Some(link) = &mut self.link else { return Err(unopened()) };
        let Link { connection, space, key, .. } = link;
        let key = key.as_str();
        let version = if kind == OperationKind::Put { self.count } else { self.version.unwrap_or(0) };
        let cut = self.block.cut(0, 0, version, self.size);
        let request = match kind {
            OperationKind::Put => Request::Put { key, body: Body::Whole(cut.whole()) },
            OperationKind::Get => Request::Get { key, range: None },
            _ => Request::Delete { key: space.own(key).ok_or_else(unopened)? },
        };
        let reads = kind == OperationKind::Get;
        if kind == OperationKind::Put {
            // Until it is answered, nobody knows what the store has.
            (self.version, self.may_exist) = (None, true);
        }
        let mut observer = Compare { expected: reads.then_some(&cut), at: 0 };
        let work = connection.execute(request, &mut observer);
        let late = || Failure::new(ErrorClass::Timeout, "no answer before the deadline", Timings::default());
        let limit = self.timeout;
        let answered = self.runtime.block_on(async { tokio::time::timeout(limit, work).await });
        let reply = answered.unwrap_or_else(|_| Err(late()))?;
        if reads && observer.at != self.size {
            let message = format!("{} bytes instead of {}", observer.at, self.size);
            return Err(Failure::new(ErrorClass::Corrupt, message, reply.timings));
        }
        match kind {
            OperationKind::Put => self.version = Some(version),
            OperationKind::Delete => (self.version, self.may_exist) = (None, false),
            _ => {}
        }
        Ok(reply)
    }

    /// Prepares for the next operation after a failure.
    fn after(&mut self, failure: &Failure) {
        let is_answered = matches!(failure.class, ErrorClass::Response(_) | ErrorClass::Corrupt);
        self.unanswered = if is_answered { 0 } else { self.unanswered + 1 };
        // A connection leaves out an address that does not answer. If none answers, the store may have new ones.
        let addresses = self.link.as_ref().map_or(1, |link| link.addresses.len().max(1));
        if self.unanswered >= addresses || failure.is_code("ExpiredToken") || failure.is_code("InvalidToken")
        {
            self.link = None;
        }
        // Another one may have deleted or replaced the object.
        self.version = None;
    }

    /// Deletes the object, if the store may have it.
    ///
    /// # Errors
    /// If the request fails; the object may then stay.
    pub fn clean(&mut self) -> Result<(), Failure> {
        if !self.may_exist {
            return Ok(());
        }
        self.linked()?;
        self.execute(OperationKind::Delete)?;
        if let Some(Link { opened, space, .. }) = &self.link {
            opened.store.remove_leftovers(space.root(), std::process::id());
        }
        Ok(())
    }
}
