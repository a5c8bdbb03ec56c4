//! Retries of one request of an operation: attempts, backoff, deadline, and verification of the response.

use std::fs::File;
use std::future::poll_fn;
use std::os::unix::fs::FileExt;
use std::pin::pin;
use std::task::Poll;

use super::Site;
use super::content::Content;
use super::context::{Context, Task};
use super::overlaps::Overlaps;
use super::slots::CancelReason;
use crate::store::{BodyChecksum, Connection, Failure, Observer, Reply, Request};
use plimsoll_base::clock::{MILLISECOND, Timer, now_ns};
use plimsoll_base::rng::Stream;
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Phase;

/// Expected response to a request.
pub struct Expected {
    /// Expected content; `None` if it is unknown or must not be compared.
    pub content: Option<Content>,
    /// Expected length in bytes; `None` if it is unknown.
    pub bytes: Option<u64>,
    /// Offset in the object of the first byte to read.
    pub from: u64,
    /// True if the content is unknown and must be verified against the store's checksum.
    pub verify_checksum: bool,
    /// Checksum to send with an upload; `None` for the checksum configured for the store.
    pub upload_checksum: Option<BodyChecksum>,
}

impl Expected {
    /// Returns an expectation that any response meets.
    pub fn unknown() -> Expected {
        Expected { content: None, bytes: None, from: 0, verify_checksum: false, upload_checksum: None }
    }

    /// Returns the expectation of a response with this length in bytes and any content.
    pub fn length(bytes: u64) -> Expected {
        Expected { bytes: Some(bytes), ..Expected::unknown() }
    }
}

/// An observer that records the start of an operation, sets its deadline and verifies the content received.
pub struct OperationObserver<'a> {
    /// Shared state of the worker.
    pub context: &'a Context,
    /// Number of the connection slot.
    pub id: usize,
    /// Operation to execute.
    pub task: Task,
    /// Kind of operation.
    pub kind: OperationKind,
    /// Deadline of each request, in nanoseconds from the start of the operation or the last [`Self::extend`].
    pub timeout_ns: u64,
    /// Tag for the server's timing log; `None` sends no tag.
    pub tag: Option<String>,
    /// Start of the operation as announced to the recorder, in nanoseconds on the monotonic clock; 0 before the
    /// start.
    pub announced_ns: u64,
    /// Time at which the first byte of the operation was sent, in nanoseconds on the monotonic clock; the announced
    /// start if that is not known.
    pub start_ns: u64,
    /// True until the first response or failure, while the start can still be corrected.
    pub starting: bool,
    /// Expected response to the current request.
    pub expected: &'a Expected,
    /// Offset in the object of the next byte to receive.
    pub at: u64,
    /// File to which the content is written; `None` discards the content.
    pub sink: Option<&'a File>,
    /// Condition that the request carries; empty for none.
    pub condition: Vec<(&'static str, String)>,
    /// Comparison of a request that verifies the operation after its end, and is no attempt of the operation; `None`
    /// for the requests of the operation.
    pub verifying: Option<&'a Overlaps<'a>>,
}

impl<'a> OperationObserver<'a> {
    /// Returns the phase of the operation.
    pub fn phase(&self) -> &'a Phase {
        self.context.phase(self.task.phase)
    }

    /// Returns the store that the operation addresses, with its key space.
    pub fn site(&self) -> &'a Site {
        &self.context.worker.job.sites[self.context.segment.store]
    }

    /// Restarts the deadline, for the next request of the operation.
    pub fn extend(&self) {
        self.context.slots.set_deadline(self.id, now_ns() + self.timeout_ns);
    }
}

