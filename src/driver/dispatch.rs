//! Hands out operations when they are due: opens and closes the phases of a segment, walks the intended times of open
//! loops, and drains at the end.

use std::io;
use std::sync::atomic::Ordering;

use super::context::{Context, Task};
use crate::clock::{MILLISECOND, Timer, now_ns, process_cpu_ns, thread_cpu_ns};
use crate::recorder::Edges;
use crate::recorder::collector::Message;
use crate::schedule::arrival::Arrivals;
use crate::schedule::{Load, Role};

/// Runs the phases of the context's segment, then waits for what is in flight.
///
/// # Errors
/// When the kernel refuses a timer.
pub async fn dispatch(context: &Context) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let mut drain_ns = 0;
    for (index, phase_run) in context.phase_runs.iter().enumerate() {
        let edges = context.segment.edges[index];
        while now_ns() < edges.start_ns && context.ended_at(index).is_none() {
            // The start may be far away; an interruption must not wait for it.
            timer.until(edges.start_ns.min(now_ns() + 100 * MILLISECOND)).await?;
        }
        if context.ended_at(index).is_some() {
            break;
        }
        drain_ns = phase_run.phase.drain_ns;
        let cpu = thread_cpu_ns();
        if context.worker.index == 0 {
            send(context, Message::Begin(context.number(index), edges, process_cpu_ns()));
        }
        match phase_run.phase.load {
            Load::Closed { concurrency } => closed(context, &mut timer, index, concurrency).await?,
            Load::Open { in_flight, .. } => open(context, &mut timer, index, in_flight).await?,
        }
        send(context, Message::Used(context.number(index), thread_cpu_ns() - cpu));
        let ended = context.edges(index);
        if context.worker.index == 0 && ended.end_ns != u64::MAX {
            send(context, Message::End(context.number(index), ended, process_cpu_ns()));
        }
    }
    drain(context, &mut timer, drain_ns).await
}

fn send(context: &Context, message: Message) {
    // The collector outlives the workers; a failed send means that it panicked, which the driver reports.
    let _ = context.worker.messages.send(message);
}

fn interrupted(context: &Context) -> bool {
    context.worker.control.stopped_at().is_some()
}

/// Waits until `at_ns`, or until something changed.
async fn until_or_change(context: &Context, timer: &mut Timer, at_ns: u64) -> io::Result<()> {
    if at_ns == u64::MAX {
        context.changed.notified().await;
        return Ok(());
    }
    tokio::select! {
        result = timer.until(at_ns) => result,
        () = context.changed.notified() => Ok(()),
    }
}

async fn closed(context: &Context, timer: &mut Timer, index: usize, concurrency: usize) -> io::Result<()> {
    let phase = context.phase(index);
    let edges = context.segment.edges[index];
    let by_time = phase.limit.duration_ns.map_or(u64::MAX, |d| edges.start_ns + d);
    if context.share(concurrency) == 0 && phase.limit.operations.is_some() {
        // Without a connection slot this worker would never learn that the others have done all operations.
        return Ok(());
    }
    context.closed.set(Some(index));
    context.slots.wake_all(context.share(concurrency));
    while now_ns() < by_time && context.ended_at(index).is_none() && context.closed.get().is_some() {
        until_or_change(context, timer, by_time).await?;
    }
    context.closed.set(None);
    Ok(())
}

