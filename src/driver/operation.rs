//! One connection at work: takes the operation that is due, carries it out with its attempts and its deadline, and has it
//! recorded.

use std::fs::File;
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::Poll;

use super::Site;
use super::attempt::{Expected, Tries, Unfinished, Watcher, send_with_retries, wait_until};
use super::compound;
use super::content::{Content, FileContent};
use super::context::{Context, Task};
use super::dispatch::next_task;
use super::multipart::{self, Connections};
use super::records::encode;
use super::slots::CallOff;
use crate::clock::{MILLISECOND, Timer, now_ns};
use crate::recorder::collector::Message;
use crate::recorder::{Completed, OperationResult};
use crate::schedule::{Phase, Verify};
use crate::store::integrity::cheapest;
use crate::store::{BodyChecksum, Connection, ErrorClass, Failure, Ignore, Reply, Request, Timings};
use crate::workload::dataset::UNKNOWN_SIZE;
use crate::workload::{Dataset, Operation, OperationKind};

/// Carries out operations until the connections are sent home; gives the connection back.
pub async fn slot_loop(
    context: Rc<Context>,
    id: usize,
    mut connection: Box<dyn Connection>,
) -> Box<dyn Connection> {
    let mut state = SlotState::default();
    let mut free_since_ns = 0;
    loop {
        let task = poll_fn(|cx| {
            if context.slots.stopped() {
                return Poll::Ready(None);
            }
            match next_task(&context, id, free_since_ns) {
                Some(task) => Poll::Ready(Some(task)),
                None => {
                    context.slots.wait(id, cx);
                    // A connection that waits is free for whatever comes.
                    free_since_ns = 0;
                    Poll::Pending
                }
            }
        });
        let Some(task) = task.await else { return connection };
        context.slots.got_work(id);
        free_since_ns = carry_out(&context, id, connection.as_mut(), task, &mut state).await;
        context.slots.finished(id);
        // Only a drain waits for single operations; waking the dispatcher for each would cost a system call.
        if context.draining.get() && context.slots.working() == 0 {
            context.changed.notify_one();
        }
        let cooldown_ns = context.phase(task.phase).cooldown_ns;
        if cooldown_ns > 0 && !context.draining.get() {
            wait_until(&mut state.timer, now_ns() + cooldown_ns).await;
        }
        if cooldown_ns > 0 || std::mem::take(&mut state.looked_after) {
            free_since_ns = now_ns();
        }
        if std::mem::take(&mut state.withheld) {
            // The run is about to end.
            wait_until(&mut state.timer, now_ns() + 10 * MILLISECOND).await;
            free_since_ns = now_ns();
        }
        if state.refused > 0 && task.intended_ns.is_none() {
            pause_after_refusal(&mut state).await;
            free_since_ns = now_ns();
        }
    }
}

/// Buffers for keys, reused.
#[derive(Default)]
struct Keys {
    key: String,
    start_after: String,
}

/// What a connection keeps from operation to operation.
#[derive(Default)]
struct SlotState {
    keys: Keys,
    timer: Option<Timer>,
    refused: u32,
    /// Further connections, for parts that are sent at once.
    more: Vec<Box<dyn Connection>>,
    /// The file that was sent last.
    file: Option<(PathBuf, Rc<FileContent>)>,
    /// Whether the connection was busy with the last operation beyond its end.
    looked_after: bool,
    /// Whether a request of the last operation was withheld.
    withheld: bool,
}

/// A closed loop against a dead server would otherwise spin, a hundred thousand failures a second; after the first
/// connection failure a connection waits 10 ms before its next operation, then twice as long each time, at most a second.
async fn pause_after_refusal(state: &mut SlotState) {
    let pause = ((10 * MILLISECOND) << state.refused.min(7)) / 2;
    wait_until(&mut state.timer, now_ns() + pause.min(1_000 * MILLISECOND)).await;
}

/// A file of ours that cannot be used.
fn file_failure(message: String) -> Failure {
    let now = now_ns();
    let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
    Failure::new(ErrorClass::File, message, timings)
}

