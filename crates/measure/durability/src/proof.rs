//! The fewest operations that show a violation.

use super::DurabilityError;
use super::cut::Cut;
use super::findings::{Findings, Proof};
use super::moment::{Load, Moment};
use super::script::{ATTEMPTS, Attempt, Script, history_of};
use super::simulated::Simulation;
use super::violation::{Violation, ViolationKind};
use plimsoll_disk::rules::Fate;
use plimsoll_engine::driver::Control;

/// Greatest number of starts of the server that the search for a proof of one kind takes.
const FIND_WITHIN: u32 = 150;
/// Greatest number of starts that shortening the proof takes.
const SHORTEN_WITHIN: u32 = 40;
/// Number of violations of a kind that the search tries, those with the shortest histories.
const EXAMPLES: usize = 3;
/// Number of repetitions of a proof.
const REPEATS: u32 = 3;
/// Number of lost changes that a proof lists, the last ones.
const MAX_LOST: usize = 12;

/// A choice of what a power failure leaves of the changes that are not synced.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    fate: Fate,
    /// Seed of a random fate.
    seed: u64,
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
    /// Executes a script until the power fails, and tries the outcomes. Returns the first one that shows the violation;
    /// `None` after Ctrl-C.
    fn show(&mut self, script: &Script, outcomes: &[Outcome]) -> Result<Option<Shown>, DurabilityError> {
        let Some(Outcome { fate, seed }) = outcomes.first().copied() else { return Ok(None) };
        if self.is_over() {
            return Ok(None);
        }
        let moment = script.moment(fate, seed);
        *self.left = self.left.saturating_sub(1);
        let failed = self.simulation.until_cut(Load::Operations(&script.operations), moment)?;
        if failed.is_interrupted() != script.is_interrupted() {
            return Ok(None);
        }
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

    /// Shortens a script that showed the violation, and repeats it.
    fn repeat(&mut self, script: Script, shown: Shown, cut: u64) -> Result<Option<Proof>, DurabilityError> {
        let outcome = Outcome { fate: shown.moment.fate, seed: shown.moment.seed };
        let mut limit = SHORTEN_WITHIN;
        let mut search = Search { left: &mut limit, ..*self };
        let script = search.shorten(script, outcome)?;
        let mut limit = 2 * REPEATS;
        let mut search = Search { left: &mut limit, ..*self };
        let mut repeated = Vec::new();
        for _ in 0..REPEATS {
            repeated.extend(search.show(&script, &[outcome])?);
        }
        Ok(proof_of(&script, repeated, cut))
    }
}

/// Finds a short proof for each kind of violation, and adds it to the findings. `progress` receives each kind first.
///
/// # Errors
/// As [`Simulation::cut`].
pub fn prove(
    simulation: &Simulation,
    cuts: &[(u64, Cut)],
    control: &Control,
    findings: &mut Findings,
    mut progress: impl FnMut(ViolationKind),
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
        if !examples.is_empty() && control.stopped_at().is_none() {
            progress(kind);
        }
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
            let outcomes = outcomes(simulation, violation, cut, attempt);
            for script in Script::all(&cut.events, &violation.key, attempt) {
                let (key, kind) = (&violation.key, violation.kind);
                let mut search = Search { simulation, key, kind, left: &mut left, control };
                let Some(shown) = search.show(&script, &outcomes)? else { continue };
                if let Some(proof) = search.repeat(script, shown, violation.cut)? {
                    return Ok(Some(proof));
                }
            }
        }
    }
    Ok(None)
}

/// Returns the outcomes that an attempt tries: the two worst fates, the fate of the cut, and random fates.
fn outcomes(simulation: &Simulation, violation: &Violation, cut: &Cut, attempt: Attempt) -> Vec<Outcome> {
    let seed = super::cut_seed(simulation.settings.seed, violation.cut);
    let fates = [Fate::Nothing, Fate::NamesOnly, cut.fate];
    let mut all = fates.map(|fate| Outcome { fate, seed }).to_vec();
    if attempt.interrupts {
        all.push(Outcome { fate: Fate::Everything, seed });
    }
    all.extend((1..=attempt.random).map(|number| Outcome { fate: Fate::Some, seed: seed ^ number }));
    all
}

fn proof_of(script: &Script, mut repeated: Vec<Shown>, cut: u64) -> Option<Proof> {
    let times = repeated.len() as u32;
    let mut last = repeated.pop()?;
    Some(Proof {
        cut,
        violation: Violation { cut, ..last.violation },
        operations: script.operations.iter().map(ToString::to_string).collect(),
        written_back: script.written_back as u64,
        interrupted: script.interrupted.unwrap_or(0),
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