async fn open(context: &Context, timer: &mut Timer, index: usize, in_flight: usize) -> io::Result<()> {
    let phase_run = &context.phase_runs[index];
    let phase = &phase_run.phase;
    let Load::Open { rate_per_s, arrival, .. } = phase.load else { return Ok(()) };
    let Edges { start_ns, .. } = context.segment.edges[index];
    let (worker, shard) = (context.worker.index as u64, context.worker.job.shard);
    let workers = context.worker.job.workers as u64;
    let (mine, of) = (shard.index + shard.of * worker, shard.of * workers);
    let slots = context.share(in_flight);
    let length = phase.limit.duration_ns.unwrap_or(u64::MAX);
    let end = start_ns.saturating_add(length);
    let count = phase.limit.operations.unwrap_or(u64::MAX);
    let place = (phase_run.store, phase_run.number);
    let first = context.worker.numbers.borrow().get(&place).copied().unwrap_or(0);
    let mut next = first;
    let mut arrivals = Arrivals::new(arrival, rate_per_s, phase.workload.seed, &phase.name, first);
    for number in first..first.saturating_add(count) {
        let Some(offset) = arrivals.next().filter(|offset| *offset < length) else { break };
        next = number + 1;
        // After an early end the rest is only counted, so that all workers agree where the next block begins.
        if number % of != mine || context.ended_at(index).is_some() {
            continue;
        }
        let intended = start_ns + offset;
        wait_for_turn(context, timer, index, intended, end).await?;
        if interrupted(context) {
            return Ok(());
        }
        if context.ended_at(index).is_some() {
            continue;
        }
        if now_ns() >= end
            && (context.backlog.borrow().len() >= MOST_WAITING || now_ns() >= end + MOST_BEHIND_NS)
        {
            // The instrument is behind its own schedule: what is left is due, but nobody can begin it.
            let rest = Rest {
                phase: index,
                number,
                offset,
                arrivals,
                start_ns,
                length,
                last: first.saturating_add(count),
                mine,
                of,
            };
            next = rest.end();
            context.rest.borrow_mut().push(rest);
            break;
        }
        let kind = context.sequences.borrow_mut()[index].at(number).kind;
        context.recorder.borrow_mut().intended(context.number(index), kind);
        let task = Task { phase: index, number, intended_ns: Some(intended), ready_ns: intended };
        context.backlog.borrow_mut().push_back(task);
        context.slots.wake_one(slots);
    }
    context.worker.numbers.borrow_mut().insert(place, next);
    let end = if length == u64::MAX { 0 } else { end };
    while now_ns() < end && context.ended_at(index).is_none() {
        until_or_change(context, timer, end).await?;
    }
    Ok(())
}

/// Operations of one worker that wait for a connection slot, at most: 20 MB. Beyond it the dispatcher waits as well; their intended times stay.
const MOST_WAITING: usize = 500_000;

/// A dispatcher that is so far behind its schedule at the end of a phase hands out no more: one second.
const MOST_BEHIND_NS: u64 = 1_000 * MILLISECOND;

/// Due operations between two chances for the connection slots to run.
const BEFORE_YIELD: usize = 256;

/// Waits for the intended time of an operation, and for room in the backlog, but not beyond the phase's end.
async fn wait_for_turn(
    context: &Context,
    timer: &mut Timer,
    index: usize,
    intended: u64,
    end: u64,
) -> io::Result<()> {
    while now_ns() < intended && context.ended_at(index).is_none() {
        if intended - now_ns().min(intended) < 20 * MILLISECOND {
            timer.until(intended).await?;
        } else {
            until_or_change(context, timer, intended).await?;
        }
    }
    let waiting = context.backlog.borrow().len();
    if waiting > 0 && waiting.is_multiple_of(BEFORE_YIELD) {
        tokio::task::yield_now().await;
    }
    while context.backlog.borrow().len() >= MOST_WAITING
        && now_ns() < end
        && context.ended_at(index).is_none()
    {
        until_or_change(context, timer, end.min(now_ns() + MILLISECOND)).await?;
    }
    Ok(())
}

/// Operations that were due before their phase ended and that the instrument could not even hand out: never begun, all of them.
pub struct Rest {
    phase: usize,
    /// Number and intended time, since the phase's start, of the first.
    number: u64,
    offset: u64,
    /// Intended times of those behind it.
    arrivals: Arrivals,
    start_ns: u64,
    length: u64,
    last: u64,
    mine: u64,
    of: u64,
}