/// What an operation writes, or expects to read.
fn content_of(
    context: &Context,
    phase: &Phase,
    dataset: &Dataset,
    operation: &Operation,
    state: &mut SlotState,
) -> Result<Content, Failure> {
    if phase.workload.sink.is_some() {
        // What is written to files is not compared, so its content need not be known.
        return Ok(Content::length(dataset, operation));
    }
    let Some(path) = dataset.file_of(operation.index) else {
        let cut = dataset.content(&context.worker.job.block, operation.index, operation.version);
        return Ok(match dataset.encoding {
            None => Content::Cut(cut),
            Some(encoding) if operation.kind.rewrites() && !encoding.writes_all => {
                let field = operation.index % u64::from(encoding.fields.max(1));
                Content::Whole(encode(encoding, &cut, field..field + 1))
            }
            Some(encoding) => Content::Whole(encode(encoding, &cut, 0..u64::from(encoding.fields))),
        });
    };
    if let Some((_, file)) = state.file.as_ref().filter(|(known, _)| *known == path) {
        return Ok(Content::File(Rc::clone(file)));
    }
    let opened = FileContent::open(&path).map_err(|e| file_failure(format!("{}: {e}", path.display())))?;
    let file = Rc::new(opened);
    state.file = Some((path, Rc::clone(&file)));
    Ok(Content::File(file))
}

/// The file that an object that is read is written to, where there is one.
fn sink_of(phase: &Phase, dataset: &Dataset, index: u64) -> Result<Option<File>, Failure> {
    let Some(directory) = &phase.workload.sink else { return Ok(None) };
    let path = dataset.file_in(directory, index);
    File::create(&path).map(Some).map_err(|e| file_failure(format!("{}: {e}", path.display())))
}

/// Carries out one operation and returns when it ended.
async fn carry_out(
    context: &Context,
    id: usize,
    connection: &mut dyn Connection,
    task: Task,
    state: &mut SlotState,
) -> u64 {
    let phase = context.phase(task.phase);
    let operation = context.sequences.borrow_mut()[task.phase].at(task.number);
    let dataset = phase.workload.dataset(operation.target);
    let job = &context.worker.job;
    let site = &job.sites[context.segment.store];
    let ready = content_of(context, phase, dataset, &operation, state);
    let ready = ready.and_then(|content| Ok((content, sink_of(phase, dataset, operation.index)?)));
    let (content, sink) = match ready {
        Ok(ready) => ready,
        Err(failure) => {
            let start_ns = failure.timings.start_ns;
            context.recorder.borrow_mut().started(operation.kind, start_ns);
            let ending =
                Ending { result: Err(Unfinished::Failed(failure)), tries: Tries::default(), start_ns };
            return settle(context, task, &operation, ending, state);
        }
    };
    let mut keys = std::mem::take(&mut state.keys);
    let (request, expected) = build(phase, &operation, site, &content, &mut keys);
    let mut watcher = Watcher {
        context,
        id,
        task,
        kind: operation.kind,
        timeout_ns: phase.timeout_ns,
        tag: job.tag.then(|| format!("{}/{}", phase.name, task.number)),
        start_ns: 0,
        expected: &expected,
        at: expected.from,
        sink: sink.as_ref(),
    };
    let mut tries = Tries::default();
    let doing = Doing { operation: &operation, dataset, content: &content };
    let mut result = conduct(doing, connection, request, &mut watcher, &mut tries, state).await;
    if let (Err(Unfinished::Failed(failure)), Some(fault)) = (&mut result, content.fault()) {
        (failure.class, failure.message) = (ErrorClass::File, fault);
    }
    let start_ns = watcher.start_ns;
    state.keys = keys;
    settle(context, task, &operation, Ending { result, tries, start_ns }, state)
}

/// What an operation is about.
#[derive(Clone, Copy)]
struct Doing<'a> {
    operation: &'a Operation,
    dataset: &'a Dataset,
    content: &'a Content,
}

