//! Which store fits: what was measured of each, held against objectives, beside the bill of a workload. Pure; [`sensitivity`] says which
//! assumption, moved how far, changes the answer.

pub mod sensitivity;

use serde::Serialize;

use crate::cost::bill::{Bill, total};
use crate::cost::money::Usd;
use crate::cost::tariff::Tariff;
use crate::cost::usage::Usage;
use crate::summary::objective::{Finding, ObjectiveResult};

/// How a store's performance is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Measured at the provider itself.
    Measured,
    /// Measured at something that stands in for it: an emulator, another server.
    Emulated,
    /// Imported from another tool's log.
    Imported,
    /// Published by others.
    Published,
}

impl Evidence {
    /// What must be said in the same line; nothing where it was measured.
    pub fn caveat(self) -> Option<&'static str> {
        match self {
            Evidence::Measured => None,
            Evidence::Emulated => Some("emulated: measured at a stand-in, not at the provider"),
            Evidence::Imported => Some("imported from another tool's log, not measured by Plimsoll"),
            Evidence::Published => Some("published by others, not measured here"),
        }
    }

    /// In a table.
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Measured => "measured",
            Evidence::Emulated => "EMULATED",
            Evidence::Imported => "IMPORTED",
            Evidence::Published => "PUBLISHED",
        }
    }
}

/// A figure with what it lies between.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// What it comes to.
    pub value: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
}

/// An objective at one store.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The objective as written.
    pub objective: String,
    /// What was found; none where it was not measured there.
    pub finding: Option<Finding>,
}

/// A store that could be chosen.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// What it is called: the store of a run, or a name in a document.
    pub name: String,
    /// The run or document.
    pub from: String,
    /// How its performance is known.
    pub evidence: Evidence,
    /// Its prices.
    pub tariff: Tariff,
    /// The bill of the workload.
    pub bill: Bill,
    /// The objectives.
    pub held: Vec<Held>,
    /// The latency that stores are ranked by, in milliseconds.
    pub latency: Option<Figure>,
    /// Where what was measured is not what the workload asks: another object size, operations that were not measured, failures. It
    /// stands beside the answer.
    pub gaps: Vec<String>,
    /// What else must be known of the figures: a client that was the limit, a rate that was not reached.
    pub remarks: Vec<String>,
}

impl Candidate {
    /// How it fares with all objectives together: none missed and none open is a pass.
    pub fn outcome(&self) -> ObjectiveResult {
        let of = |held: &Held| held.finding.as_ref().map_or(ObjectiveResult::CannotTell, |f| f.outcome);
        if self.held.iter().any(|h| of(h) == ObjectiveResult::Fail) {
            return ObjectiveResult::Fail;
        }
        let open = self.held.iter().any(|h| of(h) == ObjectiveResult::CannotTell);
        if open { ObjectiveResult::CannotTell } else { ObjectiveResult::Pass }
    }

    /// Whether a longer measurement may show that it holds what is not decided yet: no figure so far speaks against it.
    pub fn may_hold(&self) -> bool {
        let against = |held: &Held| held.finding.as_ref().is_some_and(|f| f.as_measured == Some(false));
        self.outcome() == ObjectiveResult::CannotTell && !self.held.iter().any(against)
    }

    /// Its name with what must be said in the same line.
    pub fn named(&self) -> String {
        match self.evidence.caveat() {
            Some(caveat) => format!("{} ({caveat})", self.name),
            None => self.name.clone(),
        }
    }
}

/// What a month of work costs per unit of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UnitCost {
    /// Dollars for a million requests of the workload, everything included; none where it has no requests.
    pub per_million: Option<f64>,
    /// Dollars for 10^12 bytes read and written, everything included; none where nothing moves.
    pub per_tb: Option<f64>,
}

/// What a bill comes to per million operations and per TB.
pub fn unit_cost(bill: &Bill, usage: &Usage) -> UnitCost {
    let operations = usage.calls.total() as f64;
    let bytes = usage.uploaded as f64 + usage.downloaded as f64;
    let dollars = bill.total_usd.dollars();
    UnitCost {
        per_million: (operations > 0.0).then(|| dollars / operations * 1e6),
        per_tb: (bytes > 0.0).then(|| dollars / bytes * 1e12),
    }
}

/// Places of the candidates that no other beats in both bill and latency. Those that miss an objective, and those without a latency, are
/// not in it.
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

/// The cheapest of those that surely hold all objectives; of equals the faster.
pub fn recommended(candidates: &[Candidate]) -> Option<usize> {
    cheapest(candidates, |c| c.outcome() == ObjectiveResult::Pass)
}

