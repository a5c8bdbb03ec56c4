//! Comparison of the interval log with the schedule, which the experiment and its seed determine: the number of
//! operations of each kind, and the number of arrivals of an open loop.

use std::collections::BTreeMap;

use plimsoll_base::version::VERSION;
use plimsoll_experiment::Experiment;
use plimsoll_experiment::resolve::parse;
use plimsoll_workload::mix::MixCursor;
use plimsoll_workload::schedule::arrival::Arrivals;
use plimsoll_workload::schedule::plan::{PhaseRun, plan};
use plimsoll_workload::schedule::{Load, Phase};

use plimsoll_judge::run_dir::merge::LogTotal;
use plimsoll_judge::run_dir::run::Run;

/// Maximum number of intended times of one phase run that are computed.
const MAX_ARRIVALS: f64 = (1u64 << 28) as f64;

/// Result of the comparison with the schedule.
#[derive(Debug, Default)]
pub struct Scheduled {
    /// Number of operations that were compared with the schedule: one by one, or only their counts by phase and kind.
    pub operations: u64,
    /// True if the operations were compared one by one, because the run recorded them.
    pub one_by_one: bool,
    /// Contradictions, in words.
    pub problems: Vec<String>,
    /// Reason why nothing was compared; `None` if something was.
    pub skipped: Option<String>,
}

/// A phase on one store, with its phase runs in the order of the schedule.
pub(super) struct PhaseOnStore {
    /// URL of the store as the user wrote it, without credentials.
    pub store: String,
    /// Phase of the experiment.
    pub phase: Phase,
    /// Phase runs, with the number of the first operation of each of an open loop; `None` if it depends on the store.
    pub phase_runs: Vec<(PhaseRun, Option<u64>)>,
}

/// Repeat, block and step of a phase run.
pub(super) type Position = (u32, u32, Option<u32>);

/// Number of operations by store, phase, position of the phase run, and name of the kind.
pub(super) type OperationCounts<'a> = BTreeMap<(&'a str, &'a str, Position), BTreeMap<&'a str, u64>>;

/// Returns the position of a phase run.
pub(super) fn position(phase_run: &PhaseRun) -> Position {
    (phase_run.repeat, phase_run.block, phase_run.step)
}

/// Returns the number of operations of each phase run in the log.
pub(super) fn counts(totals: &[LogTotal]) -> OperationCounts<'_> {
    let mut out = OperationCounts::new();
    for total in totals {
        let place = (total.store.as_str(), total.phase.as_str(), (total.repeat, total.block, total.step));
        *out.entry(place).or_default().entry(total.operation.as_str()).or_default() += total.tally.operations;
    }
    out
}

/// Error of a schedule that cannot be compared.
pub(super) enum Unscheduled {
    /// The schedule does not follow from the experiment; the reason in words.
    NotDetermined(String),
    /// The experiment is not one; the contradiction in words.
    Invalid(String),
}

/// Returns the reason why the schedule of a run does not follow from its experiment; `None` if it does.
fn reason(run: &Run) -> Option<&'static str> {
    let result = &run.result;
    let table = run.experiment_table();
    let phases = table.get("phase").and_then(toml::Value::as_array);
    if result.run.imported.is_some() {
        Some("another tool made the run")
    } else if result.run.partial {
        Some("the run did not complete")
    } else if run.environment.shard.is_some() || result.run.shards.len() > 1 {
        Some("several hosts share the schedule")
    } else if !result.places.is_empty() {
        Some("relays share the schedule")
    } else if result.capacity.is_some() || result.until.is_some() {
        Some("it depends on the measured figures")
    } else if !result.sync.is_empty() {
        Some("files were synchronized")
    } else if !result.clients.is_empty() {
        Some("several clients took turns")
    } else if phases.into_iter().flatten().any(|phase| phase.get("trace").is_some()) {
        Some("it follows from logs or files that are not part of the run")
    } else {
        None
    }
}

/// Returns the phases of a run on its stores.
///
/// # Errors
/// See [`Unscheduled`].
pub(super) fn phases_on_stores(run: &Run) -> Result<Vec<PhaseOnStore>, Unscheduled> {
    if let Some(reason) = reason(run) {
        return Err(Unscheduled::NotDetermined(reason.into()));
    }
    let experiment = parse("experiment.toml", &run.experiment, &[]).map_err(|error| {
        match run.result.run.version == VERSION {
            true => Unscheduled::Invalid(error.to_string()),
            false => Unscheduled::NotDetermined(error.to_string()),
        }
    })?;
    let stores = match run.result.run.stores.as_slice() {
        [] => run.result.stores().into_iter().map(str::to_string).collect(),
        listed => listed.to_vec(),
    };
    Ok(numbered(&experiment, &stores))
}

