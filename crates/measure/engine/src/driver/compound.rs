//! Operations that consist of several consecutive requests: a scan (a read, a listing and the reads of the
//! listed objects), a read followed by a write, and a compare-and-swap.

use super::content::Content;
use super::retry::{AttemptCounts, AttemptError, Expected, OperationObserver, send_with_retries};
use crate::store::{BodyChecksum, Connection, Reply, Request};
use plimsoll_base::clock::Timer;
use plimsoll_recorder::Timings;

/// Adds the bytes, the first-byte time and the body times of an earlier request of an operation to the reply
/// of its last request.
fn merge_replies(earlier: &Reply, mut last: Reply) -> Reply {
    last.bytes += earlier.bytes;
    let first = earlier.timings.body_first_ns;
    if first != 0 {
        last.timings.body_first_ns = first;
        last.timings.body_last_ns = last.timings.body_last_ns.max(earlier.timings.body_last_ns);
    }
    last.timings.first_byte_ns = earlier.timings.first_byte_ns;
    last
}

/// Returns an observer for the next request of an operation, with another expected response, and restarts the
/// deadline.
fn next_observer<'a>(observer: &OperationObserver<'a>, expected: &'a Expected) -> OperationObserver<'a> {
    observer.extend();
    OperationObserver { expected, at: 0, tag: observer.tag.clone(), condition: Vec::new(), ..*observer }
}

/// Reads an object, then overwrites it with `content`.
///
/// # Errors
/// Returns the error of the first request that does not succeed.
pub async fn read_modify_write(
    connection: &mut dyn Connection,
    key: &str,
    content: &Content,
    upload_checksum: Option<BodyChecksum>,
    observer: &mut OperationObserver<'_>,
    counts: &mut AttemptCounts,
    timer: &mut Option<Timer>,
) -> Result<Reply, AttemptError> {
    let read =
        send_with_retries(connection, Request::Get { key, range: None }, observer, counts, timer).await?;
    counts.earlier.add_connections(&read.timings);
    let expected = Expected { upload_checksum, ..Expected::unknown() };
    let mut observer = next_observer(observer, &expected);
    let write = Request::Put { key, body: content.body() };
    let written = send_with_retries(connection, write, &mut observer, counts, timer).await?;
    Ok(merge_replies(&read, written))
}

/// Reads an object, then overwrites it with `content` if no other write came between, and repeats both until that
/// succeeds. Each conflict counts as a retry.
///
/// # Errors
/// Returns the error of the first request that does not succeed for another reason than a conflict.
pub async fn compare_and_swap(
    connection: &mut dyn Connection,
    key: &str,
    content: &Content,
    observer: &mut OperationObserver<'_>,
    counts: &mut AttemptCounts,
    timer: &mut Option<Timer>,
) -> Result<Reply, AttemptError> {
    loop {
        let get = Request::Get { key, range: None };
        let read = send_with_retries(connection, get, observer, counts, timer).await?;
        counts.earlier.add_connections(&read.timings);
        let expected = Expected::unknown();
        let mut writing = next_observer(observer, &expected);
        writing.condition = vec![("if-match", read.etag.clone().unwrap_or_default())];
        let put = Request::Put { key, body: content.body() };
        match send_with_retries(connection, put, &mut writing, counts, timer).await {
            Err(AttemptError::Failed(failure)) if matches!(failure.status(), Some(409 | 412)) => {
                counts.earlier.add_connections(&failure.timings);
                counts.retries += 1;
                observer.extend();
            }
            result => return result.map(|written| merge_replies(&read, written)),
        }
    }
}

/// Objects that a scan reads.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'a> {
    /// Prefix of the keys.
    pub prefix: &'a str,
    /// Key of the first object.
    pub key: &'a str,
    /// Number of objects.
    pub length: u64,
}

/// Reads up to `length` objects in key order: the object `key`, then the objects that a listing after `key`
/// returns.
///
/// # Errors
/// Returns the error of the first request that does not succeed.
pub async fn scan(
    connection: &mut dyn Connection,
    scan: Scan<'_>,
    observer: &mut OperationObserver<'_>,
    counts: &mut AttemptCounts,
    timer: &mut Option<Timer>,
) -> Result<Reply, AttemptError> {
    let Scan { prefix, key, length } = scan;
    let mut sum =
        send_with_retries(connection, Request::Get { key, range: None }, observer, counts, timer).await?;
    if length <= 1 {
        return Ok(sum);
    }
    let expected = Expected::unknown();
    let list = Request::List { prefix, start_after: key, token: "", max_keys: (length - 1).min(1000) as u32 };
    let mut listing = next_observer(observer, &expected);
    let listed = send_with_retries(connection, list, &mut listing, counts, timer).await?;
    let objects = listed.listing.unwrap_or_default().objects;
    counts.earlier.add_connections(&sum.timings);
    sum.timings = Timings { end_ns: listed.timings.end_ns, connections: 0, reconnects: 0, ..sum.timings };
    for object in objects {
        let expected = Expected::length(object.size);
        let mut reading = next_observer(observer, &expected);
        let request = Request::Get { key: &object.key, range: None };
        let read = send_with_retries(connection, request, &mut reading, counts, timer).await?;
        sum = merge_replies(&sum, read);
    }
    Ok(sum)
}