/// The cheapest of those for which `fits` holds; of equals the faster.
pub fn cheapest(candidates: &[Candidate], fits: impl Fn(&Candidate) -> bool) -> Option<usize> {
    let order = |at: &usize| {
        let c = &candidates[*at];
        (c.bill.total_usd, c.latency.map_or(u64::MAX, |l| (l.value * 1e3) as u64))
    };
    (0..candidates.len()).filter(|at| fits(&candidates[*at])).min_by_key(order)
}

/// A bound on the ranking latency at which another store becomes the answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundChange {
    /// The bound, in milliseconds.
    pub ms: f64,
    /// Whether the bound is tighter than now.
    pub tighter: bool,
    /// Who is the cheapest then that surely holds it; none where nobody does.
    pub to: Option<usize>,
}

/// How tight the bound on the latency can be before the recommended store is not sure to hold it any more, and how loose it must be for a
/// cheaper one to be sure to. Every objective but that one stays as it is.
pub fn bound_changes(candidates: &[Candidate], best: usize, objective: &str) -> Vec<BoundChange> {
    let surely = |c: &Candidate| c.latency.map(|l| l.high.unwrap_or(l.value));
    let Some(now) = surely(&candidates[best]) else { return Vec::new() };
    let fits = |c: &Candidate| c.outcome() == ObjectiveResult::Pass && surely(c).is_some_and(|ms| ms < now);
    let mut out = vec![BoundChange { ms: now, tighter: true, to: cheapest(candidates, fits) }];
    // One that misses nothing but the latency.
    let slow = |c: &&Candidate| {
        let passes = |h: &Held| h.finding.as_ref().is_some_and(|f| f.outcome == ObjectiveResult::Pass);
        let others = c.held.iter().filter(|h| h.objective != objective).all(passes);
        others && c.bill.total_usd < candidates[best].bill.total_usd
    };
    let looser =
        candidates.iter().filter(slow).filter_map(surely).filter(|ms| *ms > now).min_by(f64::total_cmp);
    if let Some(ms) = looser {
        let to = candidates.iter().position(|c| surely(c) == Some(ms));
        out.push(BoundChange { ms, tighter: false, to });
    }
    out
}

/// The totals of some tariffs for a usage; none where there is no bill.
fn totals(candidates: &[&Candidate], usage: &Usage) -> Vec<Option<Usd>> {
    candidates.iter().map(|c| total(&c.tariff, usage).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::bill::bill;
    use crate::cost::book::Prices;
    use crate::cost::workload::parse;

    /// Candidates of a workload: offer, latency in ms, outcome.
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
                needs_s: None,
                as_measured,
                client_limited: None,
            };
            Candidate {
                name: (*offer).into(),
                from: String::new(),
                evidence: Evidence::Measured,
                tariff,
                bill,
                held: vec![Held { objective: "get.p99 < 1s".into(), finding: Some(finding) }],
                latency: Some(Figure { value: *ms, low: None, high: None }),
                gaps: Vec::new(),
                remarks: Vec::new(),
            }
        };
        (of.iter().map(candidate).collect(), usage)
    }

    #[test]
    fn the_front_holds_whatever_nothing_beats() {
        use ObjectiveResult::{CannotTell, Fail, Pass};
        // A TB costs 112.64 x 1000/1024/1.0737, about 102, at S3 Express; 21.4 at S3; 14.85 at R2; 6.88 at B2.
        let (all, usage) = candidates(
            "storage='1 TB'",
            &[
                ("aws-s3-express", 5.0, Pass),
                ("aws-s3", 25.0, Pass),
                ("cloudflare-r2", 20.0, CannotTell),
                ("backblaze-b2", 40.0, Fail),
            ],
        );
        assert_eq!(pareto_front(&all), [0, 2], "S3 is beaten by R2, B2 misses its objective");
        assert_eq!(recommended(&all), Some(1), "R2 cannot be told to hold, B2 does not");
        let unit = unit_cost(&all[2].bill, &usage);
        assert_eq!((unit.per_million, unit.per_tb), (None, None));
        // S3 holds a bound down to 25 ms; below it S3 Express does. At 40 ms the cheaper B2 would.
        let changes = bound_changes(&all, 1, "get.p99 < 1s");
        assert_eq!(changes[0], BoundChange { ms: 25.0, tighter: true, to: Some(0) });
        assert_eq!(changes[1], BoundChange { ms: 40.0, tighter: false, to: Some(3) });
    }

    #[test]
    fn what_is_not_measured_is_told_in_the_name() {
        let (mut all, _) = candidates("storage='1 TB'", &[("aws-s3", 25.0, ObjectiveResult::Pass)]);
        assert_eq!(all[0].named(), "aws-s3");
        all[0].evidence = Evidence::Emulated;
        assert!(all[0].named().contains("emulated"));
        all[0].held[0].finding = None;
        assert_eq!(all[0].outcome(), ObjectiveResult::CannotTell);
    }
}
