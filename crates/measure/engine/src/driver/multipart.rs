//! Multipart uploads: creates the upload, sends its parts on several connections in parallel, and completes
//! it. A failed or cancelled upload is aborted.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::background::send_until_answered;
use super::content::Content;
use super::retry::{
    AttemptCounts, AttemptError, OperationObserver, address_of, backoff_ns, send_with_retries, wait_until,
};

use crate::store::integrity::check_upload;
use crate::store::ownership::OwnedKey;
use crate::store::{BodyChecksum, Connection, Failure, Observer, PartTag, Reply, Request};
use plimsoll_base::clock::{Timer, now_ns};
use plimsoll_recorder::ErrorClass;
use plimsoll_recorder::Timings;
use plimsoll_workload::dataset::Upload;
use plimsoll_workload::schedule::Phase;

/// Connections of one upload, one per part in flight.
pub struct Connections<'a> {
    /// Connection of the operation's slot.
    pub own: &'a mut dyn Connection,
    /// Additional connections, for the other parts in flight.
    pub extra: &'a mut [Box<dyn Connection>],
}

/// Result of a completed upload.
pub struct Uploaded {
    /// Reply to the completion, with the times and bytes of the whole upload.
    pub reply: Reply,
    /// True if the store's entity tag or checksum of the object was compared with those of the parts.
    pub checked: bool,
}

/// Uploads `content` to `key` in parts. The timeout of the phase applies to the first and the last request,
/// and to the time until the next part is finished.
///
/// # Errors
/// Returns the failure of the first request or part that does not succeed, or the reason for the cancellation
/// of the operation. An upload that was created is then aborted.
pub async fn put(
    connections: Connections<'_>,
    key: &str,
    content: &Content,
    upload: &Upload,
    observer: &mut OperationObserver<'_>,
    counts: &mut AttemptCounts,
    timer: &mut Option<Timer>,
) -> Result<Uploaded, AttemptError> {
    let Connections { own, extra } = connections;
    let begun = send_with_retries(own, Request::CreateMultipart { key }, observer, counts, timer).await?;
    let Some(upload_id) = begun.upload_id else {
        let message = "the store created a multipart upload without an upload ID";
        return Err(AttemptError::Failed(Failure::new(ErrorClass::Corrupt, message, begun.timings)));
    };
    let parts = Parts {
        phase: observer.phase(),
        observer,
        key,
        upload_id: &upload_id,
        content,
        part_size: upload.part_size,
        next: Cell::new(1),
        done: RefCell::default(),
    };
    let result = parts.send(own, extra).await;
    let SentParts { mut tags, times, attempts, retries } = parts.done.into_inner();
    counts.attempts += attempts;
    counts.retries += retries;
    counts.earlier.add_connections(&times);
    let result = match result {
        Ok(()) => {
            tags.sort_unstable_by_key(|(number, ..)| *number);
            let sent: Vec<(PartTag, u64)> = tags.into_iter().map(|(_, tag, len)| (tag, len)).collect();
            complete(own, key, &upload_id, &sent, observer, counts, timer).await
        }
        Err(error) => Err(error),
    };
    match result {
        Ok(mut uploaded) => {
            let timings = &mut uploaded.reply.timings;
            (timings.body_first_ns, timings.body_last_ns) = (times.body_first_ns, times.body_last_ns);
            timings.first_byte_ns = 0;
            uploaded.reply.bytes = content.total();
            Ok(uploaded)
        }
        Err(error) => {
            let space = observer.site().space_of(&observer.phase().workload.written);
            if let Some(key) = space.as_ref().and_then(|space| space.own(key)) {
                abort(own, key, &upload_id).await;
            }
            Err(error)
        }
    }
}

/// Completes an upload and compares the store's entity tag or checksum of the object with those of the parts.
///
/// # Errors
/// Returns the error of the request, or a failure of class [`ErrorClass::Corrupt`] if the comparison fails.
async fn complete(
    connection: &mut dyn Connection,
    key: &str,
    upload_id: &str,
    sent: &[(PartTag, u64)],
    observer: &mut OperationObserver<'_>,
    counts: &mut AttemptCounts,
    timer: &mut Option<Timer>,
) -> Result<Uploaded, AttemptError> {
    observer.extend();
    let parts: Vec<PartTag> = sent.iter().map(|(tag, _)| tag.clone()).collect();
    let request = Request::CompleteMultipart { key, upload_id, parts: &parts };
    let reply = send_with_retries(connection, request, observer, counts, timer).await?;
    let profile = observer.site().store.profile();
    let done = PartTag { etag: reply.etag.clone().unwrap_or_default(), checksum: reply.checksum.clone() };
    match check_upload(profile, sent, &done) {
        Ok(checked) => Ok(Uploaded { reply, checked }),
        Err(message) => Err(AttemptError::Failed(Failure::new(ErrorClass::Corrupt, message, reply.timings))),
    }
}

/// Parts of an upload that have been sent so far.
#[derive(Default)]
struct SentParts {
    /// Number, tag and length of each part.
    tags: Vec<(u32, PartTag, u64)>,
    /// Times of the first and the last byte of content, connections, reconnects and handshake times.
    times: Timings,
    /// Number of requests sent, including retries.
    attempts: u32,
    /// Number of retries.
    retries: u32,
}

/// An upload whose parts are being sent.
struct Parts<'a, 'w> {
    phase: &'w Phase,
    observer: &'a OperationObserver<'w>,
    key: &'a str,
    upload_id: &'a str,
    content: &'a Content,
    /// Size of every part but the last, in bytes.
    part_size: u64,
    /// Number of the next part to send, from 1.
    next: Cell<u64>,
    /// Parts that have been sent.
    done: RefCell<SentParts>,
}

