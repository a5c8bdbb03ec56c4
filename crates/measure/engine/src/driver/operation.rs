//! Execution of operations on one connection slot: takes the next operation, sends its requests with retries
//! and a deadline, and records the result.

use std::fs::File;
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use super::compound;
use super::content::{Content, FileContent};
use super::context::{Context, Task};
use super::dispatch::next_task;
use super::multipart::{self, Connections};
use super::read_back::{Written, verify_written};
use super::request::{KeyBuffers, build, upload_checksum_of};
use super::retry::{
    AttemptCounts, AttemptError, OperationObserver, address_of, pause_after_refusal, send_with_retries,
    wait_until,
};
use super::slots::CancelReason;
use super::writers::Writing;
use crate::store::{Connection, Failure, Reply, Request};
use plimsoll_base::clock::{MILLISECOND, Timer, now_ns};
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;
use plimsoll_recorder::collector::Message;
use plimsoll_recorder::{Completed, OperationResult};
use plimsoll_workload::records::encode;
use plimsoll_workload::schedule::{Phase, Role, Verify};
use plimsoll_workload::trace::UNKNOWN_VERSION;
use plimsoll_workload::{Dataset, Operation, OperationKind};

/// Executes operations on connection slot `id` until the slots must exit. Returns the connection for reuse.
pub async fn slot_loop(
    context: Rc<Context>,
    id: usize,
    mut connection: Box<dyn Connection>,
) -> Box<dyn Connection> {
    let mut state = SlotState::default();
    let mut free_since_ns = 0;
    // Number of consecutive operations that could not connect.
    let mut refusals: u32 = 0;
    loop {
        let task = poll_fn(|cx| {
            if context.slots.stopped() {
                return Poll::Ready(None);
            }
            match next_task(&context, id, free_since_ns) {
                Some(task) => Poll::Ready(Some(task)),
                None => {
                    context.slots.wait(id, cx);
                    // 0, because a waiting slot is free when its next operation becomes due.
                    free_since_ns = 0;
                    Poll::Pending
                }
            }
        });
        let Some(task) = task.await else { return connection };
        context.slots.start_work(id);
        let ended = execute_operation(&context, id, connection.as_mut(), task, &mut state).await;
        context.slots.finish_work(id);
        // The dispatcher needs this notification only during a drain. Each one costs a system call.
        if context.offer.draining.get() && context.slots.working() == 0 {
            context.offer.changed.notify_one();
        }
        free_since_ns = if ended.busy_after_end { now_ns() } else { ended.end_ns };
        let think_time_ns = context.phase(task.phase).think_time_ns;
        if think_time_ns > 0 && context.offer.draining.get() {
            // A drain does not wait for the think time, which belongs to the slot's last cycle all the same.
            free_since_ns += think_time_ns;
        } else if think_time_ns > 0 {
            wait_until(&mut state.timer, now_ns() + think_time_ns).await;
            free_since_ns = now_ns();
        }
        refusals = if ended.next == Next::AfterRefusal { refusals + 1 } else { 0 };
        match ended.next {
            // The run is about to stop. The pause keeps the slot from spinning until then.
            Next::AfterCostLimit => {
                wait_until(&mut state.timer, now_ns() + 10 * MILLISECOND).await;
                free_since_ns = now_ns();
            }
            Next::AfterRefusal if task.intended_ns.is_none() => {
                pause_after_refusal(refusals, &mut state.timer).await;
                free_since_ns = now_ns();
            }
            Next::AfterRefusal | Next::AtOnce => {}
        }
        context.slots.set_free_since(id, free_since_ns);
        // A store in memory never waits, so its slots would keep the others and the reports from running.
        tokio::task::coop::consume_budget().await;
    }
}

