//! Document with the break-even points of several providers.

use serde_json::json;

use super::dollars;
use plimsoll_base::units::{format_count, format_size, format_volume};
use plimsoll_cost::breakeven::{Breakeven, Vary};
use plimsoll_document::{Document, Table};

/// Formats an amount of the value that varies.
pub fn amount(vary: Vary, amount: u64) -> String {
    match vary {
        Vary::ObjectSize if amount < 1_000_000 => format_size(amount),
        _ if vary.is_bytes() => format_volume(amount),
        _ => format_count(amount),
    }
}

fn sentence(found: &Breakeven, titles: &[&str]) -> String {
    let name = |at: Option<usize>| at.map_or("no provider", |at| titles[at]);
    let vary = found.vary;
    let per = if vary == Vary::ObjectSize { "" } else { " a month" };
    let crossing = |i: usize| format!("{} of {}{per}", amount(vary, found.segments[i].from), vary.name());
    match found.segments.as_slice() {
        [] => "There is nothing to compare.".into(),
        [only] => format!(
            "{} is the cheapest from {} to {} of {}{per}.",
            name(only.cheapest),
            amount(vary, only.from),
            amount(vary, only.to),
            vary.name()
        ),
        [first, second] => {
            format!(
                "{} is the cheapest below {}; from there on, {} is the cheapest.",
                name(first.cheapest),
                crossing(1),
                name(second.cheapest)
            )
        }
        many => {
            let last = &many[many.len() - 1];
            format!(
                "{} is the cheapest below {}. The cheapest provider changes {} times; from {} on, it is {}.",
                name(many[0].cheapest),
                crossing(1),
                many.len() - 1,
                crossing(many.len() - 1),
                name(last.cheapest)
            )
        }
    }
}

fn table(found: &Breakeven, titles: &[&str]) -> Table {
    let heads: Vec<String> = titles.iter().map(|t| format!("{t}, at start#")).collect();
    let columns: Vec<&str> =
        ["from#", "to#", "cheapest"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut table = Table::new(format!("Cheapest provider by {}", found.vary.name()), &columns);
    for segment in &found.segments {
        let totals = segment.at_from.totals_usd.iter().map(|t| t.map_or("-".into(), |t| t.rounded()));
        let first = [
            amount(found.vary, segment.from),
            amount(found.vary, segment.to),
            segment.cheapest.map_or("no provider".into(), |at| titles[at].to_string()),
        ];
        table.row(first.into_iter().chain(totals));
    }
    table
}

/// Maximum number of ranges in the table.
const MAX_SEGMENTS: usize = 40;

/// Builds the document of a break-even analysis.
pub fn document(found: &Breakeven, titles: &[&str], what: Vec<String>, mut notes: Vec<String>) -> Document {
    let mut table = table(found, titles);
    if table.rows.len() > MAX_SEGMENTS {
        notes.push(format!(
            "only the first {MAX_SEGMENTS} of {} ranges are shown; --format csv prints all bills",
            table.rows.len()
        ));
        table.rows.truncate(MAX_SEGMENTS);
    }
    let heads: Vec<String> = found.providers.clone();
    let columns: Vec<&str> = std::iter::once("amount").chain(heads.iter().map(String::as_str)).collect();
    let mut figures = Table::new("", &columns);
    for point in &found.points {
        let totals = point.totals_usd.iter().map(|t| t.map_or(String::new(), |t| t.to_string()));
        figures.row(std::iter::once(point.amount.to_string()).chain(totals));
    }
    let points = |at: usize| -> Vec<_> {
        let of = |p: &plimsoll_cost::breakeven::Point| p.totals_usd[at].map(|t| (p.amount, dollars(t)));
        found.points.iter().step_by(4).filter_map(of).collect()
    };
    Document {
        links: Vec::new(),
        title: format!("Break-even by {}", found.vary.name()),
        what,
        answer: sentence(found, titles),
        premise: String::new(),
        warnings: Vec::new(),
        tables: vec![table],
        notes,
        figures,
        charts: json!({
            "subjects": titles.iter().map(|t| json!({ "name": t })).collect::<Vec<_>>(),
            "breakeven": {
                "axis": found.vary.name(),
                "bytes": found.vary.is_bytes(),
                "lines": (0..titles.len()).map(points).collect::<Vec<_>>(),
                "crossings": found.segments.iter().skip(1).take(8)
                    .map(|s| json!([s.from, amount(found.vary, s.from)])).collect::<Vec<_>>(),
            },
        }),
    }
}