/// An observer that supplies the checksum and the tag of a part's request.
struct PartObserver<'a> {
    checksum: Option<BodyChecksum>,
    tag: Option<&'a str>,
}

impl Observer for PartObserver<'_> {
    fn checksum(&self) -> Option<BodyChecksum> {
        self.checksum
    }

    fn tag(&self) -> Option<&str> {
        self.tag
    }
}

impl Parts<'_, '_> {
    /// Sends all parts in parallel, one at a time on each connection. The first failure cancels the parts in
    /// flight.
    ///
    /// # Errors
    /// Returns that failure, or the reason for the cancellation of the operation.
    async fn send(
        &self,
        own: &mut dyn Connection,
        extra: &mut [Box<dyn Connection>],
    ) -> Result<(), AttemptError> {
        let id = self.observer.id;
        let mut senders = FuturesUnordered::new();
        senders.push(self.sender(own));
        for connection in extra {
            senders.push(self.sender(connection.as_mut()));
        }
        poll_fn(|cx| {
            if let Some(reason) = self.observer.context.slots.cancelled(id) {
                return Poll::Ready(Err(AttemptError::Cancelled(reason)));
            }
            self.observer.context.slots.set_waker(id, cx);
            loop {
                match senders.poll_next_unpin(cx) {
                    Poll::Ready(Some(Ok(()))) => {}
                    Poll::Ready(Some(Err(failure))) => {
                        return Poll::Ready(Err(AttemptError::Failed(failure)));
                    }
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Sends parts on one connection, one after another, until none are left.
    ///
    /// # Errors
    /// Returns the failure of the first part that fails.
    async fn sender(&self, connection: &mut dyn Connection) -> Result<(), Failure> {
        let size = self.content.total();
        let count = size.div_ceil(self.part_size).max(1);
        let mut timer = None;
        loop {
            let number = self.next.get();
            if number > count {
                return Ok(());
            }
            self.next.set(number + 1);
            let from = (number - 1) * self.part_size;
            let end = (from + self.part_size).min(size);
            let reply = self.part(connection, number as u32, from, end, &mut timer).await?;
            let Some(etag) = reply.etag else {
                let message = format!("the store's response to part {number} has no ETag");
                return Err(Failure::new(ErrorClass::Corrupt, message, reply.timings));
            };
            let mut done = self.done.borrow_mut();
            done.tags.push((number as u32, PartTag { etag, checksum: reply.checksum }, end - from));
            done.add_times(&reply.timings);
            self.observer.extend();
        }
    }

    /// Sends part `number`, the bytes `from..end` of the content, with the retries that the phase allows.
    ///
    /// # Errors
    /// Returns the last failure.
    async fn part(
        &self,
        connection: &mut dyn Connection,
        number: u32,
        from: u64,
        end: u64,
        timer: &mut Option<Timer>,
    ) -> Result<Reply, Failure> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            self.done.borrow_mut().attempts += 1;
            let (key, upload_id) = (self.key, self.upload_id);
            let body = self.content.part(from, end);
            let request = Request::UploadPart { key, upload_id, number, body };
            let mut observer = PartObserver {
                checksum: self.observer.expected.upload_checksum,
                tag: self.observer.tag.as_deref(),
            };
            let result = connection.execute(request, &mut observer).await;
            if self.phase.retries > 0 {
                let times = match &result {
                    Ok(reply) => reply.timings,
                    Err(failure) => failure.timings,
                };
                let took = times.end_ns.saturating_sub(times.start_ns);
                let phase = self.observer.context.number(self.observer.task.phase);
                let failed_at = result.as_ref().err().and_then(|_| address_of(connection));
                let recorder = &self.observer.context.recorder;
                recorder.borrow_mut().attempted(phase, self.observer.kind, took, failed_at);
            }
            match result {
                Err(failure) if attempts <= self.phase.retries && failure.is_retryable() => {
                    self.done.borrow_mut().add_retry(&failure.timings);
                    let draw = (self.observer.task.number << 20) + u64::from(number) * 64;
                    let pause = backoff_ns(self.phase, draw + u64::from(attempts), attempts);
                    wait_until(timer, now_ns() + pause).await;
                }
                Err(failure) => {
                    let read_error = self.content.read_error();
                    return Err(match read_error {
                        Some(message) => Failure { message, ..failure },
                        None => failure,
                    });
                }
                Ok(reply) => return Ok(reply),
            }
        }
    }
}

impl SentParts {
    /// Counts a retry and adds the connections of the failed attempt.
    fn add_retry(&mut self, failed: &Timings) {
        self.retries += 1;
        self.times.add_connections(failed);
    }

    /// Adds the connections and the body times of a part.
    fn add_times(&mut self, part: &Timings) {
        let times = &mut self.times;
        times.add_connections(part);
        if times.body_first_ns == 0 || part.body_first_ns < times.body_first_ns {
            times.body_first_ns = part.body_first_ns;
        }
        times.body_last_ns = times.body_last_ns.max(part.body_last_ns);
    }
}

/// Tries to abort an upload for at most 10 s and ignores failures. Clean-up aborts the uploads that remain.
async fn abort(connection: &mut dyn Connection, key: OwnedKey<'_>, upload_id: &str) {
    let _ =
        send_until_answered(connection, Request::AbortMultipart { key, upload_id }, Duration::from_secs(10))
            .await;
}
