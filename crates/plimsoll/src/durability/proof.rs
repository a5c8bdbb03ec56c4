//! The fewest operations that show a violation.

use super::DurabilityError;
use super::cut::Cut;
use super::findings::{Findings, Proof, Violation, ViolationKind};
use super::history::{Action, Event, Operation};
use super::moment::{Load, Moment};
use super::simulated::Simulation;
use plimsoll_disk::rules::Fate;
use plimsoll_engine::driver::Control;

/// Greatest number of starts of the server that the search for a proof of one kind takes.
const FIND_WITHIN: u32 = 80;
/// Greatest number of starts that shortening the proof takes.
const SHORTEN_WITHIN: u32 = 40;
/// Number of violations of a kind that the search tries, those with the shortest histories.
const EXAMPLES: usize = 3;
/// Number of repetitions of a proof.
const REPEATS: u32 = 3;
/// Number of lost changes that a proof lists, the last ones.
const MAX_LOST: usize = 12;

/// A way to repeat a violation with few operations.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// True if the disk writes everything back before the last operation on the key.
    writes_back: bool,
    /// Number of operations on other keys that follow.
    following: usize,
    /// Number of random fates of what is not synced, besides the fate of the cut and the two worst ones.
    random: u64,
}

/// The attempts, in order: the shorter ones first.
const ATTEMPTS: [Attempt; 6] = [
    Attempt { writes_back: false, following: 0, random: 0 },
    Attempt { writes_back: true, following: 0, random: 0 },
    Attempt { writes_back: false, following: 3, random: 0 },
    Attempt { writes_back: true, following: 3, random: 0 },
    Attempt { writes_back: false, following: 1, random: 3 },
    Attempt { writes_back: true, following: 1, random: 3 },
];

/// A choice of what a power failure leaves of the changes that are not synced.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    fate: Fate,
    /// Seed of a random fate.
    seed: u64,
}

/// Operations of a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Script {
    operations: Vec<Operation>,
    /// Number of the first operations that the disk has written back before the next one; 0 for none.
    written_back: usize,
}

impl Script {
    /// Returns the operations that the attempt repeats: those on `key` that were acknowledged, those on the sources of
    /// its copies, and some of those that followed. `None` if there is nothing to write back.
    fn of(events: &[Event], key: &str, attempt: Attempt) -> Option<Script> {
        let (mut operations, last) = history_of(events, key);
        let written_back = if attempt.writes_back { operations.len().saturating_sub(1) } else { 0 };
        if attempt.writes_back && written_back == 0 {
            return None;
        }
        let later = events.get(last + 1..).unwrap_or_default();
        let following = later.iter().filter(|event| event.acknowledged_ns.is_some());
        operations.extend(following.take(attempt.following).map(|event| event.operation.clone()));
        Some(Script { operations, written_back })
    }

    /// Returns the script without one of its operations.
    fn without(&self, at: usize) -> Script {
        let mut fewer = self.clone();
        fewer.operations.remove(at);
        fewer.written_back -= usize::from(at < self.written_back);
        fewer
    }
}

/// Returns the acknowledged operations on `key` with those on the sources of its copies, and the position of the last
/// one among the events.
fn history_of(events: &[Event], key: &str) -> (Vec<Operation>, usize) {
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

/// A violation that a search repeated.
struct Shown {
    violation: Violation,
    /// Moment at which the power failed.
    moment: Moment,
    /// Changes that were not synced and got lost.
    lost: Vec<String>,
}

/// A search for the shortest proof of a violation.
struct Search<'a> {
    simulation: &'a Simulation,
    key: &'a str,
    kind: ViolationKind,
    /// Number of starts of the server that are left.
    left: &'a mut u32,
    control: &'a Control,
}

impl Search<'_> {
    /// Executes a script, cuts the power right after the last operation, and tries the outcomes. Returns the first one
    /// that shows the violation; `None` after Ctrl-C.
    fn show(&mut self, script: &Script, outcomes: &[Outcome]) -> Result<Option<Shown>, DurabilityError> {
        let Some(Outcome { fate, seed }) = outcomes.first().copied() else { return Ok(None) };
        if self.is_over() {
            return Ok(None);
        }
        let at = script.operations.len() as u64;
        let written_back = Some(script.written_back as u64);
        let moment = Moment { at, steps: 0, fate, seed, again: None, written_back };
        *self.left = self.left.saturating_sub(1);
        let failed = self.simulation.until_cut(Load::Operations(&script.operations), moment)?;
        for Outcome { fate, seed } in outcomes.iter().copied() {
            if self.is_over() {
                break;
            }
            *self.left = self.left.saturating_sub(1);
            let moment = Moment { fate, seed, ..moment };
            let cut = self.simulation.after_cut(&failed, moment)?;
            let is_shown = |found: &&Violation| found.key == self.key && found.kind == self.kind;
            let violations = cut.audit.as_ref().map_or(&[][..], |audit| &audit.violations);
            if let Some(violation) = violations.iter().find(is_shown) {
                let lost = failed.describe_lost(&cut);
                return Ok(Some(Shown { violation: violation.clone(), moment, lost }));
            }
        }
        Ok(None)
    }

    fn is_over(&self) -> bool {
        *self.left == 0 || self.control.stopped_at().is_some()
    }

    /// Removes operations as long as the rest shows the violation.
    fn shorten(&mut self, mut script: Script, outcome: Outcome) -> Result<Script, DurabilityError> {
        let mut at = 0;
        while at < script.operations.len() && script.operations.len() > 1 {
            let fewer = script.without(at);
            match self.show(&fewer, &[outcome])? {
                Some(_) => script = fewer,
                None => at += 1,
            }
        }
        Ok(script)
    }
}

