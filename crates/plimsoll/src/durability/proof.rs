//! The fewest operations that show a violation.

use super::DurabilityError;
use super::findings::{Findings, Proof, Violation, ViolationKind};
use super::history::{Action, Event, Operation};
use super::moment::{Load, Moment};
use super::simulated::{Cut, Simulation};
use plimsoll_disk::rules::Fate;
use plimsoll_engine::driver::Control;

/// Greatest number of cuts that the search for one proof executes.
const BUDGET: u32 = 40;
/// Number of repetitions of a proof.
const REPEATS: u32 = 3;
/// Number of lost changes that a proof lists, the last ones.
const MAX_LOST: usize = 12;

/// Returns the acknowledged operations on `key` before the cut, with those on the sources of its copies.
fn history_of(events: &[Event], key: &str) -> Vec<Operation> {
    let mut keys = vec![key.to_string()];
    let mut found = Vec::new();
    for event in events.iter().rev().filter(|event| event.acknowledged_ns.is_some()) {
        let operation = &event.operation;
        if keys.contains(&operation.key) {
            if let Action::Copy(from, _) = &operation.action {
                keys.push(from.clone());
            }
            found.push(operation.clone());
        }
    }
    found.reverse();
    // The power fails after the last operation on the key itself.
    while found.last().is_some_and(|operation| operation.key != key) {
        found.pop();
    }
    found
}

/// A search for the shortest proof of one violation.
struct Search<'a> {
    simulation: &'a Simulation,
    key: &'a str,
    kind: ViolationKind,
    seed: u64,
    left: u32,
    control: &'a Control,
}

impl Search<'_> {
    /// Executes operations and cuts the power right after the last one. Returns the cut if it shows the violation;
    /// after Ctrl-C, executes nothing.
    fn show(
        &mut self,
        operations: &[Operation],
        fate: Fate,
    ) -> Result<Option<(Cut, Violation)>, DurabilityError> {
        if self.control.stopped_at().is_some() {
            return Ok(None);
        }
        self.left = self.left.saturating_sub(1);
        let moment = Moment { at: operations.len() as u64, steps: 0, fate, seed: self.seed, again: None };
        let cut = self.simulation.cut(Load::Operations(operations), moment)?;
        let shown = cut.audit.as_ref().ok().and_then(|audit| {
            audit
                .violations
                .iter()
                .find(|violation| violation.key == self.key && violation.kind == self.kind)
                .cloned()
        });
        Ok(shown.map(|violation| (cut, violation)))
    }

    /// Removes operations as long as the rest shows the violation.
    fn shorten(
        &mut self,
        mut operations: Vec<Operation>,
        fate: Fate,
    ) -> Result<Vec<Operation>, DurabilityError> {
        let mut at = 0;
        while at + 1 < operations.len() && self.left > REPEATS {
            let mut fewer = operations.clone();
            fewer.remove(at);
            match self.show(&fewer, fate)? {
                Some(_) => operations = fewer,
                None => at += 1,
            }
        }
        Ok(operations)
    }
}

/// Finds the shortest proof for the first violation of each kind, and adds it to the findings.
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
        let examples = findings.violations.iter().filter(|violation| violation.kind == kind);
        let examples: Vec<Violation> = examples.take(3).cloned().collect();
        for violation in examples {
            if control.stopped_at().is_some() {
                return Ok(());
            }
            let Some((number, cut)) = cuts.iter().find(|(number, _)| *number == violation.cut) else {
                continue;
            };
            if let Some(proof) = prove_one(simulation, *number, cut, &violation, control)? {
                findings.proofs.push(proof);
                break;
            }
        }
    }
    Ok(())
}

fn prove_one(
    simulation: &Simulation,
    number: u64,
    cut: &Cut,
    violation: &Violation,
    control: &Control,
) -> Result<Option<Proof>, DurabilityError> {
    let seed = super::cut_seed(simulation.settings.seed, number);
    let mut search =
        Search { simulation, key: &violation.key, kind: violation.kind, seed, left: BUDGET, control };
    let operations = history_of(&cut.events, &violation.key);
    for fate in [Fate::Nothing, Fate::NamesOnly, cut.fate] {
        if search.show(&operations, fate)?.is_none() {
            continue;
        }
        let operations = search.shorten(operations.clone(), fate)?;
        let mut shown = Vec::new();
        for _ in 0..REPEATS {
            shown.extend(search.show(&operations, fate)?);
        }
        let times = shown.len() as u32;
        let Some((mut last, violation)) = shown.pop() else { continue };
        return Ok(Some(Proof {
            cut: number,
            violation: Violation { cut: number, ..violation },
            operations: operations.iter().map(Operation::to_string).collect(),
            fate: describe_fate(fate).into(),
            lost: last.lost.split_off(last.lost.len().saturating_sub(MAX_LOST)),
            repeated: (times, REPEATS),
        }));
    }
    Ok(None)
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

    #[test]
    fn the_history_of_a_key_has_the_sources_of_its_copies() {
        use super::super::content::ContentId;
        let event = |id: u64, key: &str, action: Action| Event {
            operation: Operation { id, key: key.into(), action, existed: false },
            acknowledged_ns: Some(id),
        };
        let source = ContentId { operation: 1, size: 8 };
        let events = [
            event(1, "a", Action::Put(8)),
            event(2, "x", Action::Put(8)),
            event(3, "b", Action::Copy("a".into(), source)),
            event(4, "a", Action::Delete),
        ];
        let ids = |key: &str| history_of(&events, key).iter().map(|o| o.id).collect::<Vec<_>>();
        assert_eq!(ids("b"), [1, 3]);
        assert_eq!(ids("a"), [1, 4]);
    }
}
