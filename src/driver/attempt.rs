//! One request of an operation with its attempts, its deadline, and the comparison of what comes back.

use std::fs::File;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::task::Poll;

use super::Site;
use super::content::Content;
use super::context::{Context, Task};
use super::slots::CallOff;
use crate::clock::{MILLISECOND, Timer, now_ns};
use crate::rng::Stream;
use crate::schedule::Phase;
use crate::store::{BodyChecksum, Connection, ErrorClass, Failure, Observer, Reply, Request, Timings};
use crate::workload::OperationKind;

/// What is expected of an operation's answer.
pub struct Expected {
    /// The content, where it is known.
    pub content: Option<Content>,
    /// Its length, where that is known.
    pub bytes: Option<u64>,
    /// Offset of the first byte that is read.
    pub from: u64,
    /// Held against the store's own checksum, because nobody here knows the content.
    pub checksum: bool,
    /// The checksum that an upload bears.
    pub declared: Option<BodyChecksum>,
}

impl Expected {
    /// Nothing is known of it.
    pub fn nothing() -> Expected {
        Expected { content: None, bytes: None, from: 0, checksum: false, declared: None }
    }

    /// So many bytes.
    pub fn length(bytes: u64) -> Expected {
        Expected { bytes: Some(bytes), ..Expected::nothing() }
    }
}

/// Tells the recorder when the operation begins, sets its deadline and compares what comes back.
pub struct Watcher<'a> {
    /// The worker's ground.
    pub context: &'a Context,
    /// Number of the connection.
    pub id: usize,
    /// The operation that is due.
    pub task: Task,
    /// Its kind.
    pub kind: OperationKind,
    /// Its deadline, counted from its start.
    pub timeout_ns: u64,
    /// A mark for the server's log.
    pub tag: Option<String>,
    /// When it began; 0 before.
    pub start_ns: u64,
    /// What its answer must be.
    pub expected: &'a Expected,
    /// Offset of the next byte that comes back.
    pub at: u64,
    /// Where what comes back is written to.
    pub sink: Option<&'a File>,
}

impl<'a> Watcher<'a> {
    /// The operation's phase.
    pub fn phase(&self) -> &'a Phase {
        self.context.phase(self.task.phase)
    }

    /// The store that it is for.
    pub fn site(&self) -> &'a Site {
        &self.context.worker.job.sites[self.context.segment.store]
    }

    /// Sets the deadline anew, for the next of the operation's requests.
    pub fn extend(&self) {
        self.context.slots.set_deadline(self.id, now_ns() + self.timeout_ns);
    }
}

impl Observer for Watcher<'_> {
    fn started(&mut self, at_ns: u64) {
        if self.start_ns == 0 {
            self.start_ns = at_ns;
            self.context.recorder.borrow_mut().started(self.kind, at_ns);
            self.context.slots.set_deadline(self.id, at_ns + self.timeout_ns);
        }
    }

    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        if let Some(content) = &self.expected.content {
            content.compare(self.at, data)?;
        }
        if let Some(file) = self.sink {
            file.write_all_at(data, self.at).map_err(|_| self.at)?;
        }
        self.at += data.len() as u64;
        Ok(())
    }

    fn wants_checksum(&self) -> bool {
        self.expected.checksum
    }

    fn checksum(&self) -> Option<BodyChecksum> {
        self.expected.declared
    }

    fn expects(&self) -> Option<u64> {
        self.expected.bytes
    }

    fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

/// What the requests of one operation took.
#[derive(Default)]
pub struct Tries {
    /// Requests made.
    pub attempts: u32,
    /// Of those, the ones that were not the first of their request.
    pub retries: u32,
    /// Connections made before the last of them.
    pub spent: Timings,
}

/// Why an attempt did not bring a reply.
pub enum Unfinished {
    /// It failed.
    Failed(Failure),
    /// It was called off.
    CalledOff(CallOff),
}

/// Waits on the connection's timer, which is made when it is first needed.
pub async fn wait_until(timer: &mut Option<Timer>, at_ns: u64) {
    if timer.is_none() {
        *timer = Timer::new().ok();
    }
    if let Some(timer) = timer {
        let _ = timer.until(at_ns).await;
    }
}

/// The pause after attempt number `attempts` of a request: exponential backoff with full jitter, up to 50 ms, doubling, at most 5 s.
pub fn backoff_ns(phase: &Phase, draw: u64, attempts: u32) -> u64 {
    let draws = Stream::new(phase.workload.seed, "backoff");
    draws.below(draw, ((50 * MILLISECOND) << attempts.min(7)).min(5_000 * MILLISECOND))
}

/// One request with its attempts; `timer` is the connection's, for the pauses between them.
pub async fn send_with_retries(
    connection: &mut dyn Connection,
    request: Request<'_>,
    watcher: &mut Watcher<'_>,
    tries: &mut Tries,
    timer: &mut Option<Timer>,
) -> Result<Reply, Unfinished> {
    let (context, task, phase) = (watcher.context, watcher.task, watcher.phase());
    let mut attempts = 0;
    loop {
        attempts += 1;
        tries.attempts += 1;
        watcher.at = watcher.expected.from;
        let result = attempt(connection, request.clone(), watcher).await;
        let result = result.and_then(|reply| check(reply, watcher.expected).map_err(Unfinished::Failed));
        if phase.retries > 0 {
            let times = match &result {
                Ok(reply) => reply.timings,
                Err(Unfinished::Failed(failure)) => failure.timings,
                Err(Unfinished::CalledOff(_)) => Timings::default(),
            };
            let took = times.end_ns.saturating_sub(times.start_ns);
            context.recorder.borrow_mut().attempted(context.number(task.phase), watcher.kind, took);
        }
        match result {
            Err(Unfinished::Failed(failure)) if attempts <= phase.retries && failure.is_retryable() => {
                tries.spent.add_connections(&failure.timings);
                tries.retries += 1;
                let draw = (task.number << 20) + u64::from(tries.attempts);
                let pause = backoff_ns(phase, draw, attempts);
                wait_until(timer, now_ns() + pause).await;
            }
            result => return result,
        }
    }
}

/// One attempt, unless it is called off.
async fn attempt(
    connection: &mut dyn Connection,
    request: Request<'_>,
    watcher: &mut Watcher<'_>,
) -> Result<Reply, Unfinished> {
    let (context, id) = (watcher.context, watcher.id);
    let mut execution = pin!(connection.execute(request, watcher));
    poll_fn(|cx| {
        if let Some(call_off) = context.slots.called_off(id) {
            return Poll::Ready(Err(Unfinished::CalledOff(call_off)));
        }
        context.slots.remember(id, cx);
        execution.as_mut().poll(cx).map(|r| r.map_err(Unfinished::Failed))
    })
    .await
}

/// Holds a reply against what was expected of it.
fn check(reply: Reply, expected: &Expected) -> Result<Reply, Failure> {
    let Some(bytes) = expected.bytes else { return Ok(reply) };
    let got = reply.size.unwrap_or(reply.bytes);
    if got == bytes {
        return Ok(reply);
    }
    let message = format!("{got} bytes where {bytes} were written");
    Err(Failure::new(ErrorClass::Corrupt, message, reply.timings))
}
