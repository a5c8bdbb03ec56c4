//! Document with the bills of a workload in which one value is a range.

use std::collections::BTreeSet;

use serde::Serialize;

use super::breakeven::{amount, document as of_breakeven};
use plimsoll_cost::bills::Bills;
use plimsoll_cost::breakeven::{Breakeven, Point, Segment};
use plimsoll_cost::money::Usd;
use plimsoll_document::{Document, Table};

/// Bills at both ends of a range, as `plimsoll cost --json` prints them.
#[derive(Debug, Serialize)]
pub struct RangeBills {
    /// Start of the range, in bytes or requests.
    pub from: u64,
    /// End of the range.
    pub to: u64,
    /// Bills at the start.
    pub low: Bills,
    /// Bills at the end.
    pub high: Bills,
    /// Bills between both, and the amounts at which the cheapest provider changes.
    #[serde(flatten)]
    pub found: Breakeven,
}

/// Number of providers in the chart at each end.
const CHARTED: usize = 4;

/// Returns the total of an offer; `None` if it has no bill.
fn total(bills: &Bills, offer: &str, region: &str) -> Option<Usd> {
    bills.bills.iter().find(|bill| bill.provider == offer && bill.region == region).map(|bill| bill.total_usd)
}

fn ends(report: &RangeBills) -> Table {
    let at = |end: u64| format!("at {}#", amount(report.found.vary, end));
    let (low, high) = (at(report.from), at(report.to));
    let mut table = Table::new(
        format!("Bills at both ends of the range of {}", report.found.vary.name()),
        &["provider", "region", &low, &high],
    );
    let all: BTreeSet<(&str, &str)> = [&report.low, &report.high]
        .into_iter()
        .flat_map(|bills| bills.bills.iter().map(|bill| (bill.provider.as_str(), bill.region.as_str())))
        .collect();
    let mut rows: Vec<_> = all
        .into_iter()
        .map(|(offer, region)| {
            (total(&report.low, offer, region), total(&report.high, offer, region), offer, region)
        })
        .collect();
    rows.sort_by_key(|(low, high, ..)| (low.is_none(), *low, *high));
    let cell = |usd: Option<Usd>| usd.map_or("-".into(), Usd::rounded);
    for (low, high, offer, region) in rows {
        table.row([offer.to_string(), region.to_string(), cell(low), cell(high)]);
    }
    table
}

/// Returns the positions of the providers that are cheap somewhere in the range.
fn charted(found: &Breakeven) -> Vec<usize> {
    let mut chosen: BTreeSet<usize> = found.segments.iter().filter_map(|segment| segment.cheapest).collect();
    for point in found.points.first().into_iter().chain(found.points.last()) {
        let mut sorted: Vec<(Usd, usize)> =
            point.totals_usd.iter().enumerate().filter_map(|(at, usd)| Some(((*usd)?, at))).collect();
        sorted.sort();
        chosen.extend(sorted.into_iter().take(CHARTED).map(|(_, at)| at));
    }
    chosen.into_iter().collect()
}

/// Returns the analysis of some of the providers.
fn only(found: &Breakeven, chosen: &[usize]) -> Breakeven {
    let point = |point: &Point| Point {
        amount: point.amount,
        totals_usd: chosen.iter().map(|at| point.totals_usd[*at]).collect(),
    };
    let segment = |segment: &Segment| Segment {
        from: segment.from,
        to: segment.to,
        cheapest: segment.cheapest.and_then(|at| chosen.iter().position(|known| *known == at)),
        at_from: point(&segment.at_from),
    };
    Breakeven {
        vary: found.vary,
        providers: chosen.iter().map(|at| found.providers[*at].clone()).collect(),
        segments: found.segments.iter().map(segment).collect(),
        points: found.points.iter().map(point).collect(),
    }
}

/// Returns the costs of the cheapest provider at both ends, in a sentence.
fn costs(report: &RangeBills) -> String {
    let least =
        |bills: &Bills| bills.by_total().first().map_or("no bill".into(), |bill| bill.total_usd.rounded());
    format!("The cheapest bill goes from {} to {} a month.", least(&report.low), least(&report.high))
}

/// Builds the document of a range. `titles` has the title of each provider, `rest` the rest of the workload.
pub fn document(report: &RangeBills, titles: &[&str], rest: &str, date: &str) -> Document {
    let chosen = charted(&report.found);
    let cheap = only(&report.found, &chosen);
    let titles: Vec<&str> = chosen.iter().map(|at| titles[*at]).collect();
    let vary = report.found.vary;
    let what = format!(
        "Monthly bills for {} to {} of {}; other usage: {}; prices of {date}",
        amount(vary, report.from),
        amount(vary, report.to),
        vary.name(),
        if rest.is_empty() { "none" } else { rest }
    );
    let mut notes: Vec<String> =
        report.low.assumptions.iter().map(|text| format!("assumed: {text}")).collect();
    let left_out = report.low.not_priced.iter().chain(&report.high.not_priced);
    let left_out: BTreeSet<String> = left_out.map(|n| format!("left out: {}", n.reason)).collect();
    notes.extend(left_out);
    let mut document = of_breakeven(&cheap, &titles, vec![what], notes);
    document.title = "Monthly cost, in a range".into();
    document.answer = format!("{} {}", document.answer, costs(report));
    document.tables.insert(0, ends(report));
    let all: Vec<&str> =
        std::iter::once("amount").chain(report.found.providers.iter().map(String::as_str)).collect();
    document.figures = Table::new("", &all);
    for point in &report.found.points {
        let totals = point.totals_usd.iter().map(|usd| usd.map_or(String::new(), |usd| usd.to_string()));
        document.figures.row(std::iter::once(point.amount.to_string()).chain(totals));
    }
    document
}