/// State that a connection slot keeps between operations.
#[derive(Default)]
struct SlotState {
    keys: KeyBuffers,
    /// Timer for pauses; `None` before the first pause.
    timer: Option<Timer>,
    /// Additional connections, for parts that are sent in parallel.
    extra: Vec<Box<dyn Connection>>,
    /// Path and content of the last file that was opened; `None` before the first.
    file: Option<(PathBuf, Arc<FileContent>)>,
}

/// When a connection slot takes its next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Without a pause.
    AtOnce,
    /// After a pause, because the cost limit withheld a request.
    AfterCostLimit,
    /// After a pause, because the store refused the connection.
    AfterRefusal,
}

impl Next {
    fn after(result: &Result<Reply, AttemptError>) -> Next {
        let Err(AttemptError::Failed(failure)) = result else { return Next::AtOnce };
        match failure.class {
            ErrorClass::Withheld => Next::AfterCostLimit,
            ErrorClass::Connect | ErrorClass::Tls => Next::AfterRefusal,
            _ => Next::AtOnce,
        }
    }
}

/// An operation that has ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    /// End of the operation, in nanoseconds on the monotonic clock.
    end_ns: u64,
    /// True if the slot verified the operation after its end.
    busy_after_end: bool,
    /// When the slot takes its next operation.
    next: Next,
}

/// Returns a failure of class [`ErrorClass::File`] at the current time.
fn file_failure(message: String) -> Failure {
    let now = now_ns();
    let timings = Timings { start_ns: now, end_ns: now, ..Timings::default() };
    Failure::new(ErrorClass::File, message, timings)
}

/// Length up to which generated content is generated before its operation starts, in bytes. Of longer content, each
/// piece is generated while the system sends the one before, so that no more memory is needed per operation.
const GENERATED_BEFORE: u64 = 16 << 20;

/// Returns the content that an operation writes or expects to read.
///
/// # Errors
/// Returns a failure of class [`ErrorClass::File`] if the source file cannot be opened.
fn content_of(
    context: &Context,
    phase: &Phase,
    dataset: &Dataset,
    operation: &Operation,
    state: &mut SlotState,
) -> Result<Content, Failure> {
    // Content that is written to files is not compared, so its length suffices. That of existing objects is unknown.
    let is_foreign = operation.kind == OperationKind::Copy && dataset.existing.is_some();
    if phase.workload.sink.is_some() || operation.version == UNKNOWN_VERSION || is_foreign {
        return Ok(Content::length_only(dataset, operation));
    }
    let Some(path) = dataset.file_of(operation.index) else {
        let cut = dataset.content(&context.worker.job.block, operation.index, operation.version);
        let writes = operation.kind == OperationKind::Put || operation.kind.rewrites();
        return Ok(match dataset.encoding {
            None if writes && cut.is_generated() && cut.total() <= GENERATED_BEFORE => {
                Content::Whole(cut.whole())
            }
            None => Content::Cut(cut),
            Some(encoding) if operation.kind.rewrites() && !encoding.writes_all => {
                let field = operation.index % u64::from(encoding.fields.max(1));
                Content::Whole(encode(encoding, &cut, field..field + 1))
            }
            Some(encoding) => Content::Whole(encode(encoding, &cut, 0..u64::from(encoding.fields))),
        });
    };
    if let Some((_, file)) = state.file.as_ref().filter(|(known, _)| *known == path) {
        return Ok(Content::File(Arc::clone(file)));
    }
    let opened =
        FileContent::open(&path).map_err(|e| file_failure(format!("cannot open {}: {e}", path.display())))?;
    let file = Arc::new(opened);
    state.file = Some((path, Arc::clone(&file)));
    Ok(Content::File(file))
}

/// Creates the file to which object `index` is downloaded; returns `None` if the phase does not keep the
/// content.
///
/// # Errors
/// Returns a failure of class [`ErrorClass::File`] if the file cannot be created.
fn sink_of(phase: &Phase, dataset: &Dataset, index: u64) -> Result<Option<File>, Failure> {
    let Some(directory) = &phase.workload.sink else { return Ok(None) };
    let path = dataset.file_in(directory, index);
    File::create(&path).map(Some).map_err(|e| file_failure(format!("cannot create {}: {e}", path.display())))
}

