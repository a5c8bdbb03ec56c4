//! Document with the recommended store.

use serde_json::json;

use super::dollars;
use plimsoll_base::units::format_ms;
use plimsoll_bills::advise::sensitivity::{Assumption, AssumptionChange};
use plimsoll_bills::advise::{
    Candidate, Evidence, MeasuredFigure, UnitCost, bound_changes, bounds_to_pass, cheapest, pareto_front,
    recommended, unit_cost,
};
use plimsoll_cost::money::Usd;
use plimsoll_cost::usage::Usage;
use plimsoll_document::{Document, Table};
use plimsoll_judge::summary::objective_result::ObjectiveResult;

/// Result of `plimsoll advise`.
#[derive(Debug)]
pub struct Advice<'a> {
    /// Stores that can be recommended.
    pub candidates: &'a [Candidate],
    /// Usage of one month.
    pub usage: &'a Usage,
    /// Objectives as the user wrote them.
    pub objectives: &'a [String],
    /// Latency by which stores are ranked.
    pub ranked_by: &'a str,
    /// Objective about that latency; `None` if there is none.
    pub latency_objective: Option<&'a str>,
    /// Indexes of the candidates that meet, or may meet, the objectives.
    pub choice: &'a [usize],
    /// Changes of assumptions that change the answer. Their `to` is an index into `choice`.
    pub changes: &'a [AssumptionChange],
    /// Operations and stores that no run measured.
    pub missing: &'a [String],
}

/// Formats a figure in milliseconds with its confidence interval.
fn ms(figure: Option<MeasuredFigure>) -> String {
    let Some(figure) = figure else { return "-".into() };
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => {
            format!("{} [{}..{}]", format_ms(figure.value), format_ms(low), format_ms(high))
        }
        _ => format_ms(figure.value),
    }
}

fn money(dollars: Option<f64>) -> String {
    dollars.map_or("-".into(), |d| Usd::from_pico((d * 1e12) as i128).rounded())
}

/// Describes the cost per million operations and per TB.
fn units(unit: UnitCost) -> String {
    let parts = [(unit.per_million, "per million operations"), (unit.per_tb, "per TB read and written")];
    let texts: Vec<String> =
        parts.into_iter().filter_map(|(d, unit)| Some(format!("{} {unit}", money(Some(d?))))).collect();
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
}

/// Describes the cheapest store that may qualify, too, if it costs less than the recommended one.
fn cheaper(all: &[Candidate], best: &Candidate) -> String {
    let open = |c: &Candidate| c.may_hold() && c.bill.total_usd < best.bill.total_usd;
    cheapest(all, open).map_or(String::new(), |at| {
        let (name, usd) = (all[at].named(), all[at].bill.total_usd.rounded());
        format!("; {name} at {usd} may qualify, too, but its measurement is too short or lacks an operation")
    })
}

/// Names the stores that fail more operations than another one.
fn failing(all: &[Candidate]) -> String {
    let failing = all.iter().filter(|c| c.fails_more);
    let said = |c: &Candidate| {
        format!(
            " {} failed {:.1}% of its operations, and does not qualify.",
            c.name,
            100.0 * c.failures.share()
        )
    };
    failing.map(said).collect()
}

fn sentence(advice: &Advice<'_>) -> String {
    format!("{}{}", choice(advice), failing(advice.candidates))
}

fn choice(advice: &Advice<'_>) -> String {
    let all = advice.candidates;
    let goal = advice.objectives.join(" and ");
    let cost = |at: usize| {
        let c = &all[at];
        format!("{} a month{}", c.bill.total_usd.rounded(), units(unit_cost(&c.bill, advice.usage)))
    };
    if let Some(at) = recommended(all) {
        let best = &all[at];
        let lead = match advice.objectives {
            [] => {
                let (name, provider) = (best.named(), &best.bill.provider);
                let which = match all.iter().any(|c| c.fails_more) {
                    true => "Of the stores that fail least,",
                    false => "Without an objective, every store qualifies:",
                };
                format!("{which} the cheapest is {name}, billed as {provider}, at {}", cost(at))
            }
            _ => format!(
                "{}, billed as {}, is the cheapest store that meets {goal}: {}",
                best.named(),
                best.bill.provider,
                cost(at)
            ),
        };
        let measured =
            cheapest(all, |c| c.outcome() == ObjectiveResult::Pass && c.evidence == Evidence::Measured);
        let other = match measured {
            _ if best.evidence == Evidence::Measured => String::new(),
            Some(at) => {
                let name = &all[at].name;
                format!(" Of the stores measured at their provider, {name} is the cheapest at {}.", cost(at))
            }
            None => " None of the stores that qualify was measured at its provider.".to_string(),
        };
        let gaps =
            if best.gaps.is_empty() { String::new() } else { format!("; however, {}", best.gaps.join("; ")) };
        let gaps = format!("{gaps}{}", cheaper(all, best));
        return format!("{lead}{gaps}.{other}");
    }
    match cheapest(all, Candidate::may_hold) {
        Some(at) => {
            let open = all[at].held.iter().find(|h| h.finding.is_none());
            let next = open.map_or("measure this store for longer".to_string(), |h| {
                format!("{} was not measured on this store", h.objective)
            });
            let name = all[at].named();
            format!("No store is certain to meet {goal}. {name} may qualify, at {}; {next}.", cost(at))
        }
        None if all.iter().any(|c| c.outcome() == ObjectiveResult::Inconclusive) => {
            format!(
                "No store meets {goal} in these measurements, but some results are uncertain; measure longer."
            )
        }
        None => format!("No store meets {goal}."),
    }
}

