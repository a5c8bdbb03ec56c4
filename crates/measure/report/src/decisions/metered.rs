//! Document with the requests of a metered command and their bills.

use super::bills::quantity;
use super::from_log::{LogBills, document as of_log};
use plimsoll_base::provider::calls::Call;
use plimsoll_base::units::{format_bytes, format_count, format_volume};
use plimsoll_bills::advise::metered::{BoundResult, Metered, counts};
use plimsoll_cost::bill::meter_of;
use plimsoll_cost::money::Usd;
use plimsoll_cost::tariff::Tariff;
use plimsoll_document::{Document, Table};
use plimsoll_experiment::logs::usage::Requests;
use serde::Serialize;

/// A metered command with its bills, as `plimsoll meter --json` prints it.
#[derive(Debug, Serialize)]
pub struct MeterBills {
    /// Requests of the command.
    #[serde(flatten)]
    pub metered: Metered,
    /// Number of runs of the bills.
    pub runs_per_month: u64,
    /// Bounds of `--fail-if`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<BoundResult>,
    /// Warnings about the counts and the prices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Bills of a month.
    #[serde(flatten)]
    pub bills: LogBills,
}

/// Operations with their kinds on a bill.
pub type Kinds<'a> = &'a [(String, Option<Call>)];

fn operations(metered: &Metered, kinds: Kinds<'_>, tariffs: &[Tariff]) -> Table {
    let classes: Vec<String> = tariffs.iter().map(|tariff| format!("class at {}", tariff.offer)).collect();
    let columns: Vec<&str> = ["operation", "requests#", "failed#", "object bytes#"]
        .into_iter()
        .chain(classes.iter().map(String::as_str))
        .collect();
    let mut table = Table::new("Requests", &columns);
    for (name, counted) in &metered.operations {
        let call = kinds.iter().find(|(known, _)| known == name).and_then(|(_, call)| *call);
        let class = |tariff: &Tariff| match call.map(|call| meter_of(tariff, call)) {
            Some(Some(meter)) => meter.item.clone(),
            Some(None) => "free".into(),
            None => "unknown".into(),
        };
        let first = [
            name.clone(),
            format_count(counted.requests),
            format_count(counted.failed),
            format_volume(counted.bytes),
        ];
        table.row(first.into_iter().chain(tariffs.iter().map(class)).collect::<Vec<_>>());
    }
    table
}

/// Exponents of the largest sizes of the rows of the table of sizes.
const EDGES: [u32; 7] = [0, 10, 14, 17, 20, 23, 26];

fn sizes(requests: &Requests) -> Option<Table> {
    let calls: Vec<Call> =
        Call::ALL.into_iter().filter(|call| requests.sizes.keys().any(|(known, _)| known == call)).collect();
    let names: Vec<String> = calls.iter().map(|call| format!("{}#", call.name())).collect();
    let columns: Vec<&str> = ["object bytes"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new("Successful requests by the object bytes that they move", &columns);
    let mut above = None;
    for edge in EDGES.into_iter().chain([u64::BITS]) {
        let counts: Vec<u64> = calls
            .iter()
            .map(|call| {
                let here = |(known, class): &(Call, u32)| {
                    known == call && *class <= edge && above.is_none_or(|above| *class > above)
                };
                requests.sizes.iter().filter(|(key, _)| here(key)).map(|(_, count)| count).sum()
            })
            .collect();
        let name = match (edge, above) {
            (u64::BITS, Some(above)) => format!("more than {}", format_bytes(1 << above)),
            (0, _) => "0 or 1 B".into(),
            (edge, _) => format!("up to {}", format_bytes(1 << edge)),
        };
        above = Some(edge);
        if counts.iter().any(|count| *count > 0) {
            let counts = counts.into_iter().map(format_count);
            table.row([name].into_iter().chain(counts).collect::<Vec<_>>());
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn one_run(metered: &Metered) -> Option<Table> {
    let mut rows: Vec<(&String, &Usd)> = metered.one_run_usd.iter().collect();
    rows.sort_by_key(|(name, usd)| (**usd, *name));
    let mut table = Table::new(
        "One run, at list prices of the first tier, without allowances and storage",
        &["provider", "one run#", "1,000 runs#"],
    );
    for (name, usd) in rows {
        let thousand = Usd::from_pico(usd.pico().saturating_mul(1000));
        table.row([name.clone(), price(*usd), thousand.rounded()]);
    }
    (table.rows.len() > 1).then_some(table)
}

/// Formats an amount that may be far below a cent.
fn price(usd: Usd) -> String {
    format!("${}", quantity(&usd.to_string()))
}

fn answer(found: &MeterBills) -> String {
    let metered = &found.metered;
    let moved = format!("{} written, {} read", format_volume(metered.written), format_volume(metered.read));
    let who = match (metered.command.is_empty(), metered.exit_status) {
        (true, _) | (_, Some(0)) => String::new(),
        (_, Some(status)) => format!("The command failed with exit status {status}. Until then: "),
        (_, None) => "A signal ended the command. Until then: ".into(),
    };
    let least = metered.one_run_usd.iter().min_by_key(|(_, usd)| **usd);
    let most = metered.one_run_usd.iter().max_by_key(|(_, usd)| **usd);
    let costs = match (least, most) {
        (Some((name, usd)), Some((other, _))) if name == other => {
            format!("; one such run costs {} at {name}", price(*usd))
        }
        (Some((name, usd)), Some((other, more))) => {
            format!("; one such run costs {} at {name} and {} at {other}", price(*usd), price(*more))
        }
        _ => String::new(),
    };
    format!("{who}{}, {moved}{costs}.", counts(metered))
}

/// Builds the document of a metered command. `kinds` are the kinds of its operations on a bill, and `shown` are the
/// providers whose classes are shown.
pub fn document(found: &MeterBills, requests: &Requests, kinds: Kinds<'_>, shown: &[Tariff]) -> Document {
    let runs = match found.runs_per_month {
        1 => "one run a month".to_string(),
        runs => format!("{} runs a month", format_count(runs)),
    };
    let mut document = of_log(&found.bills, Vec::new());
    document.title = "Requests of a command, and their cost".into();
    document.what = vec![format!("{}: {runs}", describe(&found.metered))];
    let month = std::mem::replace(&mut document.answer, answer(found));
    document.notes.insert(0, format!("{runs}: {month}"));
    let first = [Some(operations(&found.metered, kinds, shown)), sizes(requests), one_run(&found.metered)];
    document.tables.splice(0..0, first.into_iter().flatten());
    if let Some(table) = document.tables.iter_mut().find(|table| table.head.starts_with("Bills")) {
        table.head = format!("Bills of {runs}, cheapest first");
    }
    document
}

/// Returns the command as a shell shows it.
fn describe(metered: &Metered) -> String {
    match metered.command.is_empty() {
        true => "requests from outside".into(),
        false => metered.command.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_the_row_whose_edge_is_not_below_them() {
        let classes = [((Call::PutObject, 0), 1), ((Call::PutObject, 10), 2), ((Call::GetObject, 40), 3)];
        let requests = Requests { sizes: classes.into(), ..Requests::default() };
        let table = sizes(&requests).unwrap();
        assert_eq!(
            table.rows,
            [["0 or 1 B", "1", "0"], ["up to 1 KiB", "2", "0"], ["more than 64 MiB", "0", "3"]]
        );
        assert!(sizes(&Requests::default()).is_none());
    }
}
