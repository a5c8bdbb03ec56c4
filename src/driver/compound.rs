//! Operations that take several requests one after another: a scan (a listing, then its objects), a read followed by a write.

use super::attempt::{Expected, Tries, Unfinished, Watcher, send_with_retries};
use super::content::Content;
use crate::clock::Timer;
use crate::store::{BodyChecksum, Connection, Reply, Request, Timings};

/// Adds what an earlier request of the operation brought and took.
fn joined(earlier: &Reply, mut last: Reply) -> Reply {
    last.bytes += earlier.bytes;
    let first = earlier.timings.body_first_ns;
    if first != 0 {
        last.timings.body_first_ns = first;
        last.timings.body_last_ns = last.timings.body_last_ns.max(earlier.timings.body_last_ns);
    }
    last.timings.first_byte_ns = earlier.timings.first_byte_ns;
    last
}

/// The operation's watcher for its next request, of which something else is expected.
fn next<'a>(watcher: &Watcher<'a>, expected: &'a Expected) -> Watcher<'a> {
    watcher.extend();
    Watcher { expected, at: 0, tag: watcher.tag.clone(), ..*watcher }
}

/// Reads an object and writes it anew.
pub async fn read_modify_write(
    connection: &mut dyn Connection,
    key: &str,
    content: &Content,
    declared: Option<BodyChecksum>,
    watcher: &mut Watcher<'_>,
    tries: &mut Tries,
    timer: &mut Option<Timer>,
) -> Result<Reply, Unfinished> {
    let read =
        send_with_retries(connection, Request::Get { key, range: None }, watcher, tries, timer).await?;
    tries.spent.add_connections(&read.timings);
    let expected = Expected { declared, ..Expected::nothing() };
    let mut watcher = next(watcher, &expected);
    let write = Request::Put { key, body: content.body() };
    let written = send_with_retries(connection, write, &mut watcher, tries, timer).await?;
    Ok(joined(&read, written))
}

/// Reads `length` objects from `key` on, in the order of their keys: that object, then those that a listing names.
pub async fn scan(
    connection: &mut dyn Connection,
    (prefix, key, length): (&str, &str, u64),
    watcher: &mut Watcher<'_>,
    tries: &mut Tries,
    timer: &mut Option<Timer>,
) -> Result<Reply, Unfinished> {
    let mut sum =
        send_with_retries(connection, Request::Get { key, range: None }, watcher, tries, timer).await?;
    if length <= 1 {
        return Ok(sum);
    }
    let nothing = Expected::nothing();
    let list = Request::List { prefix, start_after: key, token: "", max_keys: (length - 1).min(1000) as u32 };
    let mut listing = next(watcher, &nothing);
    let listed = send_with_retries(connection, list, &mut listing, tries, timer).await?;
    let objects = listed.listing.unwrap_or_default().objects;
    tries.spent.add_connections(&sum.timings);
    sum.timings = Timings { end_ns: listed.timings.end_ns, connections: 0, reconnects: 0, ..sum.timings };
    for object in objects {
        let expected = Expected::length(object.size);
        let mut reading = next(watcher, &expected);
        let request = Request::Get { key: &object.key, range: None };
        let read = send_with_retries(connection, request, &mut reading, tries, timer).await?;
        sum = joined(&sum, read);
    }
    Ok(sum)
}
