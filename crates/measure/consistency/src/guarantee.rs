//! Guarantees of consistency, and which of them an operation tests.

use serde::{Deserialize, Serialize};

use super::history::{Action, Answer, RecordedRequest};

/// Guarantees of consistency. The answer to an operation shows that one of them holds or is violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// A read after an unconditional write returns that write or a later one.
    ReadAfterPut,
    /// A read after a write with a condition returns that write or a later one.
    ReadAfterConditionalPut,
    /// A read after a delete does not return the deleted object.
    ReadAfterDelete,
    /// A listing after a write contains the object in its current state.
    ListAfterPut,
    /// A listing after a delete does not contain the object.
    ListAfterDelete,
    /// A write with `If-None-Match: *` succeeds only if the object does not exist, and is refused only if it does.
    PutIfAbsent,
    /// A write with `If-Match` succeeds only if the object has that entity tag, and is refused only if it has not.
    PutIfUnchanged,
}

impl Guarantee {
    /// All guarantees, in the order of tables.
    pub const ALL: [Guarantee; 7] = [
        Guarantee::ReadAfterPut,
        Guarantee::ReadAfterConditionalPut,
        Guarantee::ReadAfterDelete,
        Guarantee::ListAfterPut,
        Guarantee::ListAfterDelete,
        Guarantee::PutIfAbsent,
        Guarantee::PutIfUnchanged,
    ];

    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Guarantee::ReadAfterPut => "read after write",
            Guarantee::ReadAfterConditionalPut => "read after conditional write",
            Guarantee::ReadAfterDelete => "read after delete",
            Guarantee::ListAfterPut => "list after write",
            Guarantee::ListAfterDelete => "list after delete",
            Guarantee::PutIfAbsent => "write if absent",
            Guarantee::PutIfUnchanged => "write if unchanged",
        }
    }
}

/// Writes and deletes that were acknowledged, in order of their ends.
pub(super) struct Acknowledged<'a>(Vec<&'a RecordedRequest>);

impl Acknowledged<'_> {
    pub(super) fn of(history: &[RecordedRequest]) -> Acknowledged<'_> {
        let mut writes: Vec<&RecordedRequest> = history.iter().filter(|o| o.answer == Answer::Done).collect();
        writes.sort_by_key(|write| write.end_ns);
        Acknowledged(writes)
    }

    /// Returns the guarantee that an operation tests; `None` if it tests none, because nothing was written before it.
    pub(super) fn tested_by(&self, operation: &RecordedRequest) -> Option<Guarantee> {
        guarantee(operation, self.before(operation).last().map(|write| write.action))
    }

    /// Returns the guarantee that an operation without a valid place in the history violates. A read violates the
    /// guarantee of the last write whose state it did not return: a write that it did return may have been
    /// acknowledged after the write that is missing.
    pub(super) fn violated_by(&self, operation: &RecordedRequest) -> Option<Guarantee> {
        let missed = |write: &&&RecordedRequest| operation.answer != Answer::Saw(write.action.written());
        let missing = self.before(operation).iter().rev().find(missed).map(|write| write.action);
        guarantee(operation, missing).or_else(|| self.tested_by(operation))
    }

    /// Returns the writes and deletes that were acknowledged before an operation started.
    pub(super) fn before(&self, operation: &RecordedRequest) -> &[&RecordedRequest] {
        &self.0[..self.0.partition_point(|write| write.end_ns < operation.start_ns)]
    }
}

/// Returns the guarantee that an operation tests after a write or delete; `None` if it tests none.
fn guarantee(operation: &RecordedRequest, last: Option<Action>) -> Option<Guarantee> {
    match (operation.action, operation.answer, last) {
        (_, Answer::Unknown, _) => None,
        (Action::PutIfAbsent(_), ..) => Some(Guarantee::PutIfAbsent),
        (Action::PutIfUnchanged(..), ..) => Some(Guarantee::PutIfUnchanged),
        (Action::Get, _, Some(Action::Delete)) => Some(Guarantee::ReadAfterDelete),
        (Action::Get, _, Some(Action::Put(_))) => Some(Guarantee::ReadAfterPut),
        (Action::Get, _, Some(_)) => Some(Guarantee::ReadAfterConditionalPut),
        (Action::List, _, Some(Action::Delete)) => Some(Guarantee::ListAfterDelete),
        (Action::List, _, Some(_)) => Some(Guarantee::ListAfterPut),
        _ => None,
    }
}
