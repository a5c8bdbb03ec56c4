//! The operations with which a proof repeats a violation.

use super::history::{Action, Event, NumberedOperation};
use super::moment::Moment;
use plimsoll_disk::rules::Fate;

/// Numbers of the disk's steps after which an operation is interrupted.
const INTERRUPTED_AFTER: [u64; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// A way to repeat a violation with few operations.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// True if the disk writes everything back before the last operation on the key.
    pub writes_back: bool,
    /// True if the power fails in the middle of the next operation on the key, which had no answer.
    pub interrupts: bool,
    /// Number of operations on other keys that follow.
    pub following: usize,
    /// Number of random fates of what is not synced, besides the fate of the cut and the worst ones.
    pub random: u64,
}

/// The attempts, in order: the shorter ones first.
pub const ATTEMPTS: [Attempt; 8] = [
    Attempt { writes_back: false, interrupts: false, following: 0, random: 0 },
    Attempt { writes_back: true, interrupts: false, following: 0, random: 0 },
    Attempt { writes_back: false, interrupts: true, following: 0, random: 0 },
    Attempt { writes_back: false, interrupts: false, following: 3, random: 0 },
    Attempt { writes_back: true, interrupts: false, following: 3, random: 0 },
    Attempt { writes_back: false, interrupts: false, following: 1, random: 3 },
    Attempt { writes_back: true, interrupts: false, following: 1, random: 3 },
    Attempt { writes_back: true, interrupts: true, following: 0, random: 2 },
];

/// Operations of a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The operations, in order.
    pub operations: Vec<NumberedOperation>,
    /// Number of the first operations that the disk has written back before the next one; 0 for none.
    pub written_back: usize,
    /// Number of the disk's steps after which the last operation is interrupted; `None` if the power fails after it.
    pub interrupted: Option<u64>,
}

impl Script {
    /// Returns the scripts of an attempt: the operations on `key` that were acknowledged, those on the sources of its
    /// copies, and those that the attempt adds. Empty if there is nothing to write back or to interrupt.
    pub fn all(events: &[Event], key: &str, attempt: Attempt) -> Vec<Script> {
        let (mut operations, last) = history_of(events, key);
        let later = events.get(last + 1..).unwrap_or_default();
        if attempt.interrupts {
            // Clients do not use a key again after an operation without an answer.
            let Some(next) = later.iter().find(|event| event.operation.key == key) else { return Vec::new() };
            operations.push(next.operation.clone());
        }
        let written_back = if attempt.writes_back { operations.len().saturating_sub(1) } else { 0 };
        if attempt.writes_back && written_back == 0 {
            return Vec::new();
        }
        let following = later.iter().filter(|event| event.acknowledged_ns.is_some());
        operations.extend(following.take(attempt.following).map(|event| event.operation.clone()));
        let script = Script { operations, written_back, interrupted: None };
        match attempt.interrupts {
            true => {
                INTERRUPTED_AFTER.map(|steps| Script { interrupted: Some(steps), ..script.clone() }).to_vec()
            }
            false => vec![script],
        }
    }

    /// Returns true if the power fails in the middle of the last operation.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_some()
    }

    /// Returns the moment at which the power fails.
    pub fn moment(&self, fate: Fate, seed: u64) -> Moment {
        Moment {
            at: (self.operations.len() - usize::from(self.is_interrupted())) as u64,
            steps: self.interrupted.unwrap_or(0),
            fate,
            seed,
            again: None,
            written_back: Some(self.written_back as u64),
        }
    }

    /// Returns the script without one of its operations.
    pub fn without(&self, at: usize) -> Script {
        let mut fewer = self.clone();
        fewer.operations.remove(at);
        fewer.written_back -= usize::from(at < self.written_back);
        if at == fewer.operations.len() {
            fewer.interrupted = None;
        }
        fewer
    }
}

/// Returns the acknowledged operations on `key` with those on the sources of its copies, and the position of the last
/// one among the events.
pub fn history_of(events: &[Event], key: &str) -> (Vec<NumberedOperation>, usize) {
    let is_acknowledged = |event: &Event| event.acknowledged_ns.is_some();
    let last = events.iter().rposition(|event| event.operation.key == key && is_acknowledged(event));
    let last = last.unwrap_or(0);
    let mut keys = vec![key.to_string()];
    let mut found = Vec::new();
    for event in events.iter().take(last + 1).rev().filter(|event| is_acknowledged(event)) {
        let operation = &event.operation;
        if keys.contains(&operation.key) {
            if let Action::Copy(from, _) = &operation.action {
                keys.push(from.clone());
            }
            found.push(operation.clone());
        }
    }
    found.reverse();
    (found, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, key: &str, action: Action) -> Event {
        Event {
            operation: NumberedOperation { id, key: key.into(), action, existed: false },
            acknowledged_ns: Some(id),
        }
    }

    fn ids(operations: &[NumberedOperation]) -> Vec<u64> {
        operations.iter().map(|operation| operation.id).collect()
    }

    #[test]
    fn the_history_of_a_key_has_the_sources_of_its_copies() {
        use super::super::content::ContentId;
        let source = ContentId { operation: 1, size: 8 };
        let events = [
            event(1, "a", Action::Put(8)),
            event(2, "x", Action::Put(8)),
            event(3, "b", Action::Copy("a".into(), source)),
            event(4, "a", Action::Delete),
        ];
        assert_eq!(ids(&history_of(&events, "b").0), [1, 3]);
        assert_eq!(ids(&history_of(&events, "a").0), [1, 4]);
    }

    #[test]
    fn a_script_writes_back_before_the_last_operation_on_the_key() {
        let mut events = vec![
            event(1, "a", Action::Put(8)),
            event(2, "x", Action::Put(8)),
            event(3, "a", Action::Delete),
            event(4, "y", Action::Put(8)),
            event(5, "z", Action::Put(8)),
        ];
        events[3].acknowledged_ns = None;
        let attempt = Attempt { writes_back: true, interrupts: false, following: 3, random: 0 };
        let script = Script::all(&events, "a", attempt).remove(0);
        assert_eq!((ids(&script.operations), script.written_back), (vec![1, 3, 5], 1));
        assert_eq!(script.without(0).written_back, 0);
        assert_eq!(ids(&script.without(0).operations), [3, 5]);
        assert_eq!(script.without(2).written_back, 1);
        assert_eq!(Script::all(&events, "x", attempt), []);
    }

    #[test]
    fn a_script_interrupts_the_operation_without_an_answer() {
        let mut events = vec![event(1, "a", Action::Put(8)), event(2, "a", Action::Delete)];
        events[1].acknowledged_ns = None;
        let attempt = Attempt { writes_back: true, interrupts: true, following: 0, random: 0 };
        let scripts = Script::all(&events, "a", attempt);
        assert_eq!(scripts.len(), INTERRUPTED_AFTER.len());
        assert_eq!((ids(&scripts[1].operations), scripts[1].written_back), (vec![1, 2], 1));
        let moment = scripts[1].moment(Fate::Everything, 0);
        assert_eq!((moment.at, moment.steps, moment.written_back), (1, 2, Some(1)));
        assert!(!scripts[1].without(1).is_interrupted() && scripts[1].without(0).is_interrupted());
        events.pop();
        assert_eq!(Script::all(&events, "a", attempt), []);
    }
}
