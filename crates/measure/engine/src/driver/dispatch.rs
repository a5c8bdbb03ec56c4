//! The dispatcher of a worker: starts and ends the phase runs of a segment, releases the operations of open
//! loops at their intended times, and drains at the end.

use std::io;
use std::sync::atomic::Ordering;

use super::context::{Context, Task};
use super::nap;
use super::never_started::NeverStartedOperations;
use plimsoll_base::clock::{MILLISECOND, Timer, now_ns, process_cpu_ns, thread_cpu_ns};
use plimsoll_recorder::Edges;
use plimsoll_recorder::collector::Message;
use plimsoll_workload::schedule::arrival::Arrivals;
use plimsoll_workload::schedule::{Load, Role};

/// Executes the phase runs of the context's segment, then drains the operations in flight and in the backlog.
///
/// # Errors
/// Returns the system error if a timer cannot be created or armed.
pub async fn dispatch(context: &Context) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let mut drain_ns = 0;
    for (index, phase_run) in context.phase_runs.iter().enumerate() {
        let edges = context.segment.edges[index];
        while now_ns() < edges.start_ns && context.ended_at(index).is_none() {
            // The start may be minutes away, and an interruption must take effect before it.
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
            Load::Closed { concurrency } => run_closed_loop(context, &mut timer, index, concurrency).await?,
            Load::Open { in_flight, .. } => run_open_loop(context, &mut timer, index, in_flight).await?,
        }
        send(context, Message::Used(context.number(index), thread_cpu_ns() - cpu));
        // Only the coordinator knows when the last operation of a closed loop has ended.
        let (phase_run, edges, is_open) =
            (context.number(index), context.edges(index), phase_run.phase.load.is_open());
        if context.worker.index == 0 && is_open && edges.end_ns != u64::MAX {
            let cpu_ns = process_cpu_ns();
            send(context, Message::End { phase_run, edges, length_ns: None, cpu_ns });
        }
    }
    drain(context, &mut timer, drain_ns).await
}

/// Sends a message to the collector.
fn send(context: &Context, message: Message) {
    // The collector outlives the workers. A failed send means that it panicked, which the coordinator
    // reports.
    let _ = context.worker.messages.send(message);
}

/// Returns true if the run was stopped.
fn interrupted(context: &Context) -> bool {
    context.worker.control.stopped_at().is_some()
}

/// Waits until `at_ns` on the monotonic clock or the next notification of a change, whichever is first.
async fn wait_until_or_change(context: &Context, timer: &mut Timer, at_ns: u64) -> io::Result<()> {
    if at_ns == u64::MAX {
        context.offer.changed.notified().await;
        return Ok(());
    }
    tokio::select! {
        result = timer.until(at_ns) => result,
        () = context.offer.changed.notified() => Ok(()),
    }
}

/// Lets the connection slots take operations of closed loop `index` until the phase run ends.
async fn run_closed_loop(
    context: &Context,
    timer: &mut Timer,
    index: usize,
    concurrency: usize,
) -> io::Result<()> {
    let phase = context.phase(index);
    let edges = context.segment.edges[index];
    let by_time = phase.limit.duration_ns.map_or(u64::MAX, |d| edges.start_ns + d);
    if context.share(concurrency) == 0 && phase.limit.operations.is_some() {
        // A worker without a connection slot would never notice that the others have taken all operations.
        return Ok(());
    }
    context.offer.closed_loop.set(Some(index));
    context.slots.wake_all(context.share(concurrency));
    while now_ns() < by_time && context.ended_at(index).is_none() && context.offer.closed_loop.get().is_some()
    {
        wait_until_or_change(context, timer, by_time).await?;
    }
    context.offer.closed_loop.set(None);
    Ok(())
}