impl Observer for OperationObserver<'_> {
    fn started(&mut self, at_ns: u64) {
        if self.announced_ns == 0 {
            (self.announced_ns, self.start_ns) = (at_ns, at_ns);
            let phase = self.context.number(self.task.phase);
            self.context.recorder.borrow_mut().started(phase, self.kind, at_ns);
            self.context.slots.set_deadline(self.id, at_ns + self.timeout_ns);
        }
    }

    fn sent(&mut self, at_ns: u64) {
        if std::mem::take(&mut self.starting) {
            self.start_ns = at_ns.max(self.announced_ns);
        }
    }

    fn piece(&mut self, data: &[u8]) -> Result<(), u64> {
        if let Some(content) = &self.expected.content {
            match self.verifying {
                Some(overlaps) => overlaps.compare(content, self.at, data)?,
                None => content.compare(self.at, data)?,
            }
        }
        if let Some(file) = self.sink {
            file.write_all_at(data, self.at).map_err(|_| self.at)?;
        }
        self.at += data.len() as u64;
        Ok(())
    }

    fn wants_checksum(&self) -> bool {
        self.expected.verify_checksum
    }

    fn checksum(&self) -> Option<BodyChecksum> {
        self.expected.upload_checksum
    }

    fn wants_etag(&self) -> bool {
        self.kind == OperationKind::CompareAndSwap
    }

    fn headers(&self) -> &[(&'static str, String)] {
        &self.condition
    }

    fn expected_size(&self) -> Option<u64> {
        self.expected.bytes
    }

    fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

/// Attempts and connections of the requests of one operation.
#[derive(Default)]
pub struct AttemptCounts {
    /// Number of requests sent, including retries.
    pub attempts: u32,
    /// Number of retries.
    pub retries: u32,
    /// True if the end of an attempt is not known, so that the store may still execute the request.
    pub is_lost: bool,
    /// Connections, reconnects and handshake times of all requests before the last one; the other fields are
    /// unused.
    pub earlier: Timings,
}

/// Reason why an attempt has no reply.
pub enum AttemptError {
    /// The attempt failed.
    Failed(Failure),
    /// The operation was cancelled.
    Cancelled(CancelReason),
}

/// Waits until `at_ns` on the monotonic clock. Creates the timer on first use; without a timer, returns
/// immediately.
pub async fn wait_until(timer: &mut Option<Timer>, at_ns: u64) {
    if timer.is_none() {
        *timer = Timer::new().ok();
    }
    if let Some(timer) = timer {
        let _ = timer.until(at_ns).await;
    }
}

/// Pauses after a failure to connect: 10 ms after the first, and twice as long after each further consecutive
/// one, up to 640 ms. Without the pause, a closed loop against a dead server would produce 100,000 failures
/// per second.
pub async fn pause_after_refusal(refusals: u32, timer: &mut Option<Timer>) {
    let pause = ((10 * MILLISECOND) << refusals.min(7)) / 2;
    wait_until(timer, now_ns() + pause.min(1_000 * MILLISECOND)).await;
}

/// Returns the pause in nanoseconds after attempt number `attempts` of a request: exponential backoff with
/// full jitter. The pause is a random time of less than `50 ms * 2^attempts`, limited to 5 s. `draw` is the
/// number of the random draw.
pub fn backoff_ns(phase: &Phase, draw: u64, attempts: u32) -> u64 {
    let draws = Stream::new(phase.workload.seed, "backoff");
    draws.below(draw, ((50 * MILLISECOND) << attempts.min(7)).min(5_000 * MILLISECOND))
}

/// Returns the number of the address to which a connection sent its last request; `None` if the store has at most one.
pub fn address_of(connection: &dyn Connection) -> Option<u16> {
    connection.address().and_then(|number| u16::try_from(number).ok())
}

/// Sends a request and retries it after transient failures, as often as the phase allows. `timer` is the
/// timer of the connection slot, for the pauses between attempts.
///
/// # Errors
/// Returns the last failure, or the reason for the cancellation of the operation.
pub async fn send_with_retries(
    connection: &mut dyn Connection,
    request: Request<'_>,
    observer: &mut OperationObserver<'_>,
    counts: &mut AttemptCounts,
    timer: &mut Option<Timer>,
) -> Result<Reply, AttemptError> {
    let (context, task, phase) = (observer.context, observer.task, observer.phase());
    let mut attempts = 0;
    loop {
        attempts += 1;
        counts.attempts += 1;
        observer.at = observer.expected.from;
        let result = attempt(connection, request.clone(), observer).await;
        observer.starting = false;
        let result = result.and_then(|reply| check(reply, observer).map_err(AttemptError::Failed));
        // The store may still execute a request without a known end.
        counts.is_lost |= match &result {
            Ok(_) => false,
            Err(AttemptError::Failed(failure)) => {
                matches!(failure.class, ErrorClass::Timeout | ErrorClass::Reset)
            }
            Err(AttemptError::Cancelled(_)) => true,
        };
        if phase.retries > 0 && observer.verifying.is_none() {
            let times = match &result {
                Ok(reply) => reply.timings,
                Err(AttemptError::Failed(failure)) => failure.timings,
                Err(AttemptError::Cancelled(_)) => Timings::default(),
            };
            let took = times.end_ns.saturating_sub(times.start_ns);
            let is_failure = matches!(result, Err(AttemptError::Failed(_)));
            let failed_at = address_of(connection).filter(|_| is_failure);
            context.recorder.borrow_mut().attempted(
                context.number(task.phase),
                observer.kind,
                took,
                failed_at,
            );
        }
        match result {
            Err(AttemptError::Failed(failure)) if attempts <= phase.retries && failure.is_retryable() => {
                counts.earlier.add_connections(&failure.timings);
                counts.retries += 1;
                let draw = (task.number << 20) + u64::from(counts.attempts);
                let pause = backoff_ns(phase, draw, attempts);
                wait_until(timer, now_ns() + pause).await;
            }
            result => return result,
        }
    }
}

/// Sends a request once and stops waiting if the operation is cancelled.
///
/// # Errors
/// Returns the failure, or the reason for the cancellation.
async fn attempt(
    connection: &mut dyn Connection,
    request: Request<'_>,
    observer: &mut OperationObserver<'_>,
) -> Result<Reply, AttemptError> {
    let (context, id) = (observer.context, observer.id);
    let mut execution = pin!(connection.execute(request, observer));
    poll_fn(|cx| {
        if let Some(reason) = context.slots.cancelled(id) {
            return Poll::Ready(Err(AttemptError::Cancelled(reason)));
        }
        context.slots.set_waker(id, cx);
        execution.as_mut().poll(cx).map(|r| r.map_err(AttemptError::Failed))
    })
    .await
}

/// Checks the length of a reply.
///
/// # Errors
/// Returns a failure of class [`ErrorClass::Corrupt`] if the length differs from the expected one.
fn check(reply: Reply, observer: &OperationObserver<'_>) -> Result<Reply, Failure> {
    let Some(bytes) = observer.expected.bytes else { return Ok(reply) };
    let got = reply.size.unwrap_or(reply.bytes);
    if observer.verifying.map_or(got == bytes, |overlaps| overlaps.has_size(bytes, got)) {
        return Ok(reply);
    }
    let message = format!("wrong length: {got} bytes instead of {bytes}");
    Err(Failure::new(ErrorClass::Corrupt, message, reply.timings))
}
