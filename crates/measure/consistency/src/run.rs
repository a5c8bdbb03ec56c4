//! Runs the clients on several threads and checks the history of each key as soon as all of its clients have left it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::task::LocalSet;

use super::clients::{ClientSettings, Event, FOREIGN, KeyClient, KeyTurn};
use super::findings::Findings;
use super::history::{Action, Answer, RecordedRequest, Value};
use plimsoll_engine::driver::{Control, Shard};
use plimsoll_engine::store::Store;
use plimsoll_engine::store::ownership::KeySpace;

/// Unfinished histories, and the turn that each client is in.
struct Histories {
    turns: BTreeMap<KeyTurn, Vec<(RecordedRequest, Option<String>)>>,
    reached: HashMap<u32, Vec<u64>>,
}

impl Histories {
    fn new(plan: &ClientSettings) -> Histories {
        let reached = (0..plan.keys).map(|key| (key, vec![0; plan.clients as usize])).collect();
        Histories { turns: BTreeMap::new(), reached }
    }

    /// Returns the histories of a key that all clients have left, after a client has reached a turn.
    fn leave(&mut self, key: u32, member: u32, turn: u64) -> Vec<(KeyTurn, Named)> {
        let reached = self.reached.get_mut(&key).expect("the key is part of the plan");
        reached[member as usize] = turn;
        let first = reached.iter().copied().min().unwrap_or(0);
        let begin = |turn| KeyTurn { key, turn, owner: None };
        let left: Vec<KeyTurn> = self.turns.range(begin(0)..begin(first)).map(|(turn, _)| *turn).collect();
        left.into_iter().map(|turn| (turn, named(self.turns.remove(&turn).unwrap_or_default()))).collect()
    }
}

/// A history whose listings contain values instead of entity tags.
struct Named {
    history: Vec<RecordedRequest>,
    /// Number of entity tags that several values share.
    shared_tags: u64,
}

/// Replaces the entity tags in listings by the values that they stand for. A tag that two values share stands for none.
fn named(history: Vec<(RecordedRequest, Option<String>)>) -> Named {
    let mut tags: HashMap<&str, Option<Value>> = HashMap::new();
    for (operation, etag) in &history {
        let value = match (operation.action, operation.answer) {
            (Action::Get, Answer::Saw(Some(value))) if value != FOREIGN => Some(value),
            (action, Answer::Done) => action.written(),
            _ => None,
        };
        if let (Some(value), Some(etag)) = (value, etag.as_deref()) {
            tags.entry(etag.trim_matches('"'))
                .and_modify(|known| *known = known.filter(|known| *known == value))
                .or_insert(Some(value));
        }
    }
    let value_of = |etag: &Option<String>| tags.get(etag.as_deref()?.trim_matches('"')).copied().flatten();
    let name =
        |(operation, etag): &(RecordedRequest, Option<String>)| match (operation.answer, value_of(etag)) {
            (Answer::Present, Some(value)) => {
                RecordedRequest { answer: Answer::Saw(Some(value)), ..*operation }
            }
            _ => *operation,
        };
    let shared_tags = tags.values().filter(|value| value.is_none()).count() as u64;
    Named { history: history.iter().map(name).collect(), shared_tags }
}

/// Runs one thread of clients to their end.
fn run_thread(clients: Vec<KeyClient>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let local = LocalSet::new();
    let handles: Vec<_> = clients.into_iter().map(|client| local.spawn_local(client.run())).collect();
    local.block_on(&runtime, async {
        for handle in handles {
            handle.await.map_err(io::Error::other)??;
        }
        Ok(())
    })
}

/// Part of a plan that one process executes.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    /// Plan of all clients.
    pub plan: &'a ClientSettings,
    /// Shard whose clients the process executes.
    pub shard: Shard,
    /// Number of threads of the process.
    pub threads: u32,
    /// State through which the run is stopped.
    pub control: &'a Arc<Control>,
}