/// Adds the operations of open loop `index` to the backlog at their intended times until the phase run ends.
async fn run_open_loop(
    context: &Context,
    timer: &mut Timer,
    index: usize,
    in_flight: usize,
) -> io::Result<()> {
    let phase_run = &context.phase_runs[index];
    let phase = &phase_run.phase;
    let Edges { start_ns, .. } = context.segment.edges[index];
    let (worker, shard) = (context.worker.index as u64, context.worker.job.shard);
    let workers = context.worker.job.workers as u64;
    let (remainder, divisor) = (shard.index + shard.of * worker, shard.of * workers);
    let slots = context.share(in_flight);
    let length = phase.limit.duration_ns.unwrap_or(u64::MAX);
    let end = start_ns.saturating_add(length);
    let count = phase.limit.operations.unwrap_or(u64::MAX);
    let place = (phase_run.store, phase_run.number);
    let first = context.worker.numbers.borrow().get(&place).copied().unwrap_or(0);
    let mut next = first;
    let Some(mut arrivals) = Arrivals::of(phase, first) else { return Ok(()) };
    for number in first..first.saturating_add(count) {
        let Some(offset) = arrivals.next().filter(|offset| *offset < length) else { break };
        next = number + 1;
        // After an early end, the loop only counts the remaining operations, so that the next block starts
        // with the same number in all workers.
        if number % divisor != remainder || context.ended_at(index).is_some() {
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
            && (context.offer.backlog.borrow().len() >= MAX_BACKLOG || now_ns() >= end + MAX_LAG_NS)
        {
            // The client is behind its own schedule: the remaining operations are due, but it cannot start
            // them.
            let never_started = NeverStartedOperations {
                phase: index,
                number,
                offset,
                arrivals,
                start_ns,
                length,
                number_end: first.saturating_add(count),
                remainder,
                divisor,
            };
            next = never_started.end();
            context.offer.never_started.borrow_mut().push(never_started);
            break;
        }
        let kind = context.sequences.borrow_mut()[index].at(number).kind;
        context.recorder.borrow_mut().intended(context.number(index), kind);
        let task = Task { phase: index, number, intended_ns: Some(intended), ready_ns: intended };
        context.offer.backlog.borrow_mut().push_back(task);
        context.slots.wake_one(slots);
    }
    context.worker.numbers.borrow_mut().insert(place, next);
    let end = if length == u64::MAX { 0 } else { end };
    while now_ns() < end && context.ended_at(index).is_none() {
        wait_until_or_change(context, timer, end).await?;
    }
    Ok(())
}

/// Maximum number of operations of one worker in the backlog, which take 20 MB. While the backlog is full,
/// the dispatcher waits; the intended times of the operations do not change.
const MAX_BACKLOG: usize = 500_000;

/// Time after the end of a phase at which the dispatcher stops releasing the remaining operations.
const MAX_LAG_NS: u64 = 1_000 * MILLISECOND;

/// Backlog length at whose multiples the dispatcher yields to the connection slots.
const YIELD_INTERVAL: usize = 256;

/// Waits for the intended time of an operation and then for space in the backlog, at most until the end of
/// the phase.
async fn wait_for_turn(
    context: &Context,
    timer: &mut Timer,
    index: usize,
    intended: u64,
    end: u64,
) -> io::Result<()> {
    while now_ns() < intended && context.ended_at(index).is_none() {
        if nap::until(context, intended).await {
            continue;
        }
        if intended - now_ns().min(intended) < 20 * MILLISECOND {
            timer.until(intended).await?;
        } else {
            wait_until_or_change(context, timer, intended).await?;
        }
    }
    let waiting = context.offer.backlog.borrow().len();
    if waiting > 0 && waiting.is_multiple_of(YIELD_INTERVAL) {
        tokio::task::yield_now().await;
    }
    while context.offer.backlog.borrow().len() >= MAX_BACKLOG
        && now_ns() < end
        && context.ended_at(index).is_none()
    {
        wait_until_or_change(context, timer, end.min(now_ns() + MILLISECOND)).await?;
    }
    Ok(())
}

/// Waits for at most `drain_ns`, and for at most 2 s after an interruption, until the operations in flight
/// and in the backlog are finished. Then records the operations that were never started, censored at their
/// waiting time, and cancels those in flight.
async fn drain(context: &Context, timer: &mut Timer, drain_ns: u64) -> io::Result<()> {
    let timeout_ns = if interrupted(context) { drain_ns.min(2_000 * MILLISECOND) } else { drain_ns };
    let deadline = now_ns() + timeout_ns;
    context.offer.draining.set(true);
    let busy = || {
        context.slots.working() > 0 || (!interrupted(context) && !context.offer.backlog.borrow().is_empty())
    };
    while busy() && now_ns() < deadline {
        wait_until_or_change(context, timer, deadline).await?;
    }
    let now = now_ns();
    let waiting: Vec<Task> = context.offer.backlog.borrow_mut().drain(..).collect();
    for task in waiting {
        let kind = context.sequences.borrow_mut()[task.phase].at(task.number).kind;
        let intended = task.intended_ns.unwrap_or(now);
        context.recorder.borrow_mut().never_started(
            context.number(task.phase),
            task.number,
            kind,
            intended,
            now,
        );
    }
    for never_started in context.offer.never_started.take() {
        for (number, offset) in never_started
            .iter()
            .filter(|(number, _)| number % never_started.divisor == never_started.remainder)
        {
            if number % 65_536 < never_started.divisor && interrupted(context) {
                break;
            }
            let kind = context.sequences.borrow_mut()[never_started.phase].at(number).kind;
            let (mut recorder, phase) = (context.recorder.borrow_mut(), context.number(never_started.phase));
            recorder.intended(phase, kind);
            recorder.never_started(phase, number, kind, never_started.start_ns + offset, now);
        }
    }
    context.slots.cancel_all();
    while context.slots.working() > 0 {
        context.offer.changed.notified().await;
    }
    Ok(())
}

/// Returns the next operation for connection slot `id`, from the backlog or else from the active closed loop;
/// `None` if none is due. `free_since_ns` is the time since which the slot has been free, on the monotonic
/// clock, or 0 if the slot was waiting.
pub fn next_task(context: &Context, id: usize, free_since_ns: u64) -> Option<Task> {
    if let Some(task) = context.offer.backlog.borrow_mut().pop_front() {
        let phase = context.phase(task.phase);
        // If another connection slot is idle, the operation could have started when it was due. In that case
        // the client causes the delay, not the store.
        let idle =
            context.slots.working() + 1 < context.share(phase.load.slots()) && phase.think_time_ns == 0;
        let ready_ns = if idle { task.ready_ns } else { task.ready_ns.max(free_since_ns) };
        return Some(Task { ready_ns, ..task });
    }
    let index = context.offer.closed_loop.get()?;
    let phase = context.phase(index);
    if id >= context.share(phase.load.slots()) {
        return None;
    }
    // The run cannot continue without all of its objects.
    if phase.role == Role::Prepare && context.progress.failed.get() > 0 {
        context.offer.closed_loop.set(None);
        context.offer.changed.notify_one();
        return None;
    }
    let edges = context.edges(index);
    let by_time = phase.limit.duration_ns.map_or(u64::MAX, |d| edges.start_ns + d).min(edges.end_ns);
    // The end of the slot's last operation is only a few microseconds ago, and reusing it saves a read of the
    // clock.
    let now = if free_since_ns > 0 { free_since_ns } else { now_ns() };
    if now >= by_time {
        return None;
    }
    let shard = context.worker.job.shard;
    let number = shard.index + shard.of * context.segment.counters[index].fetch_add(1, Ordering::Relaxed);
    if context.segment.limits[index].is_some_and(|limit| number >= limit) {
        context.offer.closed_loop.set(None);
        context.offer.changed.notify_one();
        return None;
    }
    let ready_ns = if free_since_ns > edges.start_ns { free_since_ns } else { now };
    Some(Task { phase: index, number, intended_ns: None, ready_ns })
}
