//! One lane at work: takes the operation that is due, carries it out with its attempts and its deadline, and has it
//! recorded.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;

use super::Site;
use super::attempt::{Ended, Expected, Tries, Watcher, tried, wait_until};
use super::context::{Context, Task};
use super::dispatch::next_task;
use super::multipart;
use super::slots::CallOff;
use crate::clock::{MILLISECOND, Timer, now_ns};
use crate::recorder::collector::Message;
use crate::recorder::{Completed, Outcome};
use crate::schedule::Phase;
use crate::store::{Body, ErrorClass, Lane, Reply, Request, Segments, Timings};
use crate::workload::payload::Cut;
use crate::workload::{Operation, OperationKind};

/// Carries out operations until the lanes are sent home; gives the lane back.
pub async fn lane_loop(context: Rc<Context>, id: usize, mut lane: Box<dyn Lane>) -> Box<dyn Lane> {
    let mut state = LaneState::default();
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
                    // A lane that waits is free for whatever comes.
                    free_since_ns = 0;
                    Poll::Pending
                }
            }
        });
        let Some(task) = task.await else { return lane };
        context.slots.got_work(id);
        free_since_ns = carry_out(&context, id, lane.as_mut(), task, &mut state).await;
        context.slots.finished(id);
        // Only a drain waits for single operations; waking the dispatcher for each would cost a system call.
        if context.draining.get() && context.slots.working() == 0 {
            context.changed.notify_one();
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

/// What a lane keeps from operation to operation.
#[derive(Default)]
struct LaneState {
    keys: Keys,
    timer: Option<Timer>,
    refused: u32,
}

/// A closed loop against a dead server would otherwise spin, a hundred thousand failures a second; after the first
/// connection failure a lane waits 10 ms before its next operation, then twice as long each time, at most a second.
async fn pause_after_refusal(state: &mut LaneState) {
    let pause = ((10 * MILLISECOND) << state.refused.min(7)) / 2;
    wait_until(&mut state.timer, now_ns() + pause.min(1_000 * MILLISECOND)).await;
}

struct CutBody(Cut);

impl Segments for CutBody {
    fn total(&self) -> u64 {
        self.0.total()
    }

    fn segment(&self, index: usize) -> Option<Bytes> {
        self.0.segment(index)
    }
}

fn body_of(cut: Cut) -> Body {
    match cut.segment(1) {
        None => Body::Whole(cut.segment(0).unwrap_or_default()),
        Some(_) => Body::Segmented(Rc::new(CutBody(cut))),
    }
}

/// Carries out one operation and returns when it ended.
async fn carry_out(
    context: &Context,
    id: usize,
    lane: &mut dyn Lane,
    task: Task,
    state: &mut LaneState,
) -> u64 {
    let phase = context.phase(task.phase);
    let operation = context.sequences.borrow_mut()[task.phase].at(task.number);
    let dataset = phase.workload.dataset(operation.target);
    let job = &context.worker.job;
    let size = dataset.size_of(operation.index, operation.version);
    let cut = job.block.cut(dataset.id(), operation.index, operation.version, size);
    let site = &job.sites[context.segment.store];
    let (request, expected) = build(phase, &operation, site, cut.clone(), &mut state.keys);
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
    };
    let mut tries = Tries::default();
    let timer = &mut state.timer;
    let result = match request {
        Request::Put { key, .. } if dataset.part_size > 0 && size > dataset.part_size => {
            let content = (cut, dataset.part_size);
            multipart::put(context, lane, key, content, &mut watcher, &mut tries, timer).await
        }
        request => tried(context, lane, request, &mut watcher, &mut tries, timer).await,
    };
    let start_ns = watcher.start_ns;
    let Tries { attempts, spent } = tries;
    settle(context, task, &operation, Ending { result, attempts, spent, start_ns }, state)
}

struct Ending {
    result: Result<Reply, Ended>,
    attempts: u32,
    spent: Timings,
    start_ns: u64,
}

/// Has the operation recorded; returns when it ended.
fn settle(
    context: &Context,
    task: Task,
    operation: &Operation,
    ending: Ending,
    state: &mut LaneState,
) -> u64 {
    let Ending { result, attempts, spent, start_ns } = ending;
    let timeout = ErrorClass::Timeout;
    let mut timings = match &result {
        Ok(reply) => reply.timings,
        Err(Ended::Failed(failure)) => failure.timings,
        Err(Ended::CalledOff(_)) => Timings { start_ns, end_ns: now_ns(), ..Timings::default() },
    };
    timings.add_connections(&spent);
    timings.start_ns = start_ns;
    if timings.end_ns == 0 {
        timings.end_ns = now_ns();
    }
    let refused =
        matches!(&result, Err(Ended::Failed(f)) if matches!(f.class, ErrorClass::Connect | ErrorClass::Tls));
    // Counted up from refusal to refusal, so that the pause doubles.
    state.refused = if refused { state.refused + 1 } else { 0 };
    let outcome = match &result {
        Ok(reply) => Outcome::Done(reply.bytes),
        Err(Ended::Failed(failure)) => {
            tell(context, &failure.class, &failure.message);
            Outcome::Failed(&failure.class)
        }
        Err(Ended::CalledOff(CallOff::Deadline)) => {
            tell(context, &timeout, "no answer before the operation's deadline");
            Outcome::Failed(&timeout)
        }
        Err(Ended::CalledOff(CallOff::Undrained)) => Outcome::Undrained,
    };
    if matches!(outcome, Outcome::Failed(_)) {
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
        outcome,
        attempts,
    };
    context.recorder.borrow_mut().completed(&completed);
    timings.end_ns
}

/// Passes on the first failure of each class.
fn tell(context: &Context, class: &ErrorClass, message: &str) {
    let class = class.to_string();
    if context.told.borrow_mut().insert(class.clone()) {
        let _ = context.worker.messages.send(Message::Failure(class, message.to_string()));
    }
}

/// Builds the request for an operation, and what its answer must be.
fn build<'a>(
    phase: &Phase,
    operation: &Operation,
    site: &Site,
    cut: Cut,
    keys: &'a mut Keys,
) -> (Request<'a>, Expected) {
    let root = site.root.as_str();
    let dataset = phase.workload.dataset(operation.target);
    let mut expected = Expected { content: None, bytes: None, from: 0, checksum: false };
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
    let compared = phase.verify && dataset.existing.is_none();
    let request = match operation.kind {
        OperationKind::Put => Request::Put { key, body: body_of(cut) },
        OperationKind::Get => {
            expected.bytes = Some(cut.total());
            expected.content = compared.then_some(cut);
            expected.checksum = phase.verify && dataset.existing.is_some();
            Request::Get { key, range: None }
        }
        OperationKind::GetRange => {
            let length = phase.workload.range.min(cut.total());
            expected.from = operation.range_start;
            expected.bytes = Some(length);
            expected.content = compared.then_some(cut);
            Request::Get { key, range: Some(operation.range_start..operation.range_start + length) }
        }
        OperationKind::Head => {
            expected.bytes = Some(cut.total());
            Request::Head { key }
        }
        OperationKind::Delete | OperationKind::List => Request::Delete { key },
    };
    (request, expected)
}
