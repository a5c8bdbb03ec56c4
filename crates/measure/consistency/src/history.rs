//! Histories: what the clients of one key did, and what the store answered.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// Identifies the content of one write. No two writes of a run have the same content.
pub type Value = NonZeroU64;

/// A request that a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Unconditional write of a value.
    Put(Value),
    /// Write of a value with `If-None-Match: *`.
    PutIfAbsent(Value),
    /// Write of the second value with the entity tag of the first one in `If-Match`.
    PutIfUnchanged(Value, Value),
    /// Delete without a condition.
    Delete,
    /// Read of the content.
    Get,
    /// Listing of the key.
    List,
}

impl Action {
    /// Returns the value that the action writes; `None` if it writes none.
    pub fn written(self) -> Option<Value> {
        match self {
            Action::Put(value) | Action::PutIfAbsent(value) | Action::PutIfUnchanged(_, value) => Some(value),
            Action::Delete | Action::Get | Action::List => None,
        }
    }

    /// Returns true for a write with a condition.
    pub fn is_conditional(self) -> bool {
        matches!(self, Action::PutIfAbsent(_) | Action::PutIfUnchanged(..))
    }
}

/// The answer of the store to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The write or delete succeeded.
    Done,
    /// The condition of the write was false.
    Refused,
    /// The read or listing returned this value; `None` if the object did not exist.
    Saw(Option<Value>),
    /// The listing contained the key, with an entity tag that names no single value.
    Present,
    /// There was no answer, or an error after which the write may have happened once, twice or not at all.
    Unknown,
}

/// A request to one key with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// Client that sent the request; a client sends one request at a time.
    pub client: u32,
    /// Request of the client.
    pub action: Action,
    /// Answer of the store.
    pub answer: Answer,
    /// Time before the first byte of the request, in nanoseconds on the monotonic clock.
    pub start_ns: u64,
    /// Time after the last byte of the answer, in nanoseconds on the monotonic clock; `u64::MAX` if the answer is
    /// unknown, because the store may execute the request at any later time.
    pub end_ns: u64,
}

impl RecordedRequest {
    /// Moves the operation to another clock: adds `shift_ns` to its times, and widens it on both sides by the error of
    /// the shift, so that it contains the true interval.
    pub fn shifted(self, shift_ns: i128, error_ns: u64) -> RecordedRequest {
        let moved = |at_ns: u64| (i128::from(at_ns) + shift_ns).clamp(0, i128::from(u64::MAX) - 1) as u64;
        let end_ns = match self.end_ns {
            u64::MAX => u64::MAX,
            end_ns => moved(end_ns).saturating_add(error_ns).min(u64::MAX - 1),
        };
        RecordedRequest { start_ns: moved(self.start_ns).saturating_sub(error_ns), end_ns, ..self }
    }

    /// Returns true if the operation leaves the object as it is, whatever its state.
    pub fn is_observer(&self) -> bool {
        matches!(self.answer, Answer::Refused | Answer::Saw(_) | Answer::Present)
    }

    /// Returns the state of the object after the operation; `None` if the operation cannot get its answer in `state`,
    /// or if it has no known answer and no effect. A state is the value of the object, or `None` if it does not exist.
    pub fn apply(&self, state: Option<Value>) -> Option<Option<Value>> {
        use Action::{Delete, Get, List, Put, PutIfAbsent, PutIfUnchanged};
        let possible = match (self.action, self.answer) {
            (Get | List, Answer::Saw(seen)) => seen == state,
            (List, Answer::Present) => state.is_some(),
            (PutIfAbsent(_), Answer::Refused) => state.is_some(),
            (PutIfUnchanged(expected, _), Answer::Refused) => state != Some(expected),
            (Put(_) | Delete, Answer::Done | Answer::Unknown) => true,
            (PutIfAbsent(_), Answer::Done | Answer::Unknown) => state.is_none(),
            (PutIfUnchanged(expected, _), Answer::Done | Answer::Unknown) => state == Some(expected),
            _ => false,
        };
        let after = if self.is_observer() { state } else { self.action.written() };
        possible.then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_on_another_clock_contains_its_true_interval() {
        let get = RecordedRequest {
            client: 0,
            action: Action::Get,
            answer: Answer::Saw(None),
            start_ns: 100,
            end_ns: 200,
        };
        let moved = get.shifted(-50, 10);
        assert_eq!((moved.start_ns, moved.end_ns), (40, 160));
        let unknown = RecordedRequest { end_ns: u64::MAX, ..get }.shifted(-500, 10);
        assert_eq!((unknown.start_ns, unknown.end_ns), (0, u64::MAX), "an unknown end stays unknown");
    }
}
