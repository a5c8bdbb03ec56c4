//! Checks of consistency by clients on several nodes: the nodes execute clients of the same keys and send their
//! answers; the coordinator checks the histories.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use plimsoll_base::clock::{now_ns, wall_now};
use plimsoll_consistency::clients::{ClientSettings, Event};
use plimsoll_consistency::run::{Share, run_share};
use plimsoll_engine::driver::{Control, Shard};
use plimsoll_engine::store::ownership::{KeySpace, RunId};
use plimsoll_experiment::spec::NamedStore;
use plimsoll_s3::credentials::CredentialSource;
use plimsoll_session::RunError;
use plimsoll_session::open::{Named, open_as};

use super::clocks::Offset;

/// Check that the nodes of a fleet execute, instead of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsistencyJob {
    /// URL or name of the store.
    pub store: String,
    /// Table that defines the name; `None` for a URL.
    pub named: Option<NamedStore>,
    /// Id of the run, which determines the keys.
    pub run: String,
    /// Number of keys, of clients of a key, and of threads of a node.
    pub counts: (u32, u32, Option<u32>),
    /// Length of the check and of a turn, in nanoseconds.
    pub lengths_ns: (u64, u64),
    /// Size of an object in bytes.
    pub size: usize,
    /// Seed of the random requests.
    pub seed: u64,
    /// True to send writes with conditions.
    pub conditions: bool,
}

impl ConsistencyJob {
    /// Returns the plan of all clients, which start at `start_ns` on the monotonic clock.
    pub fn plan(&self, start_ns: u64) -> ClientSettings {
        let (keys, clients, _) = self.counts;
        let (duration_ns, per_key_ns) = self.lengths_ns;
        ClientSettings {
            keys,
            clients,
            per_key_ns,
            size: self.size,
            seed: self.seed,
            window_ns: (start_ns, start_ns + duration_ns),
            timeout_ns: plimsoll_base::net::client_limits::timeout().as_nanos() as u64,
            conditions: self.conditions,
        }
    }
}

/// Moves an event from the clock of a node to that of the coordinator.
pub fn on_our_clock(event: Event, offset: Offset) -> Event {
    match event {
        Event::Operation(turn, operation, etag) => {
            let error_ns = offset.error_ns.unsigned_abs();
            Event::Operation(turn, operation.shifted(-i128::from(offset.offset_ns), error_ns), etag)
        }
        other => other,
    }
}

/// Maximum number of events in one message.
const BATCH: usize = 500;
/// Time after which events are sent even if there are few.
const EVERY: Duration = Duration::from_millis(200);

/// Executes the clients of one node, which start at `start` on this host's clock, and passes their answers to `send`,
/// with times in Unix nanoseconds of this host's clock.
///
/// # Errors
/// If the store cannot be opened, or a thread cannot be created.
pub fn execute(
    job: &ConsistencyJob,
    shard: Shard,
    ca_bundle: Option<&std::path::Path>,
    credentials: Option<CredentialSource>,
    start: impl FnOnce() -> Option<jiff::Timestamp>,
    control: &Arc<Control>,
    send: impl Fn(Vec<Event>) + Send,
) -> Result<(), RunError> {
    let named: Named = job.named.iter().map(|table| (job.store.clone(), table.clone())).collect();
    let opened = open_as(&job.store, &named, ca_bundle, credentials)?;
    let id = RunId::parse(&job.run).ok_or_else(|| RunError::input("the id of the run is invalid"))?;
    let space = KeySpace::of_run(opened.store.prefix(), &id);
    let Some(start) = start() else { return Ok(()) };
    let to_unix_ns = wall_now().as_nanosecond() - i128::from(now_ns());
    let plan = job.plan((start.as_nanosecond() - to_unix_ns).max(0) as u64);
    let threads = job
        .counts
        .2
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32));
    let (events, answers) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut batch = Vec::new();
            loop {
                let event = answers.recv_timeout(EVERY);
                let ended = matches!(event, Err(RecvTimeoutError::Disconnected));
                let late = event.is_err();
                batch.extend(event.ok().map(|event| match event {
                    Event::Operation(turn, operation, etag) => {
                        Event::Operation(turn, operation.shifted(to_unix_ns, 0), etag)
                    }
                    other => other,
                }));
                if !batch.is_empty() && (late || batch.len() >= BATCH) {
                    send(std::mem::take(&mut batch));
                }
                if ended {
                    return;
                }
            }
        });
        let ran = run_share(Share { plan: &plan, shard, threads, control }, &opened.store, &space, &events);
        drop(events);
        ran
    })
    .map_err(RunError::store)
}
