//! Recommends a store from measured performance, objectives and the bill of a workload. [`sensitivity`] computes
//! which change of an assumption changes the recommendation. All functions are pure.

pub mod candidates;
pub mod latencies;
pub mod log_usage;
pub mod metered;
pub mod projection;
pub mod sensitivity;
pub mod sizes;

use serde::Serialize;

use plimsoll_cost::bill::{Bill, total};
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::Tariff;
use plimsoll_cost::usage::Usage;
use plimsoll_judge::summary::failures::Failures;
use plimsoll_judge::summary::objective::Finding;
use plimsoll_judge::summary::objective_result::ObjectiveResult;

/// Origin of the performance figures of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Measured at the provider itself.
    Measured,
    /// Measured against a substitute for the provider: an emulator or another server.
    Emulated,
    /// Imported from another tool's log.
    Imported,
    /// Published by a third party.
    Published,
}

impl Evidence {
    /// Returns the caveat that must appear next to the figures; `None` if they were measured at the provider.
    pub fn caveat(self) -> Option<&'static str> {
        match self {
            Evidence::Measured => None,
            Evidence::Emulated => Some("emulated: measured at a stand-in, not at the provider"),
            Evidence::Imported => Some("imported from another tool's log, not measured by Plimsoll"),
            Evidence::Published => Some("published by others, not measured here"),
        }
    }

    /// Returns the name used in tables; figures that were not measured at the provider are in capitals.
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Measured => "measured",
            Evidence::Emulated => "EMULATED",
            Evidence::Imported => "IMPORTED",
            Evidence::Published => "PUBLISHED",
        }
    }
}

/// A figure and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredFigure {
    /// Point estimate, in the unit of the figure.
    pub value: f64,
    /// Lower bound of the confidence interval; `None` if there is no interval.
    pub low: Option<f64>,
    /// Upper bound of the confidence interval; `None` if there is no interval.
    pub high: Option<f64>,
}

/// An objective and its result at one store.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectiveFinding {
    /// Objective as the user wrote it.
    pub objective: String,
    /// Result of judging it; `None` if it was not measured at this store.
    pub finding: Option<Finding>,
}

/// A store that can be recommended.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Name of the store in the run or in the document.
    pub name: String,
    /// Run or document that the figures are from.
    pub from: String,
    /// Origin of the performance figures.
    pub evidence: Evidence,
    /// Prices of the store.
    pub tariff: Tariff,
    /// Monthly bill of the workload.
    pub bill: Bill,
    /// Objectives and their results.
    pub held: Vec<ObjectiveFinding>,
    /// Latency by which stores are ranked, in milliseconds; `None` if it is not known.
    pub latency: Option<MeasuredFigure>,
    /// Differences between the measurement and the workload: another object size, operations that were not measured,
    /// failures. They are shown next to the recommendation.
    pub gaps: Vec<String>,
    /// Other remarks on the figures: a client-limited run, a rate that was not reached.
    pub remarks: Vec<String>,
    /// Operations that failed in the measurement.
    pub failures: Failures,
    /// True if another store fails fewer operations, beyond chance; see [`mark_failing`].
    pub fails_more: bool,
}

/// Marks the candidates that fail more of their operations than another one, beyond chance. They do not qualify: the
/// latency of the operations that a store answers says nothing about those that it does not.
pub fn mark_failing(candidates: &mut [Candidate]) {
    let measured: Vec<Failures> =
        candidates.iter().map(|c| c.failures).filter(|failures| failures.operations > 0).collect();
    for candidate in candidates {
        candidate.fails_more = measured.iter().any(|other| candidate.failures.exceed(other));
    }
}

impl Candidate {
    /// Returns the result of all objectives together: fail if one fails or the store fails more operations than
    /// another, else inconclusive if one is undecided, else pass.
    pub fn outcome(&self) -> ObjectiveResult {
        let of = |held: &ObjectiveFinding| {
            held.finding.as_ref().map_or(ObjectiveResult::Inconclusive, |f| f.outcome)
        };
        if self.fails_more || self.held.iter().any(|h| of(h) == ObjectiveResult::Fail) {
            return ObjectiveResult::Fail;
        }
        let open = self.held.iter().any(|h| of(h) == ObjectiveResult::Inconclusive);
        if open { ObjectiveResult::Inconclusive } else { ObjectiveResult::Pass }
    }

    /// Returns true if no objective fails, at least one is undecided, and no point estimate misses its bound. A longer
    /// measurement may then show that the store meets all objectives.
    pub fn may_hold(&self) -> bool {
        let against =
            |held: &ObjectiveFinding| held.finding.as_ref().is_some_and(|f| f.as_measured == Some(false));
        self.outcome() == ObjectiveResult::Inconclusive && !self.held.iter().any(against)
    }

    /// Returns the name of the store, followed by its caveat in brackets if it has one.
    pub fn named(&self) -> String {
        match self.evidence.caveat() {
            Some(caveat) => format!("{} ({caveat})", self.name),
            None => self.name.clone(),
        }
    }
}

