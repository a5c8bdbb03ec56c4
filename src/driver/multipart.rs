//! A put in parts: begin, parts one after another, complete; given up in good order when it fails or is called off.

use std::rc::Rc;

use bytes::Bytes;

use super::attempt::{Ended, Tries, Watcher, tried};
use super::context::Context;

use crate::clock::{SECOND, Timer, now_ns};
use crate::store::{Body, ErrorClass, Failure, Ignore, Lane, PartTag, Reply, Request, Segments, Timings};
use crate::workload::payload::Cut;

/// One part of an object, in segments that are slices of the shared block.
struct PartBody {
    cut: Cut,
    from: u64,
    end: u64,
}

impl Segments for PartBody {
    fn total(&self) -> u64 {
        self.end - self.from
    }

    fn segment(&self, index: usize) -> Option<Bytes> {
        // The first piece ends where the object's own segment ends; the others are whole segments.
        let segment = self.from / Cut::SEGMENT + index as u64;
        self.cut.piece(self.from.max(segment * Cut::SEGMENT), self.end)
    }
}

/// Writes `cut` under `key` in parts of `part_size`. The phase's timeout and its retries hold for each request.
pub async fn put(
    context: &Context,
    lane: &mut dyn Lane,
    key: &str,
    (cut, part_size): (Cut, u64),
    watcher: &mut Watcher<'_>,
    tries: &mut Tries,
    timer: &mut Option<Timer>,
) -> Result<Reply, Ended> {
    let begun = tried(context, lane, Request::CreateMultipart { key }, watcher, tries, timer).await?;
    let Some(upload_id) = begun.upload_id else {
        let message = "the store began a multipart upload without naming it";
        return Err(Ended::Failed(Failure::new(ErrorClass::Corrupt, message, begun.timings)));
    };
    let result = parts(context, lane, key, &upload_id, (cut, part_size), watcher, tries, timer).await;
    if result.is_err() {
        abort(lane, key, &upload_id).await;
    }
    result
}

#[expect(clippy::too_many_arguments, reason = "one call site; a struct would only rename them")]
async fn parts(
    context: &Context,
    lane: &mut dyn Lane,
    key: &str,
    upload_id: &str,
    (cut, part_size): (Cut, u64),
    watcher: &mut Watcher<'_>,
    tries: &mut Tries,
    timer: &mut Option<Timer>,
) -> Result<Reply, Ended> {
    let size = cut.total();
    let mut tags = Vec::new();
    let mut times = Timings::default();
    for number in 1..=size.div_ceil(part_size).max(1) {
        let from = (number - 1) * part_size;
        let body = PartBody { cut: cut.clone(), from, end: (from + part_size).min(size) };
        let body = Body::Segmented(Rc::new(body));
        let request = Request::UploadPart { key, upload_id, number: number as u32, body };
        watcher.extend();
        let reply = tried(context, lane, request, watcher, tries, timer).await?;
        let Some(etag) = reply.etag else {
            let message = format!("the store gave no ETag for part {number}");
            return Err(Ended::Failed(Failure::new(ErrorClass::Corrupt, message, reply.timings)));
        };
        tags.push(PartTag { etag, checksum: reply.checksum.clone() });
        if times.body_first_ns == 0 {
            times.body_first_ns = reply.timings.body_first_ns;
        }
        times.body_last_ns = reply.timings.body_last_ns;
        tries.spent.add_connections(&reply.timings);
    }
    watcher.extend();
    let request = Request::CompleteMultipart { key, upload_id, parts: &tags };
    let mut reply = tried(context, lane, request, watcher, tries, timer).await?;
    reply.bytes = size;
    (reply.timings.body_first_ns, reply.timings.body_last_ns) = (times.body_first_ns, times.body_last_ns);
    reply.timings.first_byte_ns = 0;
    Ok(reply)
}

/// Gives the upload up, for at most five seconds; what is left then is found by `plimsoll clean`.
async fn abort(lane: &mut dyn Lane, key: &str, upload_id: &str) {
    let Ok(mut timer) = Timer::new() else { return };
    let mut ignore = Ignore;
    tokio::select! {
        _ = lane.execute(Request::AbortMultipart { key, upload_id }, &mut ignore) => {}
        _ = timer.until(now_ns() + 5 * SECOND) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::payload::Block;

    #[test]
    fn parts_put_together_are_the_object() {
        let size = 7 * Cut::SEGMENT + 12_345;
        let cut = Block::new(42).cut(1, 2, 3, size);
        for part_size in [5 * Cut::SEGMENT, 5 * Cut::SEGMENT + 777, 3_000_001] {
            let mut at = 0;
            while at < size {
                let part = PartBody { cut: cut.clone(), from: at, end: (at + part_size).min(size) };
                let pieces: Vec<Bytes> = (0..).map_while(|i| part.segment(i)).collect();
                assert_eq!(pieces.iter().map(|p| p.len() as u64).sum::<u64>(), part.total());
                for piece in pieces {
                    assert_eq!(cut.compare(at, &piece), Ok(()), "part size {part_size}, offset {at}");
                    at += piece.len() as u64;
                }
            }
        }
    }
}
