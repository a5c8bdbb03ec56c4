//! A put in parts: begin, parts on several connections at once, complete; given up in good order when it fails or is called off.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::attempt::{Tries, Unfinished, Watcher, backoff_ns, send_with_retries, wait_until};
use super::background::insist;
use super::content::Content;

use crate::clock::{Timer, now_ns};
use crate::schedule::Phase;
use crate::store::integrity::check_upload;
use crate::store::ownership::OwnedKey;
use crate::store::{
    BodyChecksum, Connection, ErrorClass, Failure, Observer, PartTag, Reply, Request, Timings,
};
use crate::workload::dataset::Upload;

/// The connections of one upload: the operation's own, and as many more as it has parts in flight.
pub struct Connections<'a> {
    /// The operation's own.
    pub own: &'a mut dyn Connection,
    /// The others.
    pub more: &'a mut [Box<dyn Connection>],
}

/// An upload as it was done.
pub struct Uploaded {
    /// The store's answer to its completion.
    pub reply: Reply,
    /// Whether the store's own checksum of the object was held against what was sent.
    pub checked: bool,
}

/// Writes `content` under `key` in parts. The phase's timeout holds for each request, and for any part to come to its end.
pub async fn put(
    connections: Connections<'_>,
    key: &str,
    (content, upload): (&Content, &Upload),
    watcher: &mut Watcher<'_>,
    tries: &mut Tries,
    timer: &mut Option<Timer>,
) -> Result<Uploaded, Unfinished> {
    let Connections { own, more } = connections;
    let begun = send_with_retries(own, Request::CreateMultipart { key }, watcher, tries, timer).await?;
    let Some(upload_id) = begun.upload_id else {
        let message = "the store began a multipart upload without naming it";
        return Err(Unfinished::Failed(Failure::new(ErrorClass::Corrupt, message, begun.timings)));
    };
    let parts = Parts {
        phase: watcher.phase(),
        watcher,
        key,
        upload_id: &upload_id,
        content,
        part_size: upload.part_size,
        next: Cell::new(1),
        done: RefCell::default(),
    };
    let result = parts.send(own, more).await;
    let SentParts { mut tags, times, attempts, retries } = parts.done.into_inner();
    tries.attempts += attempts;
    tries.retries += retries;
    tries.spent.add_connections(&times);
    let result = match result {
        Ok(()) => {
            tags.sort_unstable_by_key(|(number, ..)| *number);
            let sent: Vec<(PartTag, u64)> = tags.into_iter().map(|(_, tag, len)| (tag, len)).collect();
            complete(own, (key, &upload_id), &sent, watcher, tries, timer).await
        }
        Err(ended) => Err(ended),
    };
    match result {
        Ok(mut uploaded) => {
            let timings = &mut uploaded.reply.timings;
            (timings.body_first_ns, timings.body_last_ns) = (times.body_first_ns, times.body_last_ns);
            timings.first_byte_ns = 0;
            uploaded.reply.bytes = content.total();
            Ok(uploaded)
        }
        Err(ended) => {
            let space = watcher.site().space_of(&watcher.phase().workload.written);
            if let Some(key) = space.as_ref().and_then(|space| space.own(key)) {
                abort(own, key, &upload_id).await;
            }
            Err(ended)
        }
    }
}

async fn complete(
    connection: &mut dyn Connection,
    (key, upload_id): (&str, &str),
    sent: &[(PartTag, u64)],
    watcher: &mut Watcher<'_>,
    tries: &mut Tries,
    timer: &mut Option<Timer>,
) -> Result<Uploaded, Unfinished> {
    watcher.extend();
    let parts: Vec<PartTag> = sent.iter().map(|(tag, _)| tag.clone()).collect();
    let request = Request::CompleteMultipart { key, upload_id, parts: &parts };
    let reply = send_with_retries(connection, request, watcher, tries, timer).await?;
    let profile = watcher.site().store.profile();
    let done = PartTag { etag: reply.etag.clone().unwrap_or_default(), checksum: reply.checksum.clone() };
    match check_upload(profile, sent, &done) {
        Ok(checked) => Ok(Uploaded { reply, checked }),
        Err(what) => Err(Unfinished::Failed(Failure::new(ErrorClass::Corrupt, what, reply.timings))),
    }
}