/// Executes and records one operation.
async fn execute_operation(
    context: &Context,
    id: usize,
    connection: &mut dyn Connection,
    task: Task,
    state: &mut SlotState,
) -> Ended {
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
            context.recorder.borrow_mut().started(context.number(task.phase), operation.kind, start_ns);
            let execution = ExecutionResult {
                result: Err(AttemptError::Failed(failure)),
                counts: AttemptCounts::default(),
                announced_ns: start_ns,
                start_ns,
                verified: false,
                address: None,
            };
            return record_result(context, id, task, &operation, execution);
        }
    };
    let mut keys = std::mem::take(&mut state.keys);
    let (request, expected) = build(phase, &operation, site, &content, &mut keys);
    let mut observer = OperationObserver {
        context,
        id,
        task,
        kind: operation.kind,
        timeout_ns: phase.timeout_ns,
        tag: job.tag.then(|| format!("{}/{}", phase.name, task.number)),
        announced_ns: 0,
        start_ns: 0,
        starting: true,
        expected: &expected,
        at: expected.from,
        sink: sink.as_ref(),
        condition: Vec::new(),
        verifying: None,
    };
    let mut counts = AttemptCounts::default();
    let prepared = PreparedOperation { operation: &operation, dataset, content: &content };
    let mut writing = begin_write(context, phase, dataset, &operation, &content);
    let sent = send_requests(prepared, connection, request, &mut observer, &mut counts, state).await;
    if let Some(writing) = &mut writing {
        writing.is_lost = counts.is_lost;
    }
    let verified = matches!(&sent, Ok(sent) if sent.to_verify);
    let mut result = match sent {
        Ok(Sent { reply, to_verify: true }) => {
            let others = || other_contents(context, phase, dataset, &operation, writing.as_ref());
            let written = Written { key: &keys.key, content: &content, others: &others };
            verify_written(connection, written, &observer, reply, &mut state.timer).await
        }
        sent => sent.map(|sent| sent.reply),
    };
    if let (Err(AttemptError::Failed(failure)), Some(message)) = (&mut result, content.read_error()) {
        (failure.class, failure.message) = (ErrorClass::File, message);
    }
    let (announced_ns, start_ns) = (observer.announced_ns, observer.start_ns);
    state.keys = keys;
    let address = address_of(connection);
    let execution = ExecutionResult { result, counts, announced_ns, start_ns, verified, address };
    record_result(context, id, task, &operation, execution)
}

/// Begins a write of an object that may be read back, or looked at, afterwards; `None` for other operations.
fn begin_write<'a>(
    context: &'a Context,
    phase: &Phase,
    dataset: &Dataset,
    operation: &Operation,
    content: &Content,
) -> Option<Writing<'a>> {
    let part_size = dataset.upload.part_size;
    let is_in_parts = part_size > 0 && content.total() > part_size;
    let looks = phase.verify == Verify::Readback || phase.verify == Verify::On && is_in_parts;
    let object = (context.segment.store, dataset.id(), operation.index);
    let writes = looks && operation.kind == OperationKind::Put && operation.version != UNKNOWN_VERSION;
    writes.then(|| context.segment.writers.begin(object, operation.version))
}