fn table(advice: &Advice<'_>) -> Table {
    let latency = format!("{}, ms#", advice.ranked_by);
    let mut columns =
        vec!["store", "evidence", "billed as", "per month#", "per million operations#", "per TB#", &latency];
    columns.extend(advice.objectives.iter().map(String::as_str));
    columns.push("");
    let mut table = Table::new("Stores, cheapest first", &columns);
    let on_front = pareto_front(advice.candidates);
    let mut order: Vec<usize> = (0..advice.candidates.len()).collect();
    order.sort_by_key(|at| advice.candidates[*at].bill.total_usd);
    for at in order {
        let c = &advice.candidates[at];
        let unit = unit_cost(&c.bill, advice.usage);
        let mut row = vec![
            c.name.clone(),
            c.evidence.name().into(),
            c.bill.provider.clone(),
            c.bill.total_usd.rounded(),
            money(unit.per_million),
            money(unit.per_tb),
            ms(c.latency),
        ];
        row.extend(
            c.held
                .iter()
                .map(|h| h.finding.as_ref().map_or("not measured", |f| f.outcome.describe()).to_string()),
        );
        let best = if recommended(advice.candidates) == Some(at) { "best; " } else { "" };
        let front = if on_front.contains(&at) { "Pareto front" } else { "" };
        row.push(format!("{best}{front}").trim_end_matches("; ").to_string());
        table.row(row);
    }
    table
}