/// Makes the requests of one operation.
async fn conduct(
    doing: Doing<'_>,
    connection: &mut dyn Connection,
    request: Request<'_>,
    watcher: &mut Watcher<'_>,
    tries: &mut Tries,
    state: &mut SlotState,
) -> Result<Reply, Unfinished> {
    let Doing { operation, dataset, content } = doing;
    let site = watcher.site();
    let upload = &dataset.upload;
    match request {
        Request::Get { key, .. } if operation.kind == OperationKind::ReadModifyWrite => {
            let declared = declared_of(dataset, site);
            let timer = &mut state.timer;
            compound::read_modify_write(connection, key, content, declared, watcher, tries, timer).await
        }
        Request::Get { key, .. } if operation.kind == OperationKind::Scan => {
            let prefix = dataset.prefix(site.space.root());
            let what = (prefix.as_str(), key, operation.length);
            compound::scan(connection, what, watcher, tries, &mut state.timer).await
        }
        Request::Put { key, .. } if upload.part_size > 0 && content.total() > upload.part_size => {
            let parts = content.total().div_ceil(upload.part_size) as usize;
            let connections = upload.in_flight.min(parts);
            while state.more.len() + 1 < connections {
                state.more.push(site.store.connection(watcher.id + state.more.len() + 1));
            }
            let connections = Connections { own: connection, more: &mut state.more[..connections - 1] };
            let put = multipart::put(connections, key, (content, upload), watcher, tries, &mut state.timer);
            let done = put.await?;
            verified(connection, key, content, done.checked, watcher, done.reply, state).await
        }
        Request::Put { key, body } if watcher.phase().verify == Verify::Readback => {
            let put = Request::Put { key, body };
            let reply = send_with_retries(connection, put, watcher, tries, &mut state.timer).await?;
            verified(connection, key, content, true, watcher, reply, state).await
        }
        request => send_with_retries(connection, request, watcher, tries, &mut state.timer).await,
    }
}

/// Holds what was put against what the store has, outside the operation's time; what differs is deleted again.
async fn verified(
    connection: &mut dyn Connection,
    key: &str,
    content: &Content,
    checked: bool,
    put: &Watcher<'_>,
    reply: Reply,
    state: &mut SlotState,
) -> Result<Reply, Unfinished> {
    let phase = put.phase();
    let readback = phase.verify == Verify::Readback;
    if phase.verify == Verify::Off || (checked && !readback) {
        return Ok(reply);
    }
    state.looked_after = true;
    let mut expected = Expected::length(content.total());
    expected.content = readback.then(|| content.clone());
    let mut watcher = Watcher { expected: &expected, at: 0, tag: None, ..*put };
    watcher.extend();
    let request = if readback { Request::Get { key, range: None } } else { Request::Head { key } };
    let seen =
        send_with_retries(connection, request, &mut watcher, &mut Tries::default(), &mut state.timer).await;
    let Err(Unfinished::Failed(failure)) = seen else { return seen.map(|_| reply) };
    if failure.class == ErrorClass::Corrupt {
        let owned = put.site().space_of(&put.phase().workload.written);
        let owned = owned.as_ref().and_then(|space| space.own(key));
        if let Some(key) = owned {
            let _ = connection.execute(Request::Delete { key }, &mut Ignore).await;
        }
    }
    let message = format!("put well, but reading it back: {}", failure.message);
    Err(Unfinished::Failed(Failure { timings: reply.timings, message, ..failure }))
}

struct Ending {
    result: Result<Reply, Unfinished>,
    tries: Tries,
    start_ns: u64,
}

/// Has the operation recorded; returns when it ended.
fn settle(
    context: &Context,
    task: Task,
    operation: &Operation,
    ending: Ending,
    state: &mut SlotState,
) -> u64 {
    let Ending { result, tries: Tries { attempts, retries, spent }, start_ns } = ending;
    state.withheld = matches!(&result, Err(Unfinished::Failed(f)) if f.class == ErrorClass::Withheld);
    if state.withheld && start_ns == 0 {
        return never_begun(context, task, operation.kind);
    }
    let timeout = ErrorClass::Timeout;
    let mut timings = match &result {
        Ok(reply) => reply.timings,
        Err(Unfinished::Failed(failure)) => failure.timings,
        Err(Unfinished::CalledOff(_)) => Timings { start_ns, end_ns: now_ns(), ..Timings::default() },
    };
    timings.add_connections(&spent);
    timings.start_ns = start_ns;
    if timings.end_ns == 0 {
        timings.end_ns = now_ns();
    }
    let refused = matches!(&result, Err(Unfinished::Failed(f)) if matches!(f.class, ErrorClass::Connect | ErrorClass::Tls));
    // Counted up from refusal to refusal, so that the pause doubles.
    state.refused = if refused { state.refused + 1 } else { 0 };
    let outcome = match &result {
        Ok(reply) => OperationResult::Done(reply.bytes),
        // What was begun is left where it is, as at any early end.
        Err(Unfinished::Failed(_)) if state.withheld => OperationResult::Undrained,
        Err(Unfinished::Failed(failure)) => {
            tell(context, &failure.class, &failure.message);
            OperationResult::Failed(&failure.class)
        }
        Err(Unfinished::CalledOff(CallOff::Deadline)) => {
            tell(context, &timeout, "no answer before the operation's deadline");
            OperationResult::Failed(&timeout)
        }
        Err(Unfinished::CalledOff(CallOff::Undrained)) => OperationResult::Undrained,
    };
    if matches!(outcome, OperationResult::Failed(_)) {
        context.failed.set(context.failed.get() + 1);
    }
    context.last_end_ns.set(context.last_end_ns.get().max(timings.end_ns));
    let completed = Completed {
        phase: context.number(task.phase),
        number: task.number,
        kind: operation.kind,
        intended_ns: task.intended_ns,
        ready_ns: task.ready_ns,
        timings,
        cache: result.as_ref().ok().and_then(|reply| reply.cache),
        outcome,
        attempts,
        retries,
    };
    context.recorder.borrow_mut().completed(&completed);
    timings.end_ns
}

