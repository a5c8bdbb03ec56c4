//! Decides whether the history of a key is linearizable.
//!
//! A history is linearizable if each operation can be given one instant between its start and its end so that the
//! answers are those of a single object that executes the operations in that order (Herlihy and Wing, 1990). The
//! search is just-in-time linearization (Lowe, "Testing for linearizability", 2017): it goes through starts and ends in
//! order, keeps all configurations that explain the answers so far, and orders an operation only when its end forces
//! it to.

use std::collections::BTreeSet;

use super::history::{Answer, RecordedRequest, Value};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A valid order exists.
    Linearizable,
    /// No valid order exists. The operation with this index is the first whose answer cannot be explained.
    Violation(usize),
    /// The search needed too many steps.
    Undecided,
}

/// State of the object, and the pending operations that have taken effect, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Configuration {
    state: Option<Value>,
    effective: u64,
}

/// Maximum number of configurations that one check visits. A check of four clients visits a few per operation.
const MAX_STEPS: u64 = 4_000_000;

/// Operations that have started and not ended, each with its bit.
#[derive(Default)]
struct Pending {
    slots: Vec<Option<usize>>,
}

impl Pending {
    /// Adds an operation; returns false if all 64 bits are in use.
    fn add(&mut self, operation: usize) -> bool {
        match self.slots.iter().position(Option::is_none) {
            Some(free) => self.slots[free] = Some(operation),
            None => self.slots.push(Some(operation)),
        }
        self.slots.len() <= 64
    }

    /// Returns the bits and the operations that are pending.
    fn iter(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.slots.iter().enumerate().filter_map(|(bit, slot)| Some((1 << bit, (*slot)?)))
    }

    /// Removes an operation and returns its bit.
    fn remove(&mut self, operation: usize) -> u64 {
        let bit =
            self.slots.iter().position(|slot| *slot == Some(operation)).expect("the operation is pending");
        self.slots[bit] = None;
        1 << bit
    }
}

/// Returns the starts and ends of a history in order of time, as `(time, is an end, operation)`. At equal times, starts
/// come first, so that operations that may overlap do.
fn events(history: &[RecordedRequest]) -> Vec<(u64, bool, usize)> {
    let mut events = Vec::with_capacity(2 * history.len());
    for (index, operation) in history.iter().enumerate() {
        events.push((operation.start_ns, false, index));
        if operation.end_ns != u64::MAX {
            events.push((operation.end_ns, true, index));
        }
    }
    events.sort_unstable();
    events
}

/// Lets every pending observer that fits the state take effect, which excludes no later order.
fn settle(history: &[RecordedRequest], pending: &Pending, mut configuration: Configuration) -> Configuration {
    for (bit, index) in pending.iter() {
        let operation = &history[index];
        if operation.is_observer() && operation.apply(configuration.state).is_some() {
            configuration.effective |= bit;
        }
    }
    configuration
}

/// Checks the history of a key that does not exist at first. The order of the operations in `history` is irrelevant.
pub fn check(history: &[RecordedRequest]) -> Verdict {
    explore(history).map_or_else(|verdict| verdict, |_| Verdict::Linearizable)
}

/// Returns the only possible state after a history in which every operation has an answer; `None` if several states are
/// possible, or none.
pub fn final_state(history: &[RecordedRequest]) -> Option<Option<Value>> {
    let states: BTreeSet<Option<Value>> = explore(history).ok()?.into_iter().map(|c| c.state).collect();
    states.first().copied().filter(|_| states.len() == 1)
}