/// What has been sent so far.
#[derive(Default)]
struct SentParts {
    /// Number, tag and length of each part.
    tags: Vec<(u32, PartTag, u64)>,
    /// First and last byte of content, and connections made.
    times: Timings,
    attempts: u32,
    retries: u32,
}

/// The parts of one upload on their way.
struct Parts<'a, 'w> {
    phase: &'w Phase,
    watcher: &'a Watcher<'w>,
    key: &'a str,
    upload_id: &'a str,
    content: &'a Content,
    part_size: u64,
    /// Number of the next part that nobody has taken.
    next: Cell<u64>,
    done: RefCell<SentParts>,
}

/// What a part's request is asked to bear.
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
    /// Sends all parts on all connections; the first failure ends the others.
    async fn send(
        &self,
        own: &mut dyn Connection,
        more: &mut [Box<dyn Connection>],
    ) -> Result<(), Unfinished> {
        let id = self.watcher.id;
        let mut senders = FuturesUnordered::new();
        senders.push(self.sender(own));
        for connection in more {
            senders.push(self.sender(connection.as_mut()));
        }
        poll_fn(|cx| {
            if let Some(call_off) = self.watcher.context.slots.called_off(id) {
                return Poll::Ready(Err(Unfinished::CalledOff(call_off)));
            }
            self.watcher.context.slots.remember(id, cx);
            loop {
                match senders.poll_next_unpin(cx) {
                    Poll::Ready(Some(Ok(()))) => {}
                    Poll::Ready(Some(Err(failure))) => return Poll::Ready(Err(Unfinished::Failed(failure))),
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Sends part after part on one connection until there are no more.
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
            let reply = self.part(connection, number as u32, (from, end), &mut timer).await?;
            let Some(etag) = reply.etag else {
                let message = format!("the store gave no ETag for part {number}");
                return Err(Failure::new(ErrorClass::Corrupt, message, reply.timings));
            };
            let mut done = self.done.borrow_mut();
            done.tags.push((number as u32, PartTag { etag, checksum: reply.checksum }, end - from));
            done.took(&reply.timings);
            self.watcher.extend();
        }
    }

    /// One part with its attempts.
    async fn part(
        &self,
        connection: &mut dyn Connection,
        number: u32,
        (from, end): (u64, u64),
        timer: &mut Option<Timer>,
    ) -> Result<Reply, Failure> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            self.done.borrow_mut().attempts += 1;
            let (key, upload_id) = (self.key, self.upload_id);
            let body = self.content.part(from, end);
            let request = Request::UploadPart { key, upload_id, number, body };
            let mut observer =
                PartObserver { checksum: self.watcher.expected.declared, tag: self.watcher.tag.as_deref() };
            let result = connection.execute(request, &mut observer).await;
            if self.phase.retries > 0 {
                let times = match &result {
                    Ok(reply) => reply.timings,
                    Err(failure) => failure.timings,
                };
                let took = times.end_ns.saturating_sub(times.start_ns);
                let phase = self.watcher.context.number(self.watcher.task.phase);
                self.watcher.context.recorder.borrow_mut().attempted(phase, self.watcher.kind, took);
            }
            match result {
                Err(failure) if attempts <= self.phase.retries && failure.is_retryable() => {
                    self.done.borrow_mut().retried(&failure.timings);
                    let draw = (self.watcher.task.number << 20) + u64::from(number) * 64;
                    let pause = backoff_ns(self.phase, draw + u64::from(attempts), attempts);
                    wait_until(timer, now_ns() + pause).await;
                }
                Err(failure) => {
                    let fault = self.content.fault();
                    return Err(match fault {
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
    /// Adds an attempt that is made again.
    fn retried(&mut self, failed: &Timings) {
        self.retries += 1;
        self.times.add_connections(failed);
    }

    /// Adds the times of a part.
    fn took(&mut self, part: &Timings) {
        let times = &mut self.times;
        times.add_connections(part);
        if times.body_first_ns == 0 || part.body_first_ns < times.body_first_ns {
            times.body_first_ns = part.body_first_ns;
        }
        times.body_last_ns = times.body_last_ns.max(part.body_last_ns);
    }
}

/// Gives the upload up, for at most ten seconds; what is left then is found by clean-up.
async fn abort(connection: &mut dyn Connection, key: OwnedKey<'_>, upload_id: &str) {
    let _ = insist(connection, Request::AbortMultipart { key, upload_id }, Duration::from_secs(10)).await;
}
