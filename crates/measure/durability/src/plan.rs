//! The operations of a cut, drawn from its seed.

use std::collections::BTreeMap;

use plimsoll_base::rng::Stream;

use super::content::ContentId;
use super::history::{Action, KeyState, NumberedOperation};
use super::versions::{FOLDER, SEPARATOR, has_versions};

/// Smallest part that S3 accepts before the last one, in bytes.
const PART: u64 = 5 << 20;

/// Names of objects with versions of each client; few, so that each has several.
const VERSIONED_NAMES: u64 = 3;

/// Features of a store that the operations use.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// True if the store has tags.
    pub tags: bool,
    /// True if the store has versions.
    pub versions: bool,
}

/// A client's operations, one after the other.
pub struct ClientPlan {
    stream: Stream,
    client: u64,
    /// Number of operations so far.
    drawn: u64,
    /// Number of keys so far.
    keys: u64,
    /// States of the keys that are known.
    states: BTreeMap<String, KeyState>,
    features: Features,
}

impl ClientPlan {
    /// Returns the plan of client `client`.
    pub fn new(seed: u64, client: u64, features: Features) -> ClientPlan {
        let stream = Stream::new(seed, &format!("client {client}"));
        ClientPlan { stream, client, drawn: 0, keys: 0, states: BTreeMap::new(), features }
    }

    /// Draws the next operation. Its number is unique among 64 clients.
    pub fn draw(&mut self) -> NumberedOperation {
        let at = self.drawn * 8;
        self.drawn += 1;
        let id = self.drawn * 64 + self.client;
        let below = |offset: u64, n: u64| self.stream.below(at + offset, n);
        let size = match below(0, 20) {
            0..10 => 8 + below(1, 4 << 10),
            10..16 => below(1, 64 << 10),
            16..19 => below(1, 300 << 10),
            _ => below(1, 2 << 20),
        };
        if self.features.versions && below(6, 7) == 0 {
            return self.draw_with_versions(id, at);
        }
        let existing = self.existing(|key| !has_versions(key));
        let of_existing =
            |offset| existing.get(below(offset, existing.len().max(1) as u64) as usize).copied();
        let (key, action) = match (below(2, 100), of_existing(3)) {
            (50..65, Some(key)) => (Some(key.clone()), Action::Put(size)),
            (65..78, Some(key)) => (Some(key.clone()), Action::Delete),
            (78..84, Some(key)) if self.features.tags => (Some(key.clone()), Action::Tag),
            (84..92, Some(source)) if self.states[source].tag.is_none() => {
                let content = self.states[source].content.unwrap_or(ContentId { operation: 0, size: 0 });
                let target =
                    if below(4, 2) == 0 { None } else { of_existing(5).filter(|to| *to != source).cloned() };
                (target, Action::Copy(source.clone(), content))
            }
            (92..98, _) => (None, Action::Multipart(vec![size.max(1)])),
            (98.., _) => (None, Action::Multipart(vec![PART, size.max(1)])),
            _ => (None, Action::Put(size)),
        };
        let key = key.unwrap_or_else(|| self.new_key());
        let existed = self.states.get(&key).is_some_and(|state| state.content.is_some());
        NumberedOperation { id, key, action, existed }
    }

    /// Returns the keys with objects for which the condition holds.
    fn existing(&self, condition: impl Fn(&str) -> bool) -> Vec<&String> {
        let keys = self.states.iter().filter(|(key, state)| state.content.is_some() && condition(key));
        keys.map(|(key, _)| key).collect()
    }

    /// Draws an operation in the bucket with versions. `at` is the position in the stream.
    fn draw_with_versions(&self, id: u64, at: u64) -> NumberedOperation {
        let below = |offset: u64, n: u64| self.stream.below(at + offset, n);
        let (name, size) = (below(1, VERSIONED_NAMES), 8 + below(0, 4 << 10));
        let of_versions = self.existing(|key| has_versions(key) && key.contains(SEPARATOR));
        let old = of_versions.get(below(3, of_versions.len().max(1) as u64) as usize);
        let client = self.client;
        let plain = format!("{FOLDER}c{client}/k{name}");
        let existed = self.states.get(&plain).is_some_and(|state| state.content.is_some());
        let (key, action, existed) = match (below(2, 10), old) {
            (0..2, Some(old)) => (old.to_string(), Action::DeleteVersion, true),
            (2..4, _) if existed => (plain, Action::Delete, true),
            (4..6, _) => (plain, Action::Put(size), existed),
            _ => (format!("{FOLDER}c{client}/v{name}{SEPARATOR}{id}"), Action::Version(size), false),
        };
        NumberedOperation { id, key, action, existed }
    }

    fn new_key(&mut self) -> String {
        self.keys += 1;
        // A third of the keys lie in directories, and some need escapes.
        match self.keys % 6 {
            0 => format!("c{}/d/e{}/key {}", self.client, self.keys % 4, self.keys),
            1 => format!("c{}/ä+{}", self.client, self.keys),
            _ => format!("c{}/k{}", self.client, self.keys),
        }
    }

    /// Notes the answer to an operation. Without an acknowledgement, its key is not used again.
    pub fn answered(&mut self, operation: &NumberedOperation, is_acknowledged: bool) {
        if is_acknowledged {
            let before = self.states.get(&operation.key).copied().unwrap_or_default();
            self.states.insert(operation.key.clone(), operation.applied(before));
        } else {
            self.states.remove(&operation.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_operations_of_all_kinds() {
        let drawn = || {
            let mut plan = ClientPlan::new(7, 1, Features { tags: true, versions: true });
            let next = |_| {
                let operation = plan.draw();
                plan.answered(&operation, true);
                operation
            };
            (0..400).map(next).collect::<Vec<_>>()
        };
        assert_eq!(drawn(), drawn());
        let mut kinds: Vec<_> = drawn().iter().map(NumberedOperation::kind).collect();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds, super::super::history::OperationKind::ALL);
    }
}