/// Monthly bill per unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UnitCost {
    /// Total bill in dollars per million requests; `None` if the workload has no requests.
    pub per_million: Option<f64>,
    /// Total bill in dollars per 10^12 bytes read and written; `None` if the workload transfers none.
    pub per_tb: Option<f64>,
}

/// Divides the total of a bill by the requests and by the bytes of the workload.
pub fn unit_cost(bill: &Bill, usage: &Usage) -> UnitCost {
    let operations = usage.calls.total() as f64;
    let bytes = usage.uploaded as f64 + usage.downloaded as f64;
    let dollars = bill.total_usd.dollars();
    UnitCost {
        per_million: (operations > 0.0).then(|| dollars / operations * 1e6),
        per_tb: (bytes > 0.0).then(|| dollars / bytes * 1e12),
    }
}

/// Returns the indices of the candidates on the Pareto front of bill and latency: no other candidate is at least as
/// good in both and better in one. Candidates that fail an objective, and those without a latency, are excluded.
pub fn pareto_front(candidates: &[Candidate]) -> Vec<usize> {
    let point = |c: &Candidate| {
        let latency = c.latency.filter(|_| c.outcome() != ObjectiveResult::Fail)?;
        Some((c.bill.total_usd, latency.value))
    };
    let points: Vec<Option<(Usd, f64)>> = candidates.iter().map(point).collect();
    let beaten = |(cost, ms): (Usd, f64)| {
        points.iter().flatten().any(|(c, m)| *c <= cost && *m <= ms && (*c < cost || *m < ms))
    };
    let on_front = |at: &usize| points[*at].is_some_and(|p| !beaten(p));
    (0..candidates.len()).filter(on_front).collect()
}

/// Returns the index of the cheapest candidate that passes all objectives; the faster one if bills are equal.
pub fn recommended(candidates: &[Candidate]) -> Option<usize> {
    cheapest(candidates, |c| c.outcome() == ObjectiveResult::Pass)
}

/// Returns the index of the cheapest candidate for which `fits` returns true; the faster one if bills are equal.
pub fn cheapest(candidates: &[Candidate], fits: impl Fn(&Candidate) -> bool) -> Option<usize> {
    let order = |at: &usize| {
        let c = &candidates[*at];
        (c.bill.total_usd, c.latency.map_or(u64::MAX, |l| (l.value * 1e3) as u64))
    };
    (0..candidates.len()).filter(|at| fits(&candidates[*at])).min_by_key(order)
}

/// A bound on the ranking latency at which the recommendation changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundChange {
    /// The bound, in milliseconds.
    pub ms: f64,
    /// True if the bound must become tighter for the change, false if it must become looser.
    pub tighter: bool,
    /// Index of the candidate that is then recommended; `None` if none passes.
    pub to: Option<usize>,
}

/// Returns the latency that a candidate surely meets, in milliseconds: the upper end of its interval.
fn surely(c: &Candidate) -> Option<f64> {
    c.latency.map(|l| l.high.unwrap_or(l.value))
}

/// Returns true if a candidate passes every objective but `objective`, and does not fail more than another one.
fn passes_others(c: &Candidate, objective: &str) -> bool {
    let passes =
        |h: &ObjectiveFinding| h.finding.as_ref().is_some_and(|f| f.outcome == ObjectiveResult::Pass);
    !c.fails_more && c.held.iter().filter(|h| h.objective != objective).all(passes)
}

/// Returns the bounds on the ranking latency from which a candidate passes, if none passes now: the tightest one, and
/// each looser one from which a cheaper candidate passes. Only the objective called `objective` changes.
pub fn bounds_to_pass(candidates: &[Candidate], objective: &str) -> Vec<BoundChange> {
    let mut able: Vec<(usize, f64)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, c)| passes_others(c, objective))
        .filter_map(|(at, c)| Some((at, surely(c)?)))
        .collect();
    able.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut least: Option<Usd> = None;
    let mut out = Vec::new();
    for (at, ms) in able {
        let usd = candidates[at].bill.total_usd;
        if least.is_none_or(|least| usd < least) {
            least = Some(usd);
            out.push(BoundChange { ms, tighter: false, to: Some(at) });
        }
    }
    out
}

/// Returns the bounds on the ranking latency at which the recommendation changes from `best`: the tightest bound
/// that `best` still passes, and the tightest looser bound that a cheaper candidate passes, if there is one. Only
/// the objective called `objective` changes.
pub fn bound_changes(candidates: &[Candidate], best: usize, objective: &str) -> Vec<BoundChange> {
    let Some(now) = surely(&candidates[best]) else { return Vec::new() };
    let fits = |c: &Candidate| c.outcome() == ObjectiveResult::Pass && surely(c).is_some_and(|ms| ms < now);
    let mut out = vec![BoundChange { ms: now, tighter: true, to: cheapest(candidates, fits) }];
    // Cheaper candidates that pass every other objective.
    let slow =
        |c: &&Candidate| passes_others(c, objective) && c.bill.total_usd < candidates[best].bill.total_usd;
    let looser =
        candidates.iter().filter(slow).filter_map(surely).filter(|ms| *ms > now).min_by(f64::total_cmp);
    if let Some(ms) = looser {
        let to = candidates.iter().position(|c| surely(c) == Some(ms));
        out.push(BoundChange { ms, tighter: false, to });
    }
    out
}

