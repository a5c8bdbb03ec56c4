//! Verification of written objects, outside the time of their operations.

use super::content::Content;
use super::overlaps::Overlaps;
use super::retry::{AttemptCounts, AttemptError, Expected, OperationObserver, send_with_retries};
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
    /// Returns the contents of the writes that overlap this one so far.
    pub others: &'a dyn Fn() -> Vec<Content>,
}

/// Verifies a written object, and deletes it if it is wrong, unless it is a copy or other slots write it.
/// [`Verify::Readback`] compares the whole content, and [`Verify::On`] the size. The content of an overlapping write is
/// right, too. `put` is the observer of the write and `reply` its reply.
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
    let Written { key, content, others } = written;
    let readback = put.phase().verify == Verify::Readback;
    let bytes = Some(content.total()).filter(|bytes| *bytes != UNKNOWN_SIZE);
    let mut expected = Expected { bytes, ..Expected::unknown() };
    expected.content = readback.then(|| content.clone());
    let overlaps = Overlaps::new(others);
    let mut observer = OperationObserver {
        expected: &expected,
        at: 0,
        tag: None,
        condition: Vec::new(),
        verifying: Some(&overlaps),
        ..*put
    };
    observer.extend();
    let request = if readback { Request::Get { key, range: None } } else { Request::Head { key } };
    let mut counts = AttemptCounts::default();
    let verified = send_with_retries(connection, request, &mut observer, &mut counts, timer).await;
    let Err(AttemptError::Failed(failure)) = verified else { return verified.map(|_| reply) };
    // Another slot that writes this object would not find what it has written. Copies of one object have one key.
    let is_only = put.kind != OperationKind::Copy && others().is_empty();
    if failure.class == ErrorClass::Corrupt && is_only {
        let owned = put.site().space_of(&put.phase().workload.written);
        let owned = owned.as_ref().and_then(|space| space.own(key));
        if let Some(key) = owned {
            let _ = connection.execute(Request::Delete { key }, &mut Ignore).await;
        }
    }
    let message = format!("the {} succeeded, but its verification failed: {}", put.kind, failure.message);
    Err(AttemptError::Failed(Failure { timings: reply.timings, message, ..failure }))
}