/// Returns the contents of writes to the same object that may overlap an operation: the writes of this process, and
/// the nearest versions of other nodes, because nodes are nearly equally fast.
fn other_contents(
    context: &Context,
    phase: &Phase,
    dataset: &Dataset,
    operation: &Operation,
    writing: Option<&Writing>,
) -> Vec<Content> {
    /// Greatest distance between versions that two nodes write at the same time.
    const DISTANCE: u64 = 64;
    let Some(writing) = writing else { return Vec::new() };
    let own = operation.version;
    let near = own.saturating_sub(DISTANCE)..=own.saturating_add(DISTANCE);
    let elsewhere = near.filter(|version| context.worker.job.shard.of > 1 && *version != own);
    let content = |version| {
        // The content as a read expects it is cut, and not copied.
        let operation = Operation { kind: OperationKind::Get, version, ..*operation };
        content_of(context, phase, dataset, &operation, &mut SlotState::default()).ok()
    };
    writing.others().into_iter().chain(elsewhere).filter_map(content).collect()
}

/// An operation with its dataset and content.
#[derive(Clone, Copy)]
struct PreparedOperation<'a> {
    operation: &'a Operation,
    dataset: &'a Dataset,
    content: &'a Content,
}

/// The reply to the last request of an operation.
struct Sent {
    reply: Reply,
    /// True if the phase verifies the written object.
    to_verify: bool,
}

impl From<Reply> for Sent {
    fn from(reply: Reply) -> Sent {
        Sent { reply, to_verify: false }
    }
}

/// Sends the requests of one operation, starting with `request`.
///
/// # Errors
/// Returns the error of the first request that does not succeed.
async fn send_requests(
    prepared: PreparedOperation<'_>,
    connection: &mut dyn Connection,
    request: Request<'_>,
    observer: &mut OperationObserver<'_>,
    counts: &mut AttemptCounts,
    state: &mut SlotState,
) -> Result<Sent, AttemptError> {
    let PreparedOperation { operation, dataset, content } = prepared;
    let site = observer.site();
    let upload = &dataset.upload;
    let verify = observer.phase().verify;
    let reply = match request {
        Request::Get { key, .. } if operation.kind == OperationKind::ReadModifyWrite => {
            let checksum = upload_checksum_of(dataset, site);
            let timer = &mut state.timer;
            compound::read_modify_write(connection, key, content, checksum, observer, counts, timer).await
        }
        Request::Get { key, .. } if operation.kind == OperationKind::CompareAndSwap => {
            let timer = &mut state.timer;
            compound::compare_and_swap(connection, key, content, observer, counts, timer).await
        }
        Request::Get { key, .. } if operation.kind == OperationKind::Scan => {
            let prefix = dataset.prefix(site.space.root());
            let scanned = compound::Scan { prefix: prefix.as_str(), key, length: operation.length };
            compound::scan(connection, scanned, observer, counts, &mut state.timer).await
        }
        Request::Put { key, .. } if upload.part_size > 0 && content.total() > upload.part_size => {
            let parts = content.total().div_ceil(upload.part_size) as usize;
            let connections = upload.in_flight.min(parts);
            while state.extra.len() + 1 < connections {
                state.extra.push(site.store.connection(observer.id + state.extra.len() + 1));
            }
            let connections = Connections { own: connection, extra: &mut state.extra[..connections - 1] };
            let put = multipart::put(connections, key, content, upload, observer, counts, &mut state.timer);
            let uploaded = put.await?;
            let to_verify = verify == Verify::Readback || verify == Verify::On && !uploaded.checked;
            return Ok(Sent { reply: uploaded.reply, to_verify });
        }
        request => {
            let is_written = matches!(request, Request::Put { .. } | Request::Copy { .. });
            let to_verify = verify == Verify::Readback && is_written;
            let reply = send_with_retries(connection, request, observer, counts, &mut state.timer).await?;
            return Ok(Sent { reply, to_verify });
        }
    };
    reply.map(Sent::from)
}

/// Result of the requests of one operation.
struct ExecutionResult {
    result: Result<Reply, AttemptError>,
    counts: AttemptCounts,
    /// Start as announced to the recorder, in nanoseconds on the monotonic clock.
    announced_ns: u64,
    /// Start of the operation, in nanoseconds on the monotonic clock; 0 if it was not started.
    start_ns: u64,
    /// True if the upload was verified after its end.
    verified: bool,
    /// Number of the address to which the operation was sent; `None` if the store has at most one.
    address: Option<u16>,
}