/// Finds a short proof for each kind of violation, and adds it to the findings.
///
/// # Errors
/// As [`Simulation::cut`].
pub fn prove(
    simulation: &Simulation,
    cuts: &[(u64, Cut)],
    control: &Control,
    findings: &mut Findings,
) -> Result<(), DurabilityError> {
    for kind in ViolationKind::ALL {
        let of_kind = findings.violations.iter().filter(|violation| violation.kind == kind);
        let with_cuts = of_kind.filter_map(|violation| {
            let (_, cut) = cuts.iter().find(|(number, _)| *number == violation.cut)?;
            Some((violation.clone(), cut))
        });
        let mut examples: Vec<(Violation, &Cut)> = with_cuts.collect();
        examples.sort_by_key(|(violation, cut)| history_of(&cut.events, &violation.key).0.len());
        examples.truncate(EXAMPLES);
        if let Some(proof) = prove_one(simulation, &examples, control)? {
            findings.proofs.push(proof);
        }
    }
    Ok(())
}

/// Returns a proof of one of the examples, which are violations of the same kind.
fn prove_one(
    simulation: &Simulation,
    examples: &[(Violation, &Cut)],
    control: &Control,
) -> Result<Option<Proof>, DurabilityError> {
    let mut left = FIND_WITHIN;
    for attempt in ATTEMPTS {
        for (violation, cut) in examples {
            let Some(script) = Script::of(&cut.events, &violation.key, attempt) else { continue };
            let seed = super::cut_seed(simulation.settings.seed, violation.cut);
            let fates = [Fate::Nothing, Fate::NamesOnly, cut.fate];
            let mut outcomes = fates.map(|fate| Outcome { fate, seed }).to_vec();
            let random = (1..=attempt.random).map(|number| Outcome { fate: Fate::Some, seed: seed ^ number });
            outcomes.extend(random);
            let (key, kind) = (&violation.key, violation.kind);
            let mut search = Search { simulation, key, kind, left: &mut left, control };
            let Some(shown) = search.show(&script, &outcomes)? else { continue };
            let outcome = Outcome { fate: shown.moment.fate, seed: shown.moment.seed };
            let mut left = SHORTEN_WITHIN;
            let mut search = Search { left: &mut left, ..search };
            let script = search.shorten(script, outcome)?;
            let mut left = 2 * REPEATS;
            let mut search = Search { left: &mut left, ..search };
            let mut repeated = Vec::new();
            for _ in 0..REPEATS {
                repeated.extend(search.show(&script, &[outcome])?);
            }
            if let Some(proof) = proof_of(&script, repeated, violation.cut) {
                return Ok(Some(proof));
            }
        }
    }
    Ok(None)
}

fn proof_of(script: &Script, mut repeated: Vec<Shown>, cut: u64) -> Option<Proof> {
    let times = repeated.len() as u32;
    let mut last = repeated.pop()?;
    Some(Proof {
        cut,
        violation: Violation { cut, ..last.violation },
        operations: script.operations.iter().map(Operation::to_string).collect(),
        written_back: script.written_back as u64,
        fate: describe_fate(last.moment.fate).into(),
        lost: last.lost.split_off(last.lost.len().saturating_sub(MAX_LOST)),
        repeated: (times, REPEATS),
    })
}

/// Describes the fate of what was not synced.
fn describe_fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Nothing => "nothing that was not synced is on the disk",
        Fate::NamesOnly => "names and sizes are on the disk, data that was not synced is not",
        Fate::Some => "some of what was not synced is on the disk",
        Fate::Everything => "everything is on the disk, as after the end of the process",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, key: &str, action: Action) -> Event {
        Event {
            operation: Operation { id, key: key.into(), action, existed: false },
            acknowledged_ns: Some(id),
        }
    }

    fn ids(operations: &[Operation]) -> Vec<u64> {
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
        let attempt = Attempt { writes_back: true, following: 3, random: 0 };
        let script = Script::of(&events, "a", attempt).unwrap();
        assert_eq!((ids(&script.operations), script.written_back), (vec![1, 3, 5], 1));
        assert_eq!(
            script.without(0),
            Script { operations: script.operations[1..].to_vec(), written_back: 0 }
        );
        assert_eq!(script.without(2).written_back, 1);
        assert_eq!(Script::of(&events, "x", attempt), None);
    }
}