impl Rest {
    /// Numbers and intended times, since the phase's start.
    fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let length = self.length;
        let offsets = std::iter::once(self.offset).chain(self.arrivals.clone());
        (self.number..self.last).zip(offsets).take_while(move |(_, offset)| *offset < length)
    }

    /// The first operation number that is not due within the phase.
    fn end(&self) -> u64 {
        self.iter().last().map_or(self.number, |(number, _)| number + 1)
    }
}

/// Waits for what is in flight and due, at most `drain_ns`; the rest is censored at what it had waited.
async fn drain(context: &Context, timer: &mut Timer, drain_ns: u64) -> io::Result<()> {
    let patience = if interrupted(context) { drain_ns.min(2_000 * MILLISECOND) } else { drain_ns };
    let deadline = now_ns() + patience;
    context.draining.set(true);
    let busy =
        || context.slots.working() > 0 || (!interrupted(context) && !context.backlog.borrow().is_empty());
    while busy() && now_ns() < deadline {
        until_or_change(context, timer, deadline).await?;
    }
    let now = now_ns();
    let rest: Vec<Task> = context.backlog.borrow_mut().drain(..).collect();
    for task in rest {
        let kind = context.sequences.borrow_mut()[task.phase].at(task.number).kind;
        let intended = task.intended_ns.unwrap_or(now);
        context.recorder.borrow_mut().never_begun(
            context.number(task.phase),
            task.number,
            kind,
            intended,
            now,
        );
    }
    for rest in context.rest.take() {
        for (number, offset) in rest.iter().filter(|(number, _)| number % rest.of == rest.mine) {
            if number % 65_536 < rest.of && interrupted(context) {
                break;
            }
            let kind = context.sequences.borrow_mut()[rest.phase].at(number).kind;
            let (mut recorder, phase) = (context.recorder.borrow_mut(), context.number(rest.phase));
            recorder.intended(phase, kind);
            recorder.never_begun(phase, number, kind, rest.start_ns + offset, now);
        }
    }
    context.slots.call_off_all();
    while context.slots.working() > 0 {
        context.changed.notified().await;
    }
    Ok(())
}

/// The next operation for connection slot `id`, if one is due: from the backlog first, then from a closed loop.
pub fn next_task(context: &Context, id: usize, free_since_ns: u64) -> Option<Task> {
    if let Some(task) = context.backlog.borrow_mut().pop_front() {
        let phase = context.phase(task.phase);
        // While another connection slot is idle, the operation could have begun when it was due: what is late then is the client.
        let idle = context.slots.working() + 1 < context.share(phase.load.slots()) && phase.cooldown_ns == 0;
        let ready_ns = if idle { task.ready_ns } else { task.ready_ns.max(free_since_ns) };
        return Some(Task { ready_ns, ..task });
    }
    let index = context.closed.get()?;
    let phase = context.phase(index);
    if id >= context.share(phase.load.slots()) {
        return None;
    }
    // Without all of its objects the run cannot go on.
    if phase.role == Role::Prepare && context.failed.get() > 0 {
        context.closed.set(None);
        context.changed.notify_one();
        return None;
    }
    let edges = context.edges(index);
    let by_time = phase.limit.duration_ns.map_or(u64::MAX, |d| edges.start_ns + d).min(edges.end_ns);
    // The end of the connection slot's last operation is as good a clock as any; it is a few microseconds old.
    let now = if free_since_ns > 0 { free_since_ns } else { now_ns() };
    if now >= by_time {
        return None;
    }
    let shard = context.worker.job.shard;
    let number = shard.index + shard.of * context.segment.counters[index].fetch_add(1, Ordering::Relaxed);
    if context.segment.limits[index].is_some_and(|most| number >= most) {
        context.closed.set(None);
        context.changed.notify_one();
        return None;
    }
    let ready_ns = if free_since_ns > edges.start_ns { free_since_ns } else { now };
    Some(Task { phase: index, number, intended_ns: None, ready_ns })
}