/// Records the result of an operation.
fn record_result(
    context: &Context,
    id: usize,
    task: Task,
    operation: &Operation,
    execution: ExecutionResult,
) -> Ended {
    let ExecutionResult { result, counts, announced_ns, start_ns, verified, address } = execution;
    let AttemptCounts { attempts, retries, earlier, .. } = counts;
    let next = Next::after(&result);
    if next == Next::AfterCostLimit && start_ns == 0 {
        let end_ns = never_started(context, task, operation.kind);
        return Ended { end_ns, busy_after_end: verified, next };
    }
    let timeout = ErrorClass::Timeout;
    let mut timings = match &result {
        Ok(reply) => reply.timings,
        Err(AttemptError::Failed(failure)) => failure.timings,
        Err(AttemptError::Cancelled(_)) => Timings { start_ns, end_ns: now_ns(), ..Timings::default() },
    };
    timings.add_connections(&earlier);
    timings.start_ns = start_ns;
    if timings.end_ns == 0 {
        timings.end_ns = now_ns();
    }
    let outcome = match &result {
        Ok(reply) => OperationResult::Done(reply.bytes),
        // An operation that the cost limit stops between two of its requests counts as unfinished.
        Err(AttemptError::Failed(_)) if next == Next::AfterCostLimit => OperationResult::Undrained,
        Err(AttemptError::Failed(failure)) => {
            report_failure(context, &failure.class, &failure.message);
            OperationResult::Failed(&failure.class)
        }
        Err(AttemptError::Cancelled(CancelReason::Deadline)) => {
            report_failure(context, &timeout, "no answer before the operation's deadline");
            OperationResult::Failed(&timeout)
        }
        // The run cannot continue without all of its objects.
        Err(AttemptError::Cancelled(CancelReason::DrainEnded))
            if context.phase(task.phase).role == Role::Prepare
                && context.worker.control.stopped_at().is_none() =>
        {
            report_failure(context, &timeout, "not finished long after all other operations");
            OperationResult::Failed(&timeout)
        }
        Err(AttemptError::Cancelled(CancelReason::DrainEnded)) => OperationResult::Undrained,
    };
    if matches!(outcome, OperationResult::Failed(_)) {
        context.progress.failed.set(context.progress.failed.get() + 1);
    }
    context.progress.kernel_clock.set(timings.by_kernel);
    context.progress.last_end_ns.set(context.progress.last_end_ns.get().max(timings.end_ns));
    let completed = Completed {
        phase: context.number(task.phase),
        number: task.number,
        slot: context.worker.index + id * context.worker.job.workers,
        kind: operation.kind,
        intended_ns: task.intended_ns,
        ready_ns: task.ready_ns,
        announced_ns,
        timings,
        cache: result.as_ref().ok().and_then(|reply| reply.cache),
        address,
        outcome,
        attempts,
        retries,
    };
    context.recorder.borrow_mut().completed(&completed);
    Ended { end_ns: timings.end_ns, busy_after_end: verified, next }
}

/// Records an operation of which no request was sent, if an open loop intended it. Returns the current time,
/// in nanoseconds on the monotonic clock.
fn never_started(context: &Context, task: Task, kind: OperationKind) -> u64 {
    let now = now_ns();
    if let Some(intended) = task.intended_ns {
        let phase = context.number(task.phase);
        context.recorder.borrow_mut().never_started(phase, task.number, kind, intended, now);
    }
    now
}

/// Sends the first failure of each class in the segment to the collector.
fn report_failure(context: &Context, class: &ErrorClass, message: &str) {
    let class = class.to_string();
    if context.progress.reported_classes.borrow_mut().insert(class.clone()) {
        let _ = context.worker.messages.send(Message::Failure(class, message.to_string()));
    }
}
