//! Verification of written objects, outside the time of their operations.

use std::sync::Arc;

use super::content::{Content, OneOf};
use super::retry::{AttemptCounts, AttemptError, Expected, OperationObserver, send_with_retries};
use super::writers::Writing;
use crate::store::{Connection, Failure, Ignore, Reply, Request};
use plimsoll_base::clock::Timer;
use plimsoll_recorder::ErrorClass;
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Verify;
use plimsoll_workload::trace::UNKNOWN_SIZE;

/// A written object, and the other writes of it.
pub struct Written<'a> {
    /// Key of the object.
    pub key: &'a str,
    /// Content that was written.
    pub content: &'a Content,
    /// The write, if others may overlap it.
    pub writing: Option<&'a Writing<'a>>,
    /// Versions that other nodes may write at the same time.
    pub elsewhere: Vec<u64>,
    /// Returns the content of another version; `None` if its file cannot be opened.
    pub version: &'a dyn Fn(u64) -> Option<Content>,
}

/// Verifies a written object, and deletes it if it is wrong, unless it is a copy. [`Verify::Readback`] compares the
/// whole content, and [`Verify::On`] the size. `put` is the observer of the write and `reply` its reply.
///
/// # Errors
/// Returns a failure if the verification fails, or the reason for the cancellation of the operation.
pub async fn verify_written(
    connection: &mut dyn Connection,
    written: Written<'_>,
    put: &OperationObserver<'_>,
    reply: Reply,
    timer: &mut Option<Timer>,
) -> Result<Reply, AttemptError> {
    let Written { key, content, .. } = written;
    let readback = put.phase().verify == Verify::Readback;
    let bytes = Some(content.total()).filter(|bytes| *bytes != UNKNOWN_SIZE);
    let mut expected = Expected { bytes, ..Expected::unknown() };
    expected.content = readback.then(|| content.clone());
    let mut verified = read(connection, key, &expected, put, timer).await.map(|_| true);
    if matches!(&verified, Err(AttemptError::Failed(failure)) if failure.class == ErrorClass::Corrupt) {
        match is_another_version(connection, &written, put, timer).await {
            Ok(false) => {}
            other => verified = other,
        }
    }
    let Err(AttemptError::Failed(failure)) = verified else { return verified.map(|_| reply) };
    // Copies of one object have one key, which another operation may have read or written meanwhile.
    if failure.class == ErrorClass::Corrupt && put.kind != OperationKind::Copy {
        let owned = put.site().space_of(&put.phase().workload.written);
        let owned = owned.as_ref().and_then(|space| space.own(key));
        if let Some(key) = owned {
            let _ = connection.execute(Request::Delete { key }, &mut Ignore).await;
        }
    }
    let message = format!("the {} succeeded, but its verification failed: {}", put.kind, failure.message);
    Err(AttemptError::Failed(Failure { timings: reply.timings, message, ..failure }))
}

/// Reads an object back, or looks at it. Returns its size in bytes.
async fn read(
    connection: &mut dyn Connection,
    key: &str,
    expected: &Expected,
    put: &OperationObserver<'_>,
    timer: &mut Option<Timer>,
) -> Result<u64, AttemptError> {
    let mut observer =
        OperationObserver { expected, at: 0, tag: None, condition: Vec::new(), verifies: true, ..*put };
    observer.extend();
    let mut counts = AttemptCounts::default();
    let readback = put.phase().verify == Verify::Readback;
    let request = if readback { Request::Get { key, range: None } } else { Request::Head { key } };
    let reply = send_with_retries(connection, request, &mut observer, &mut counts, timer).await?;
    Ok(reply.size.unwrap_or(observer.at))
}

/// Returns true if an object has the whole content of a version that was written at the same time: an operation of
/// another slot may write the same key, and the last one to arrive wins.
///
/// # Errors
/// Any failure but a wrong content.
async fn is_another_version(
    connection: &mut dyn Connection,
    written: &Written<'_>,
    put: &OperationObserver<'_>,
    timer: &mut Option<Timer>,
) -> Result<bool, AttemptError> {
    let Some(writing) = written.writing else { return Ok(false) };
    loop {
        let others = writing.others();
        if others.is_empty() && written.elsewhere.is_empty() {
            return Ok(false);
        }
        let all = others.iter().chain(&written.elsewhere).filter_map(|version| (written.version)(*version));
        let one_of = Arc::new(OneOf::new(all.chain([written.content.clone()]).collect()));
        let expected = Expected { content: Some(Content::OneOf(Arc::clone(&one_of))), ..Expected::unknown() };
        match read(connection, written.key, &expected, put, timer).await {
            Ok(bytes) if one_of.is_whole(bytes) => return Ok(true),
            Err(AttemptError::Failed(failure)) if failure.class != ErrorClass::Corrupt => {
                return Err(AttemptError::Failed(failure));
            }
            Err(AttemptError::Cancelled(reason)) => return Err(AttemptError::Cancelled(reason)),
            // A version whose write has begun during the read may be it.
            _ if writing.others().len() > others.len() => {}
            _ => return Ok(false),
        }
    }
}