/// Returns the total bill of each candidate for a usage; `None` for a candidate that cannot be billed.
fn totals(candidates: &[&Candidate], usage: &Usage) -> Vec<Option<Usd>> {
    candidates.iter().map(|c| total(&c.tariff, usage).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_cost::bill::bill;
    use plimsoll_cost::book::Prices;
    use plimsoll_cost::workload::parse;

    /// Builds the candidates of a workload from tuples of offer, latency in ms and result of the objective.
    pub fn candidates(workload: &str, of: &[(&str, f64, ObjectiveResult)]) -> (Vec<Candidate>, Usage) {
        let usage = parse(workload).unwrap().resolve().unwrap().usage;
        let prices = Prices::built_in().unwrap();
        let candidate = |(offer, ms, outcome): &(&str, f64, ObjectiveResult)| {
            let tariff = prices.tariff(offer, None, "2026-11-21".parse().unwrap()).unwrap();
            let bill = bill(&tariff, &usage).unwrap();
            let as_measured = Some(*outcome != ObjectiveResult::Fail);
            let finding = Finding {
                outcome: *outcome,
                detail: String::new(),
                duration_needed_s: None,
                as_measured,
                client_limited: None,
                unseen_stalls: None,
            };
            Candidate {
                name: (*offer).into(),
                from: String::new(),
                evidence: Evidence::Measured,
                tariff,
                bill,
                held: vec![ObjectiveFinding { objective: "get.p99 < 1s".into(), finding: Some(finding) }],
                latency: Some(MeasuredFigure { value: *ms, low: None, high: None }),
                gaps: Vec::new(),
                remarks: Vec::new(),
                failures: Failures::default(),
                fails_more: false,
            }
        };
        (of.iter().map(candidate).collect(), usage)
    }

    #[test]
    fn the_pareto_front_and_the_recommendation_are_correct() {
        use ObjectiveResult::{Fail, Inconclusive, Pass};
        // A TB costs 112.64 x 1000/1024/1.0737, about 102, at S3 Express; 21.4 at S3; 14.85 at R2; 6.88 at B2.
        let (all, usage) = candidates(
            "storage='1 TB'",
            &[
                ("aws-s3-express", 5.0, Pass),
                ("aws-s3", 25.0, Pass),
                ("cloudflare-r2", 20.0, Inconclusive),
                ("backblaze-b2", 40.0, Fail),
            ],
        );
        assert_eq!(pareto_front(&all), [0, 2], "R2 is cheaper and faster than S3; B2 fails its objective");
        assert_eq!(recommended(&all), Some(1), "R2 is undecided, B2 fails");
        let unit = unit_cost(&all[2].bill, &usage);
        assert_eq!((unit.per_million, unit.per_tb), (None, None));
        // S3 passes bounds down to 25 ms, and S3 Express passes tighter ones. The cheaper B2 passes from 40 ms.
        let changes = bound_changes(&all, 1, "get.p99 < 1s");
        assert_eq!(changes[0], BoundChange { ms: 25.0, tighter: true, to: Some(0) });
        assert_eq!(changes[1], BoundChange { ms: 40.0, tighter: false, to: Some(3) });
    }

    /// Regression test: a store that failed 40% of its gets was the best one.
    #[test]
    fn a_store_that_fails_more_is_not_better() {
        use ObjectiveResult::Pass;
        let (mut all, _) =
            candidates("storage='1 TB'", &[("aws-s3", 25.0, Pass), ("backblaze-b2", 5.0, Pass)]);
        let of = |failed| Failures { failed, operations: 1_000, dispersion: 1.0 };
        (all[0].failures, all[1].failures) = (of(0), of(400));
        mark_failing(&mut all);
        assert_eq!((recommended(&all), pareto_front(&all)), (Some(0), vec![0]));
        (all[0].failures, all[1].failures) = (of(400), of(401));
        mark_failing(&mut all);
        assert_eq!((recommended(&all), pareto_front(&all)), (Some(1), vec![1]), "both fail alike");
    }

    #[test]
    fn the_name_includes_the_caveat() {
        let (mut all, _) = candidates("storage='1 TB'", &[("aws-s3", 25.0, ObjectiveResult::Pass)]);
        assert_eq!(all[0].named(), "aws-s3");
        all[0].evidence = Evidence::Emulated;
        assert!(all[0].named().contains("emulated"));
        all[0].held[0].finding = None;
        assert_eq!(all[0].outcome(), ObjectiveResult::Inconclusive);
    }
}