/// Runs the clients of `plan` on `threads` threads. Calls `progress` about once a second. After `control` was stopped,
/// unfinished histories are not checked.
///
/// # Errors
/// If a thread, a runtime or a timer cannot be created.
pub fn run(
    plan: ClientSettings,
    store: &Arc<dyn Store>,
    space: &KeySpace,
    threads: u32,
    control: &Arc<Control>,
    mut progress: impl FnMut(&Findings),
) -> io::Result<Findings> {
    let (events, answers) = channel();
    let running =
        start(Share { plan: &plan, shard: Shard::default(), threads, control }, store, space, &events)?;
    drop(events);
    let findings = receive(&plan, space, &answers, control, &mut progress);
    end(running)?;
    Ok(findings)
}

/// Runs the clients of one shard of a plan to their end, and sends their answers to `events`. Client number N belongs
/// to shard N modulo the number of shards, so the clients of a key are spread over all shards.
///
/// # Errors
/// Returns the same errors as [`run`].
pub fn run_share(
    share: Share<'_>,
    store: &Arc<dyn Store>,
    space: &KeySpace,
    events: &Sender<Event>,
) -> io::Result<()> {
    end(start(share, store, space, events)?)
}

type Running = Vec<thread::JoinHandle<io::Result<()>>>;

fn end(running: Running) -> io::Result<()> {
    for thread in running {
        thread.join().map_err(|_| io::Error::other("a client thread panicked"))??;
    }
    Ok(())
}

fn start(
    share: Share<'_>,
    store: &Arc<dyn Store>,
    space: &KeySpace,
    events: &Sender<Event>,
) -> io::Result<Running> {
    let Share { plan, shard, threads, control } = share;
    let plan = Arc::new(plan.clone());
    let mut lots: Vec<Vec<KeyClient>> = (0..threads.max(1)).map(|_| Vec::new()).collect();
    for (key, member) in (0..plan.keys).flat_map(|key| (0..plan.clients).map(move |member| (key, member))) {
        if u64::from(key + member) % shard.of != shard.index {
            continue;
        }
        // The clients of a key are on different threads.
        lots[((u64::from(key + member) / shard.of) % u64::from(threads.max(1))) as usize].push(KeyClient {
            plan: Arc::clone(&plan),
            store: Arc::clone(store),
            space: space.clone(),
            key,
            member,
            events: events.clone(),
            control: Arc::clone(control),
        });
    }
    let spawn = |(index, lot)| {
        thread::Builder::new().name(format!("consistency-{index}")).spawn(move || run_thread(lot))
    };
    lots.into_iter().enumerate().map(spawn).collect()
}

/// Checks the history of each key as soon as all of its clients have left it, until all senders are gone.
pub fn receive(
    plan: &ClientSettings,
    space: &KeySpace,
    answers: &Receiver<Event>,
    control: &Control,
    progress: &mut dyn FnMut(&Findings),
) -> Findings {
    let mut findings = Findings::default();
    let mut histories = Histories::new(plan);
    loop {
        match answers.recv_timeout(Duration::from_secs(1)) {
            Ok(Event::Operation(turn, operation, etag)) => {
                histories.turns.entry(turn).or_default().push((operation, etag));
            }
            Ok(Event::Failed { class, message }) => findings.add_failure(&class, &message),
            Ok(Event::Unanswered(reason)) => findings.add_unanswered(&reason),
            Ok(Event::Reached { key, member, turn }) => {
                let complete = control.stopped_at().is_none();
                for (turn, named) in histories.leave(key, member, turn).into_iter().filter(|_| complete) {
                    findings.add(&turn.object_key(space), &named.history);
                    findings.shared_tags += named.shared_tags;
                }
                progress(&findings);
            }
            Err(RecvTimeoutError::Timeout) => progress(&findings),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    findings.finish();
    findings
}
