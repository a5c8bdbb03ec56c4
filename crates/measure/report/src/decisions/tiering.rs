//! Document with the cost and latency of tiering between a hot and a cold store.

use serde_json::json;

use super::bills::{itemised, sources};
use super::dollars;
use plimsoll_base::units::format_ms;
use plimsoll_cost::bill::Bill;
use plimsoll_cost::blend::Bounds;
use plimsoll_cost::tiering::Age;
use plimsoll_document::{Document, Table};

/// Result of `plimsoll cost tiering`.
#[derive(Debug)]
pub struct TieringAnswer<'a> {
    /// Name of the store for young objects.
    pub hot: &'a str,
    /// Name of the store for old objects.
    pub cold: &'a str,
    /// All ages that have a bill.
    pub ages: &'a [Age],
    /// Retention of the objects, in days. At this age, no object is ever moved.
    pub whole_days: u64,
    /// Age that the user requested.
    pub asked: &'a Age,
    /// Bills of the hot and the cold store for the requested age.
    pub bills: &'a (Bill, Bill),
    /// Cheapest age that qualifies; `None` if there is none.
    pub best: Option<&'a Age>,
    /// Bound on the p99 of reads for the cheapest age, in milliseconds; `None` if there is none.
    pub within: Option<f64>,
}

/// Formats the bounds of a percentile, as one value if they are equal when formatted.
pub fn bounds(bounds: Option<Bounds>) -> String {
    let Some(Bounds { low_ms, high_ms }) = bounds else { return "-".into() };
    match high_ms {
        Some(high) if format_ms(high) == format_ms(low_ms) => format!("{} ms", format_ms(high)),
        Some(high) => format!("{}..{} ms", format_ms(low_ms), format_ms(high)),
        None => format!("> {} ms", format_ms(low_ms)),
    }
}

/// Returns the ages that the table shows: some fixed ones, the requested age, the cheapest one and the retention.
fn rows(found: &TieringAnswer<'_>) -> Vec<u64> {
    let last = found.whole_days;
    let mut days = vec![0, 1, 2, 3, 5, 7, 14, 21, 30, 60, 90, 180, 365, found.asked.hot_days, last];
    days.extend(found.best.map(|b| b.hot_days));
    days.retain(|d| *d <= last);
    days.sort_unstable();
    days.dedup();
    days
}

fn table(found: &TieringAnswer<'_>) -> Table {
    let blended = found.asked.p99_ms.is_some();
    let hot = format!("{}#", found.hot);
    let cold = format!("{}#", found.cold);
    let mut columns = vec!["moved after", "hot reads#", &hot, &cold, "per month#", "of which moving#"];
    if blended {
        columns.extend(["read p50#", "read p99#"]);
    }
    columns.push("");
    let mut table = Table::new("Monthly cost by the age at which objects move", &columns);
    let last = found.whole_days;
    for age in rows(found).iter().filter_map(|d| found.ages.iter().find(|a| a.hot_days == *d)) {
        let when = match age.hot_days {
            0 => format!("0 days: all in {}", found.cold),
            days if days == last => format!("never: all in {}", found.hot),
            1 => "1 day".into(),
            days => format!("{days} days"),
        };
        let mut row = vec![
            when,
            format!("{:.1}%", 100.0 * age.hot_reads),
            age.hot_usd.rounded(),
            age.cold_usd.rounded(),
            age.total_usd.rounded(),
            age.migration_usd.rounded(),
        ];
        if blended {
            row.extend([bounds(age.p50_ms), bounds(age.p99_ms)]);
        }
        let is = |other: &Age| other.hot_days == age.hot_days;
        row.push(match (is(found.asked), found.best.is_some_and(is)) {
            (true, true) => "requested; best".into(),
            (true, false) => "requested".into(),
            (false, true) => "best".into(),
            _ => String::new(),
        });
        table.row(row);
    }
    table
}

fn answer(found: &TieringAnswer<'_>) -> String {
    let ms = found.within.map(|ms| format!("a read p99 within {} ms, by the known latencies", format_ms(ms)));
    let condition = ms.as_ref().map(|ms| format!(" with {ms}")).unwrap_or_default();
    let last = found.whole_days;
    let requested = format!(
        "Moving after {} days costs {} a month",
        found.asked.hot_days,
        found.asked.total_usd.rounded()
    );
    match found.best {
        None => format!("{requested}; no age has {}.", ms.unwrap_or_else(|| "a bill".into())),
        Some(best) if best.hot_days == found.asked.hot_days => {
            format!("{requested}, the cheapest of all ages{condition}.")
        }
        Some(best) => {
            let saved = found.asked.total_usd - best.total_usd;
            let place = match best.hot_days {
                0 => format!("all in {}", found.cold),
                days if days == last => format!("all in {}", found.hot),
                days => format!("moving after {days} days"),
            };
            let difference = if saved > plimsoll_cost::money::Usd::ZERO {
                format!(", {} less", saved.rounded())
            } else {
                String::new()
            };
            format!(
                "{requested}; the cheapest option{condition} is {place} at {}{difference}.",
                best.total_usd.rounded()
            )
        }
    }
}

/// Builds the document for a result.
pub fn document(
    found: &TieringAnswer<'_>,
    what: Vec<String>,
    warnings: Vec<String>,
    mut notes: Vec<String>,
) -> Document {
    let (hot, cold) = found.bills;
    let mut figures = Table::new(
        "",
        &[
            "hot_days",
            "hot_reads",
            "hot_usd",
            "cold_usd",
            "migration_usd",
            "total_usd",
            "p50_low_ms",
            "p50_high_ms",
            "p99_low_ms",
            "p99_high_ms",
        ],
    );
    let end = |b: Option<Bounds>| {
        let high = b.and_then(|b| b.high_ms).map(|ms| ms.to_string()).unwrap_or_default();
        [b.map(|b| b.low_ms.to_string()).unwrap_or_default(), high]
    };
    for age in found.ages {
        let money = [age.hot_usd, age.cold_usd, age.migration_usd, age.total_usd].map(|usd| usd.to_string());
        let first = [age.hot_days.to_string(), age.hot_reads.to_string()];
        figures.row(first.into_iter().chain(money).chain(end(age.p50_ms)).chain(end(age.p99_ms)));
    }
    notes.extend(sources(&[hot, cold]));
    let step = found.ages.len().div_ceil(400);
    let drawn: Vec<&Age> = found.ages.iter().step_by(step).collect();
    Document {
        links: Vec::new(),
        title: format!("{} for young objects, {} for old ones", found.hot, found.cold),
        what,
        answer: answer(found),
        premise: String::new(),
        warnings,
        tables: vec![table(found), itemised(hot), itemised(cold)],
        notes,
        figures,
        charts: json!({ "tiering": {
            "hot": found.hot,
            "cold": found.cold,
            "ages": drawn.iter().map(|a| a.hot_days).collect::<Vec<_>>(),
            "hot_usd": drawn.iter().map(|a| dollars(a.hot_usd)).collect::<Vec<_>>(),
            "cold_usd": drawn.iter().map(|a| dollars(a.cold_usd)).collect::<Vec<_>>(),
            "total_usd": drawn.iter().map(|a| dollars(a.total_usd)).collect::<Vec<_>>(),
            "p99_low": drawn.iter().map(|a| a.p99_ms.map(|p| p.low_ms)).collect::<Vec<_>>(),
            "p99_high": drawn.iter().map(|a| a.p99_ms.and_then(|p| p.high_ms)).collect::<Vec<_>>(),
            "asked": found.asked.hot_days,
            "best": found.best.map(|b| b.hot_days),
        }}),
    }
}