/// Returns the configurations that explain all answers of a history.
///
/// # Errors
/// Returns the verdict if there is none.
fn explore(history: &[RecordedRequest]) -> Result<BTreeSet<Configuration>, Verdict> {
    let mut pending = Pending::default();
    let mut configurations = BTreeSet::from([Configuration { state: None, effective: 0 }]);
    let mut steps = 0;
    for (_, ends, index) in events(history) {
        if !ends {
            // A request without an answer may have been sent twice, because its connection broke. One that ended may
            // have had no effect.
            let unknown = history[index].answer == Answer::Unknown;
            let effects = if unknown && history[index].end_ns == u64::MAX { 2 } else { 1 };
            if !(0..effects).all(|_| pending.add(index)) {
                return Err(Verdict::Undecided);
            }
            continue;
        }
        let bit = pending.iter().find(|(_, operation)| *operation == index).map_or(0, |(bit, _)| bit);
        let mut next = BTreeSet::new();
        let mut visited = BTreeSet::new();
        let mut stack: Vec<Configuration> = configurations.into_iter().collect();
        while let Some(configuration) = stack.pop() {
            let configuration = settle(history, &pending, configuration);
            if configuration.effective & bit != 0 {
                next.insert(Configuration { effective: configuration.effective & !bit, ..configuration });
                continue;
            }
            if history[index].answer == Answer::Unknown {
                next.insert(configuration);
            }
            steps += 1;
            if steps > MAX_STEPS {
                return Err(Verdict::Undecided);
            }
            if !visited.insert(configuration) {
                continue;
            }
            for (other, operation) in pending.iter().filter(|(other, _)| configuration.effective & other == 0)
            {
                if let Some(state) = history[operation].apply(configuration.state) {
                    stack.push(Configuration { state, effective: configuration.effective | other });
                }
            }
        }
        pending.remove(index);
        if next.is_empty() {
            return Err(Verdict::Violation(index));
        }
        configurations = next;
    }
    Ok(configurations)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::history::Action;
    use plimsoll_base::rng::Stream;

    /// Returns an operation; `action` and `answer` as in the type, times in nanoseconds.
    pub fn operation(
        client: u32,
        action: Action,
        answer: Answer,
        start_ns: u64,
        end_ns: u64,
    ) -> RecordedRequest {
        RecordedRequest { client, action, answer, start_ns, end_ns }
    }

    pub fn value(number: u64) -> Value {
        Value::new(number).unwrap()
    }

    /// Returns true if some order of the operations is valid, found by trying all of them. Operations without an answer
    /// may occur twice in the order, or not at all.
    fn exhaustive(history: &[RecordedRequest]) -> bool {
        let unknown = history.iter().filter(|operation| operation.answer == Answer::Unknown);
        let twice: Vec<RecordedRequest> = history.iter().chain(unknown).copied().collect();
        any_order(&twice, 0, None)
    }

    fn any_order(history: &[RecordedRequest], done: u32, state: Option<Value>) -> bool {
        let open = |i: usize| done & (1 << i) == 0;
        if (0..history.len()).all(|i| !open(i) || history[i].answer == Answer::Unknown) {
            return true;
        }
        // The next operation must have started before every other open operation ended.
        let first_end = (0..history.len()).filter(|i| open(*i)).map(|i| history[i].end_ns).min().unwrap();
        (0..history.len())
            .filter(|i| open(*i) && history[*i].start_ns <= first_end)
            .any(|i| history[i].apply(state).is_some_and(|after| any_order(history, done | 1 << i, after)))
    }

    /// Returns a random history of `n` operations of three clients. Most answers are those of a single object whose
    /// operations take effect at a random instant, some are wrong.
    fn random_history(draws: &Stream, n: usize) -> Vec<RecordedRequest> {
        let mut at = 0;
        let mut draw = |below: u64| {
            at += 1;
            draws.below(at, below)
        };
        let mut history: Vec<(u64, RecordedRequest)> = (0..n)
            .map(|i| {
                let start = draw(60);
                let end = start + 1 + draw(25);
                let action = match draw(8) {
                    0 | 1 => Action::Put(value(i as u64 + 1)),
                    2 => Action::PutIfAbsent(value(i as u64 + 1)),
                    3 => Action::PutIfUnchanged(value(1 + draw(n as u64)), value(i as u64 + 1)),
                    4 => Action::Delete,
                    5 => Action::List,
                    _ => Action::Get,
                };
                let instant = start + draw(end - start + 1);
                (instant, operation((i % 3) as u32, action, Answer::Done, start, end))
            })
            .collect();
        history.sort_by_key(|(instant, _)| *instant);
        let mut state = None;
        for (_, operation) in &mut history {
            operation.answer = match operation.action {
                Action::Get | Action::List => Answer::Saw(state),
                Action::PutIfAbsent(_) if state.is_some() => Answer::Refused,
                Action::PutIfUnchanged(expected, _) if state != Some(expected) => Answer::Refused,
                _ => Answer::Done,
            };
            state = operation.apply(state).expect("the answer is that of the object");
            match draw(14) {
                0 if operation.action == Action::Get => {
                    operation.answer = Answer::Saw(Value::new(draw(n as u64)));
                }
                1 if operation.action.is_conditional() => operation.answer = Answer::Refused,
                2 if operation.action.written().is_some() => {
                    (operation.answer, operation.end_ns) = (Answer::Unknown, u64::MAX);
                }
                _ => {}
            }
        }
        history.into_iter().map(|(_, operation)| operation).collect()
    }

    #[test]
    fn the_search_agrees_with_all_orders_of_20000_random_histories() {
        let (mut valid, mut invalid) = (0, 0);
        for seed in 0..20_000 {
            let draws = Stream::new(seed, "history");
            let history = random_history(&draws, 4 + (seed % 6) as usize);
            let expected = exhaustive(&history);
            match check(&history) {
                Verdict::Linearizable => assert!(expected, "seed {seed}: {history:#?}"),
                Verdict::Violation(_) => assert!(!expected, "seed {seed}: {history:#?}"),
                Verdict::Undecided => panic!("seed {seed}: undecided"),
            }
            *if expected { &mut valid } else { &mut invalid } += 1;
        }
        assert!(valid > 5_000 && invalid > 2_000, "{valid} valid, {invalid} invalid");
    }

    #[test]
    fn a_read_during_a_write_may_see_either_value_but_not_both_in_turn() {
        let (old, new) = (value(1), value(2));
        let writes = [
            operation(0, Action::Put(old), Answer::Done, 0, 10),
            operation(0, Action::Put(new), Answer::Done, 20, 60),
        ];
        let read = |seen, start, end| operation(1, Action::Get, Answer::Saw(Some(seen)), start, end);
        for seen in [old, new] {
            assert_eq!(check(&[writes[0], writes[1], read(seen, 30, 40)]), Verdict::Linearizable);
        }
        let history = [writes[0], writes[1], read(new, 30, 40), read(old, 45, 50)];
        assert_eq!(check(&history), Verdict::Violation(3));
        assert_eq!(check(&[writes[0], writes[1], read(old, 61, 70)]), Verdict::Violation(2));
    }

    #[test]
    fn of_two_conditional_writes_only_one_can_succeed() {
        let created = |client, number| {
            operation(client, Action::PutIfAbsent(value(number)), Answer::Done, 0, 10 + u64::from(client))
        };
        assert_eq!(check(&[created(0, 1), created(1, 2)]), Verdict::Violation(1));
        let deleted = operation(2, Action::Delete, Answer::Done, 5, 8);
        assert_eq!(check(&[created(0, 1), created(1, 2), deleted]), Verdict::Linearizable);
    }

    #[test]
    fn a_write_without_an_answer_may_take_effect_at_any_later_time_or_never() {
        let (old, new) = (value(1), value(2));
        let put = operation(0, Action::Put(old), Answer::Done, 0, 10);
        let unknown = operation(1, Action::Put(new), Answer::Unknown, 5, u64::MAX);
        let read = |seen, start| operation(2, Action::Get, Answer::Saw(Some(seen)), start, start + 5);
        assert_eq!(check(&[put, unknown, read(old, 50), read(old, 100)]), Verdict::Linearizable);
        assert_eq!(check(&[put, unknown, read(old, 50), read(new, 100)]), Verdict::Linearizable);
        assert_eq!(check(&[put, unknown, read(new, 50), read(old, 100)]), Verdict::Violation(3));
    }

    /// Regression test: a write that was sent again after its connection broke took effect twice, which was reported as
    /// a violation.
    #[test]
    fn a_write_without_an_answer_may_take_effect_twice() {
        let (old, new) = (value(1), value(2));
        let unknown = operation(0, Action::Put(old), Answer::Unknown, 0, u64::MAX);
        let put = operation(1, Action::Put(new), Answer::Done, 20, 30);
        let read = |seen, start| operation(2, Action::Get, Answer::Saw(Some(seen)), start, start + 5);
        let twice = [unknown, read(old, 10), put, read(new, 40), read(old, 50)];
        assert_eq!(check(&twice), Verdict::Linearizable);
        let again = operation(3, Action::Put(value(3)), Answer::Done, 60, 70);
        assert_eq!(check(&[&twice[..], &[again, read(old, 80)]].concat()), Verdict::Violation(6));
    }
}