/// Divides an experiment into phase runs and numbers the operations of its open loops.
pub(super) fn numbered(experiment: &Experiment, stores: &[String]) -> Vec<PhaseOnStore> {
    let planned = plan(&experiment.phases, experiment.layout(), stores.len());
    let mut out = Vec::new();
    for (at, store) in stores.iter().enumerate() {
        for (number, phase) in experiment.phases.iter().enumerate() {
            let mut first = Some(0);
            let own = planned.iter().filter(|p| p.store == at && p.number == number);
            let with_first = |phase_run: &PhaseRun| {
                let begins = first;
                let known = first.filter(|_| !phase_run.may_end_early());
                first = known.and_then(|first| Some(first + arrivals(&phase_run.phase, first)?));
                (phase_run.clone(), begins.filter(|_| first.is_some()))
            };
            let phase_runs = own.map(with_first).collect();
            out.push(PhaseOnStore { store: store.clone(), phase: phase.clone(), phase_runs });
        }
    }
    out
}

/// Returns the number of arrivals of an open loop that begins with operation `first`; `None` for a closed loop, and if
/// there are too many to compute.
fn arrivals(phase: &Phase, first: u64) -> Option<u64> {
    let Load::Open { rate_per_s, .. } = phase.load else { return None };
    let length = phase.limit.duration_ns.unwrap_or(u64::MAX);
    let limit = phase.limit.operations.unwrap_or(u64::MAX);
    let expected = (rate_per_s * length as f64 / 1e9).min(limit as f64);
    if expected > MAX_ARRIVALS {
        return None;
    }
    let times = Arrivals::of(phase, first)?;
    Some(times.take(limit as usize).take_while(|at| *at < length).count() as u64)
}

impl PhaseOnStore {
    /// Compares the counts of the log with the schedule. Returns the number of operations that agree.
    fn compare(&self, counts: &OperationCounts<'_>, problems: &mut Vec<String>) -> u64 {
        let mut cursor = self.phase.workload.kinds();
        let none = BTreeMap::new();
        let of = |phase_run: &PhaseRun| {
            counts.get(&(self.store.as_str(), self.phase.name.as_str(), position(phase_run))).unwrap_or(&none)
        };
        if self.phase.load.is_open() {
            let mut sum = 0;
            for (phase_run, first) in self.phase_runs.iter().filter(|(phase_run, _)| phase_run.recorded) {
                let Some((first, count)) =
                    first.and_then(|first| Some((first, arrivals(&phase_run.phase, first)?)))
                else {
                    continue;
                };
                sum += self.agreed(of(phase_run), first..first + count, &mut cursor, problems);
            }
            return sum;
        }
        if self.phase_runs.iter().any(|(phase_run, _)| !phase_run.recorded || phase_run.may_end_early()) {
            // The number of operations of an unrecorded phase run is not known.
            return 0;
        }
        let mut total: BTreeMap<&str, u64> = BTreeMap::new();
        for (phase_run, _) in &self.phase_runs {
            for (kind, count) in of(phase_run) {
                *total.entry(kind).or_default() += count;
            }
        }
        let limits: Option<u64> = self.phase_runs.iter().map(|(p, _)| limited_only(&p.phase)).sum();
        let done = total.values().sum();
        let count = limits.unwrap_or(done);
        self.agreed(&total, 0..count, &mut cursor, problems)
    }

    /// Compares the counts by kind in the log with the counts in a range of operation numbers. Returns the length of
    /// the range if they are equal, and 0 if not.
    fn agreed(
        &self,
        stated: &BTreeMap<&str, u64>,
        numbers: std::ops::Range<u64>,
        cursor: &mut MixCursor,
        problems: &mut Vec<String>,
    ) -> u64 {
        let before = problems.len();
        for (kind, _) in self.phase.workload.mix.shares() {
            let scheduled = cursor.before(numbers.end, *kind) - cursor.before(numbers.start, *kind);
            let logged = stated.get(kind.name()).copied().unwrap_or(0);
            if logged != scheduled {
                problems.push(format!(
                    "phase '{}' on {}: the log has {logged} {} operations, and the schedule of seed {} has {scheduled}",
                    self.phase.name, self.store, kind.name(), self.phase.workload.seed
                ));
            }
        }
        if problems.len() == before { numbers.end - numbers.start } else { 0 }
    }
}