/// An operation of which nothing was sent: one that was due waited until now, and one of a closed loop was none.
fn never_begun(context: &Context, task: Task, kind: OperationKind) -> u64 {
    let now = now_ns();
    if let Some(intended) = task.intended_ns {
        let phase = context.number(task.phase);
        context.recorder.borrow_mut().never_begun(phase, task.number, kind, intended, now);
    }
    now
}

/// Passes on the first failure of each class.
fn tell(context: &Context, class: &ErrorClass, message: &str) {
    let class = class.to_string();
    if context.told.borrow_mut().insert(class.clone()) {
        let _ = context.worker.messages.send(Message::Failure(class, message.to_string()));
    }
}

/// The checksum that an upload bears.
fn declared_of(dataset: &Dataset, site: &Site) -> Option<BodyChecksum> {
    match dataset.upload.checksum.as_deref() {
        None => None,
        Some("auto") => site.store.profile().and_then(cheapest),
        Some(name) => BodyChecksum::from_name(name),
    }
}

/// Builds the request for an operation, and what its answer must be.
fn build<'a>(
    phase: &Phase,
    operation: &Operation,
    site: &Site,
    content: &Content,
    keys: &'a mut Keys,
) -> (Request<'a>, Expected) {
    let root = site.space.root();
    let dataset = phase.workload.dataset(operation.target);
    let mut expected = Expected::nothing();
    if operation.kind == OperationKind::List {
        // Pages begin at a random object, so that a listing of many objects is not always the same one.
        keys.start_after.clear();
        if dataset.count > 1000 && site.store.capabilities().start_after {
            dataset.key_into(&mut keys.start_after, root, operation.index);
        }
        keys.key = dataset.prefix(root);
        let (prefix, start_after) = (keys.key.as_str(), keys.start_after.as_str());
        return (Request::List { prefix, start_after, token: "", max_keys: 1000 }, expected);
    }
    dataset.key_into(&mut keys.key, root, operation.index);
    let key = keys.key.as_str();
    // What others wrote can only be held against its length and the checksum that the store keeps.
    let verify = phase.verify != Verify::Off;
    // And what updates cut down to one field has no known length.
    let compared = verify && dataset.existing.is_none() && dataset.encoding.is_none();
    let request = match operation.kind {
        OperationKind::Put | OperationKind::Update => {
            expected.declared = declared_of(dataset, site);
            Request::Put { key, body: content.body() }
        }
        OperationKind::Get | OperationKind::Scan | OperationKind::ReadModifyWrite => {
            let known = |bytes: &u64| *bytes != UNKNOWN_SIZE && dataset.encoding.is_none();
            expected.bytes = Some(content.total()).filter(known);
            expected.content = compared.then(|| content.clone());
            expected.checksum = verify && dataset.existing.is_some();
            Request::Get { key, range: None }
        }
        OperationKind::GetRange => {
            let length = phase.workload.range.min(content.total());
            expected.from = operation.range_start;
            expected.bytes = Some(length);
            expected.content = compared.then(|| content.clone());
            Request::Get { key, range: Some(operation.range_start..operation.range_start + length) }
        }
        OperationKind::Head => {
            expected.bytes = Some(content.total()).filter(|bytes| *bytes != UNKNOWN_SIZE);
            Request::Head { key }
        }
        OperationKind::Delete | OperationKind::List => {
            let owned = site.space.own(key).expect("a phase deletes only objects of its own run");
            Request::Delete { key: owned }
        }
    };
    (request, expected)
}