/// Builds the table of the results of all objectives at all stores; `None` if there are no objectives.
fn certainty(advice: &Advice<'_>) -> Option<Table> {
    let mut table = Table::new("Results of the objectives", &["store", "objective", "result", "detail"]);
    for (c, held) in advice.candidates.iter().flat_map(|c| c.held.iter().map(move |h| (c, h))) {
        let (outcome, detail) = match &held.finding {
            Some(f) => (f.outcome.describe(), f.detail.as_str()),
            None => ("not measured", ""),
        };
        table.row([c.name.as_str(), &held.objective, outcome, detail]);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn sensitivity(advice: &Advice<'_>) -> Option<Table> {
    let name = |at: usize| advice.choice.get(at).map_or("-", |c| advice.candidates[*c].name.as_str());
    let mut table =
        Table::new("What would change the answer", &["assumption", "change", "cheapest then", "per month"]);
    let fixed = |c: &AssumptionChange| c.factor.is_none();
    for (at, change) in advice.changes.iter().enumerate() {
        if change.assumption == Assumption::Leaving {
            let share = change.factor.map_or("no effect up to 100%".into(), |f| format!("{:.1}%", 100.0 * f));
            let usd = change.total_usd.map_or("-".into(), |t| t.rounded());
            table.row([change.assumption.name(), &share, change.to.map_or("-", name), &usd]);
            continue;
        }
        // The increase and the decrease of an assumption are adjacent. If neither has an effect, they share one
        // row.
        if fixed(change) && change.up && advice.changes.get(at + 1).is_some_and(fixed) {
            table.row([change.assumption.name(), "no effect from / 1000 to x 1000", "-", "-"]);
            continue;
        }
        if fixed(change) && !change.up && at > 0 && fixed(&advice.changes[at - 1]) {
            continue;
        }
        let factor = match change.factor {
            Some(factor) if factor >= 1.0 => format!("x {factor:.3}"),
            Some(factor) => format!("/ {:.3}", 1.0 / factor),
            None if change.up => "no effect up to x 1000".into(),
            None => "no effect down to / 1000".into(),
        };
        let to = change.to.map_or("-", name);
        table.row([
            change.assumption.name(),
            &factor,
            to,
            &change.total_usd.map_or("-".into(), |t| t.rounded()),
        ]);
    }
    if advice.choice.len() < 2 {
        table.rows.clear();
    }
    if let Some(objective) = advice.latency_objective {
        let bounds = match recommended(advice.candidates) {
            Some(best) => bound_changes(advice.candidates, best, objective),
            None => bounds_to_pass(advice.candidates, objective),
        };
        for bound in bounds {
            let to =
                bound.to.map_or("no store for certain".to_string(), |at| advice.candidates[at].name.clone());
            let usd = bound.to.map_or("-".into(), |at| advice.candidates[at].bill.total_usd.rounded());
            let direction = if bound.tighter { "at most" } else { "at least" };
            table.row([
                format!("objective {}", advice.ranked_by),
                format!("{direction} {} ms", format_ms(bound.ms)),
                to,
                usd,
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn figures(advice: &Advice<'_>) -> Table {
    let mut table = Table::new(
        "",
        &[
            "store",
            "from",
            "known_by",
            "billed_as",
            "region",
            "total_usd",
            "usd_per_million_operations",
            "usd_per_tb",
            "latency_ms",
            "latency_low_ms",
            "latency_high_ms",
            "outcome",
            "front",
        ],
    );
    let on_front = pareto_front(advice.candidates);
    let number = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
    for (at, c) in advice.candidates.iter().enumerate() {
        let unit = unit_cost(&c.bill, advice.usage);
        table.row([
            c.name.clone(),
            c.from.clone(),
            c.evidence.name().to_lowercase(),
            c.bill.provider.clone(),
            c.bill.region.clone(),
            c.bill.total_usd.to_string(),
            number(unit.per_million),
            number(unit.per_tb),
            number(c.latency.map(|l| l.value)),
            number(c.latency.and_then(|l| l.low)),
            number(c.latency.and_then(|l| l.high)),
            c.outcome().describe().to_lowercase(),
            on_front.contains(&at).to_string(),
        ]);
    }
    table
}

/// Returns the warnings, each with the names of all stores that it applies to.
fn warnings(advice: &Advice<'_>) -> Vec<String> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    let unstored = "the bills contain no storage (--storage, or --put and --keep)";
    for c in advice.candidates {
        let doubts = c.bill.doubtful();
        let doubts =
            (!doubts.is_empty()).then(|| format!("low confidence in the price of {}", doubts.join("; ")));
        let caveat = c.evidence.caveat().map(str::to_string);
        for text in caveat.into_iter().chain(c.gaps.iter().chain(&c.remarks).cloned()).chain(doubts) {
            match found.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(&c.name),
                None => found.push((text, vec![&c.name])),
            }
        }
    }
    let of_stores = found.into_iter().map(|(text, names)| format!("{}: {text}", names.join(", ")));
    (advice.usage.stored == 0).then(|| unstored.to_string()).into_iter().chain(of_stores).collect()
}

/// Builds the document of a recommendation.
pub fn document(advice: &Advice<'_>, what: Vec<String>, mut notes: Vec<String>) -> Document {
    let warnings = warnings(advice);
    notes.splice(0..0, advice.missing.iter().map(|m| format!("not measured: {m}")));
    notes.push(
        "Pareto front: no other store is both cheaper and faster; stores that miss an objective are left out"
            .into(),
    );
    let on_front = pareto_front(advice.candidates);
    let point = |(at, c): (usize, &Candidate)| {
        c.latency.map(|l| {
            json!({
                "name": c.name, "known_by": c.evidence.name(), "usd": dollars(c.bill.total_usd),
                "ms": l.value, "low": l.low, "high": l.high,
                "outcome": c.outcome().describe(), "front": on_front.contains(&at),
            })
        })
    };
    let name = |at: usize| advice.choice.get(at).map(|c| advice.candidates[*c].name.clone());
    let mut tables = vec![table(advice)];
    tables.extend(certainty(advice));
    tables.extend(sensitivity(advice));
    Document {
        links: Vec::new(),
        title: "Recommended store".into(),
        what,
        answer: sentence(advice),
        premise: String::new(),
        warnings,
        tables,
        notes,
        figures: figures(advice),
        charts: json!({ "advice": {
            "ranked_by": advice.ranked_by,
            "points": advice.candidates.iter().enumerate().filter_map(point).collect::<Vec<_>>(),
            "changes": advice.changes.iter().filter(|_| advice.choice.len() > 1).map(|c| json!({
                "assumption": c.assumption.name(), "factor": c.factor, "up": c.up, "to": c.to.and_then(name),
            })).collect::<Vec<_>>(),
        }}),
    }
}