/// Returns the number of operations of a phase that is limited by this number alone; `None` for other limits.
fn limited_only(phase: &Phase) -> Option<u64> {
    phase.limit.operations.filter(|_| phase.limit.duration_ns.is_none())
}

/// Compares the totals of the interval log with the schedule.
pub(super) fn check(phases: &[PhaseOnStore], counts: &OperationCounts<'_>) -> Scheduled {
    let mut out = Scheduled::default();
    let planned = |store: &str, name: &str, at: Position| {
        let is = |phase: &&PhaseOnStore| phase.store == store && phase.phase.name == name;
        phases.iter().filter(is).flat_map(|phase| &phase.phase_runs).any(|(p, _)| position(p) == at)
    };
    for (store, phase, at) in counts.keys() {
        if !planned(store, phase, *at) {
            out.problems
                .push(format!("the log has a phase '{phase}' on {store} that is not in the schedule"));
        }
    }
    if out.problems.is_empty() {
        for phase in phases {
            out.operations += phase.compare(counts, &mut out.problems);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPERIMENT: &str = "name = 'e'\nseed = 5\nrepeats = 2\norder = 'interleaved'\nblock = '1s'\nrewarm = '1s'\n\
        [[phase]]\nname = 'objects'\nrole = 'prepare'\noperations = { put = 1 }\n\
        objects = { count = 50, size = '1 KiB' }\n\
        [[phase]]\nname = 'open'\noperations = { get = 3, put = 1 }\nobjects = { from = 'objects' }\n\
        rate = '100/s'\narrival = 'poisson'\nduration = '4s'\n\
        [[phase]]\nname = 'closed'\noperations = { get = 3, head = 2 }\nobjects = { from = 'objects' }\n\
        duration = '2s'\n";

    fn phases(stores: &[&str]) -> Vec<PhaseOnStore> {
        let stores: Vec<String> = stores.iter().map(ToString::to_string).collect();
        numbered(&parse("", EXPERIMENT, &[]).unwrap(), &stores)
    }

    /// Returns the counts of a run with this schedule, in which each closed loop does `closed` operations.
    fn counts_of(phases: &[PhaseOnStore], closed: u64) -> OperationCounts<'_> {
        let mut out = OperationCounts::new();
        for PhaseOnStore { store, phase, phase_runs } in phases {
            let mut cursor = phase.workload.kinds();
            let mut next = 0;
            for (phase_run, _) in phase_runs {
                let count = arrivals(&phase_run.phase, next);
                let count = count.unwrap_or(phase.limit.operations.unwrap_or(closed));
                let numbers = next..next + count;
                next = numbers.end;
                if !phase_run.recorded {
                    continue;
                }
                let kinds =
                    out.entry((store.as_str(), phase.name.as_str(), position(phase_run))).or_default();
                for number in numbers {
                    *kinds.entry(cursor.at(number).0.name()).or_insert(0) += 1;
                }
            }
        }
        out
    }

    #[test]
    fn counts_follow_from_the_seed_on_one_store_and_on_several() {
        let one = phases(&["s3://a"]);
        let counts = counts_of(&one, 123);
        let found = check(&one, &counts);
        assert_eq!(
            (found.problems, found.operations),
            (Vec::new(), counts.values().flat_map(BTreeMap::values).sum())
        );
        let two = phases(&["s3://a", "s3://b"]);
        let counts = counts_of(&two, 123);
        let found = check(&two, &counts);
        // The closed loop also runs while a store warms up again, unrecorded.
        let known = |(key, kinds): (&(&str, &str, Position), &BTreeMap<&str, u64>)| match key.1 {
            "closed" => 0,
            _ => kinds.values().sum(),
        };
        assert_eq!((found.problems, found.operations), (Vec::new(), counts.iter().map(known).sum()));
    }

    #[test]
    fn another_count_of_each_phase_is_found() {
        let phases = phases(&["s3://a"]);
        let whole = counts_of(&phases, 124);
        for (key, kinds) in &whole {
            for kind in kinds.keys() {
                let mut changed = whole.clone();
                // A closed loop may do more operations, but five more of one kind are not in the schedule.
                *changed.get_mut(key).unwrap().get_mut(kind).unwrap() += 5;
                let problems = check(&phases, &changed).problems;
                let named = |problem: &String| problem.contains(&format!("phase '{}' on s3://a", key.1));
                assert!(!problems.is_empty() && problems.iter().all(named), "{key:?} {kind}: {problems:?}");
            }
        }
        let mut more = whole;
        more.insert(("s3://a", "open", (2, 0, None)), BTreeMap::from([("get", 1)]));
        assert!(check(&phases, &more).problems[0].contains("is not in the schedule"));
    }
}
