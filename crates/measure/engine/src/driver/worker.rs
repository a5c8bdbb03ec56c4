//! The main loop of a worker: an OS thread with its own runtime, connections and recorder.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use tokio::task::LocalSet;

use super::context::{Context, Offer, Progress, Worker};
use super::segment::{Segment, SegmentReport};
use super::slots::Slots;
use super::{dispatch, nap, operation};
use crate::store::Connection;
use plimsoll_base::clock::{MILLISECOND, SECOND, Timer, now_ns, set_sleep_slack};
use plimsoll_recorder::worker::WorkerRecorder;
use plimsoll_workload::schedule::Load;

impl Worker {
    /// Executes segments until the coordinator closes the channel, and sends a report after each.
    pub fn run(self, segments: &Receiver<Segment>, reports: &Sender<SegmentReport>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let worker = Rc::new(self);
        set_sleep_slack(1);
        // Connections by store. They stay open while the run measures another store.
        let mut connections: Vec<Vec<Box<dyn Connection>>> =
            worker.job.sites.iter().map(|_| Vec::new()).collect();
        while let Ok(segment) = segments.recv() {
            let done = match &runtime {
                Ok(runtime) => {
                    let connections = &mut connections[segment.store];
                    LocalSet::new().block_on(runtime, run_segment(&worker, segment, connections))
                }
                Err(e) => Err(io::Error::new(e.kind(), e.to_string())),
            };
            let report =
                done.unwrap_or_else(|e| SegmentReport { error: Some(e), ..SegmentReport::default() });
            if reports.send(report).is_err() {
                return;
            }
        }
        // Connections must be dropped while their runtime exists.
        if let Ok(runtime) = &runtime {
            let _guard = runtime.enter();
            drop(connections);
        }
    }
}

/// Executes a segment on the first connections of a store, and creates those that are missing.
///
/// # Errors
/// Returns the system error if a timer cannot be created or armed.
async fn run_segment(
    worker: &Rc<Worker>,
    segment: Segment,
    connections: &mut Vec<Box<dyn Connection>>,
) -> io::Result<SegmentReport> {
    let job = &worker.job;
    let phase_runs = job.phase_runs[segment.first..segment.first + segment.edges.len()].to_vec();
    let count = phase_runs.iter().map(|s| worker.share(s.phase.load.slots())).max().unwrap_or(0);
    while connections.len() < count {
        connections
            .push(job.sites[segment.store].store.connection(worker.index + connections.len() * job.workers));
    }
    let context = Rc::new(Context {
        worker: Rc::clone(worker),
        recorder: RefCell::new(
            WorkerRecorder::new(segment.first, segment.edges.clone(), job.log)
                .with_pauses(Arc::clone(&worker.pauses))
                .with_size_classes(phase_runs.iter().map(|s| s.phase.size_classes.clone()).collect()),
        ),
        slots: Slots::new(count),
        offer: Offer::default(),
        sequences: RefCell::new(phase_runs.iter().map(|s| s.phase.workload.sequence()).collect()),
        naps_possible: nap::are_possible(&phase_runs),
        progress: Progress::default(),
        phase_runs,
        segment,
    });
    let mut tasks = Vec::new();
    for (id, connection) in connections.drain(..count).enumerate() {
        tasks.push(tokio::task::spawn_local(operation::slot_loop(Rc::clone(&context), id, connection)));
    }
    let ticking = tokio::task::spawn_local(tick(Rc::clone(&context)));
    let dispatched = dispatch::dispatch(&context).await;
    context.slots.stop();
    for (id, task) in tasks.into_iter().enumerate() {
        match task.await {
            Ok(connection) => connections.insert(id, connection),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    ticking.abort();
    let last = context.phase_runs.len() - 1;
    // The window of a closed loop ends with its last operation, also after an interruption.
    if let Some(at) = context.ended_at(last)
        && context.phase(last).load.is_open()
    {
        context.recorder.borrow_mut().truncate(at);
    }
    context.recorder.borrow_mut().settle_pauses(true);
    context.report(now_ns());
    dispatched?;
    Ok(SegmentReport {
        last_end_ns: context.progress.last_end_ns.get(),
        failed: context.progress.failed.get(),
        busy_ns: busy_ns(&context),
        error: None,
    })
}

/// Returns the sum of the times from the start of a closed loop until each connection slot was free after its last
/// operation, in nanoseconds; 0 for open loops. A slot without an operation counts until the worker's last one.
fn busy_ns(context: &Context) -> u64 {
    let Load::Closed { concurrency } = context.phase(0).load else { return 0 };
    let start_ns = context.segment.edges[0].start_ns;
    let last_end_ns = context.progress.last_end_ns.get();
    // A slot that is free just before the time is over starts nothing if the thread was late. It had this time all the
    // same.
    let duration_ns = context.phase(0).limit.duration_ns.filter(|_| context.ended_at(0).is_none());
    let least_ns = start_ns + duration_ns.unwrap_or(0);
    let free = |id| context.slots.free_since(id).unwrap_or(last_end_ns).max(least_ns);
    (0..context.share(concurrency)).map(|id| free(id) - start_ns).sum()
}

/// Maximum interval between two checks of deadlines and interruptions. A twentieth of the shortest deadline
/// applies if it is shorter, but at least 1 ms.
const TICK_NS: u64 = 50 * MILLISECOND;

/// Checks deadlines and interruptions at regular intervals, and reports to the collector every second. One
/// timer for all of these is cheaper than a timer per operation.
///
/// # Errors
/// Returns the system error if the timer cannot be created or armed.
async fn tick(context: Rc<Context>) -> io::Result<()> {
    let mut timer = Timer::new()?;
    let shortest = context.phase_runs.iter().map(|s| s.phase.timeout_ns / 20).min().unwrap_or(TICK_NS);
    let step = shortest.clamp(MILLISECOND, TICK_NS);
    let origin = context.worker.origin_ns;
    let mut report_at = origin + (now_ns().saturating_sub(origin) / SECOND + 1) * SECOND;
    let mut next = now_ns() + step;
    loop {
        timer.until(next.min(report_at)).await?;
        let now = now_ns();
        if now >= next {
            context.slots.expire(now);
            if context.ended_at(context.phase_runs.len() - 1).is_some() {
                context.offer.changed.notify_one();
            }
            next = now + step;
        }
        if now >= report_at {
            context.report(report_at);
            report_at += SECOND;
        } else if context.recorder.borrow().log_is_long() {
            context.report_log();
        }
    }
}
